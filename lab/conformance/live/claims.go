package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/workload"
)

// numaAttribute is the attribute of devices that has their NUMA node.
const numaAttribute = "resource.kubernetes.io/numaNode"

// driver returns the name of the driver of a class.
func driver(class string) string { return class + ".dra.example.com" }

// withClaims reports whether a case has devices for claims.
func withClaims(c *conformance.Case) bool { return c.Area == conformance.AreaClaims }

// publishDevices publishes the devices of all cases as their drivers would, with classes and templates, and starts the
// controller that makes claims of templates and releases them.
func (c *cluster) publishDevices(ctx context.Context, cases []*conformance.Case) error {
	c.devices = map[string][]judge.Device{}
	for _, one := range cases {
		if !withClaims(one) {
			continue
		}
		for _, n := range one.Nodes {
			name := fullName(one, n.Name)
			devices, err := n.Devices(c.machines[name].Topo)
			if err != nil {
				return err
			}
			c.devices[name] = devices
			if err := c.publishNode(ctx, name, c.machines[name].Topo, devices); err != nil {
				return err
			}
		}
		for name, w := range one.Templates() {
			if err := c.publishTemplate(ctx, name, w); err != nil {
				return err
			}
		}
	}
	if len(c.devices) == 0 {
		return nil
	}
	var err error
	c.manager, err = controllers.Start(c.lab.Dir, c.lab.KubeconfigPath)
	return err
}

// publishNode writes a ResourceSlice for each class of a node's devices, and the classes.
func (c *cluster) publishNode(ctx context.Context, node string, m *topo.Machine, devices []judge.Device) error {
	parts := map[string]*resourcev1.ResourceSlice{}
	for _, d := range devices {
		s := parts[d.Class]
		if s == nil {
			s = &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + d.Class}}
			s.Spec = resourcev1.ResourceSliceSpec{Driver: driver(d.Class), NodeName: &node,
				Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
			parts[d.Class] = s
		}
		one := resourcev1.Device{Name: d.Name}
		for _, id := range m.IDs(d.NUMAs) {
			one.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				numaAttribute: {IntValue: ptr.To(int64(id))}}
		}
		s.Spec.Devices = append(s.Spec.Devices, one)
	}
	api := c.client.ResourceV1()
	for class, s := range parts {
		made := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		made.Spec.ExtendedResourceName = ptr.To(judge.ExtendedPrefix + class)
		made.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driver(class))}}}
		_, err := api.DeviceClasses().Create(ctx, made, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create device class %s: %w", class, err)
		}
		if _, err := api.ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create resource slice %s: %w", s.Name, err)
		}
	}
	return nil
}

// publishTemplate writes a template for claims.
func (c *cluster) publishTemplate(ctx context.Context, name string, w judge.Wanted) error {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "devices", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: w.Class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(w.Count)}}}
	_, err := c.client.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Create(ctx, t, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create claim template %s: %w", name, err)
	}
	return nil
}

// awaitReleased waits until pods that have ended have no devices any more. It reports whether it had to wait.
func (p *played) awaitReleased(ctx context.Context, pods []*v1.Pod) (waited bool, err error) {
	for {
		held, err := p.claimed(ctx)
		if err != nil {
			return waited, err
		}
		for _, pod := range pods {
			if pod.Status.Phase != v1.PodFailed {
				delete(held, pod.UID)
			}
		}
		if len(held) == 0 {
			return waited, nil
		}
		waited = true
		if err := workload.Sleep(ctx, 200*time.Millisecond); err != nil {
			return waited, fmt.Errorf("wait for the release of claims: %w", err)
		}
	}
}

// claimed returns the devices of the case that claims have, by the UIDs of their pods.
func (p *played) claimed(ctx context.Context) (map[types.UID][]judge.Device, error) {
	out := map[types.UID][]judge.Device{}
	if !withClaims(p.c) {
		return out, nil
	}
	list, err := p.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list resource claims: %w", err)
	}
	for _, n := range p.c.Nodes {
		pool := fullName(p.c, n.Name)
		for _, claim := range list.Items {
			owner := metav1.GetControllerOf(&claim)
			if owner == nil || claim.Status.Allocation == nil {
				continue
			}
			for _, r := range claim.Status.Allocation.Devices.Results {
				i := slices.IndexFunc(p.devices[pool], func(d judge.Device) bool { return r.Pool == pool && d.Name == r.Device })
				if i >= 0 {
					out[owner.UID] = append(out[owner.UID], p.devices[pool][i])
				}
			}
		}
	}
	return out, nil
}

// addClaimed adds the devices of claims to the nodes of a state.
func (p *played) addClaimed(ctx context.Context, s *conformance.State) error {
	held, err := p.claimed(ctx)
	if err != nil {
		return err
	}
	for _, n := range s.Nodes {
		n.Claimable, n.Claimed = p.devices[fullName(p.c, n.Object.Name)], map[types.UID][]judge.Claimed{}
		for _, pod := range n.Pods {
			wanted, err := judge.WantedBy(pod)
			if err != nil {
				return err
			}
			for _, d := range held[pod.UID] {
				n.Claimed[pod.UID] = append(n.Claimed[pod.UID], judge.Claimed{Container: wanted[0].Container, Device: d})
			}
		}
	}
	return nil
}
