package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/workload"
)

// gpuDriver is the name of the driver whose ResourceSlices the act about claims publishes, and of its DeviceClass.
const gpuDriver = "gpu.example.com"

// gpuNUMAs has the NUMA nodes of a node's GPUs in the order of their names. On many servers the GPUs with the lowest
// numbers are not on NUMA node 0: on NVIDIA's DGX A100 the first two are on NUMA node 3.
var gpuNUMAs = []int64{1, 1, 0, 0, 1, 1, 0, 0}

// claimNodes returns the nodes of the act about claims. They have no device plugin.
func claimNodes() (out []lab.Node) {
	for i := range 4 {
		out = append(out, lab.Node{Name: fmt.Sprintf("dra-%d", i+1), Machine: "dra"})
	}
	return out
}

// claimPods returns pods that are created at once. Those that claim GPUs request seven CPUs for each, and all GPUs of
// the cluster together. All fit if every pod gets the right place. The seed determines the order of arrival.
func claimPods(seed uint64) (out []*v1.Pod) {
	add := func(count, gpus int) {
		for i := range count {
			p := pod(fmt.Sprintf("train-%dgpu-%d", gpus, i+1), fmt.Sprint(7*gpus), fmt.Sprintf("%dGi", 24*gpus), nil)
			template := fmt.Sprintf("gpus-%d", gpus)
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
			p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpus"}}
			out = append(out, p)
		}
	}
	add(1, 4)
	add(3, 3)
	add(6, 2)
	add(7, 1)
	for i := range 6 {
		out = append(out, pod(fmt.Sprintf("loader-%d", i+1), "2", "4Gi", nil))
	}
	r := rand.New(rand.NewPCG(seed, 4))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// onClaims plays the act about claims, on a cluster of its own. The package publishes what a driver would.
func (o Options) onClaims(ctx context.Context) (out *document.DemoClaims, err error) {
	d, err := open(ctx, o, lab.Config{Nodes: claimNodes()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	manager, err := controllers.Start(d.cluster.Dir, d.cluster.KubeconfigPath)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	if err := d.publishGPUs(ctx); err != nil {
		return nil, err
	}
	out = &document.DemoClaims{Nodes: len(d.cluster.Nodes)}
	for seed := d.Seed; seed < d.Seed+uint64(d.Seeds); seed++ {
		for _, by := range schedulers() {
			r, err := d.claimRound(ctx, by, seed)
			if err != nil {
				return nil, fmt.Errorf("claims under %s, seed %d: %w", by.name, seed, err)
			}
			d.Progress(fmt.Sprintf("seed %d, %s: %d of %d pods run aligned, %d with GPUs elsewhere than their CPUs, refusals %d",
				seed, by.name, r.Aligned, r.Asked, r.Apart, r.Refusals))
			out.Rounds = append(out.Rounds, r)
		}
	}
	return out, nil
}

// publishGPUs creates a DeviceClass, a ResourceSlice for each node, and templates for claims of one to four GPUs.
func (d *demo) publishGPUs(ctx context.Context) error {
	api := d.client.ResourceV1()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: gpuDriver}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}}
	if _, err := api.DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create class %s: %w", gpuDriver, err)
	}
	for _, n := range claimNodes() {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &n.Name,
			Pool: resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1}}
		for i := range gpuNUMAs {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i),
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"resource.kubernetes.io/numaNode": {IntValue: &gpuNUMAs[i]}}})
		}
		if _, err := api.ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create slice of node %s: %w", n.Name, err)
		}
	}
	for count := int64(1); count <= 4; count++ {
		t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpus-%d", count)}}
		t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: gpuDriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}}
		_, err := api.ResourceClaimTemplates(metav1.NamespaceDefault).Create(ctx, t, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create template %s: %w", t.Name, err)
		}
	}
	return nil
}

// claimRound lets one scheduler place the pods of one seed, returns what has become of them, and removes them.
func (d *demo) claimRound(ctx context.Context, by contender, seed uint64) (r document.DemoClaimsRound, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, actTimeout, fmt.Errorf("not settled after %s", actTimeout))
	defer cancel()
	wanted := claimPods(seed)
	r = document.DemoClaimsRound{Seed: seed, Scheduler: by.name, Asked: len(wanted)}
	played := document.DemoRound{Refused: map[string]int{}}
	var pods []*v1.Pod
	err = d.withScheduler(by.profiles, nil, func() (err error) {
		if err = workload.Create(ctx, d.client, wanted...); err == nil {
			pods, err = d.play(ctx, &played, time.Now())
		}
		return err
	})
	if err != nil {
		return r, err
	}
	r.Refusals = played.Refusals()
	nodes, err := d.awaitReports(ctx)
	if err != nil {
		return r, err
	}
	for _, p := range pods {
		if err := d.countClaims(ctx, &r, p, nodes); err != nil {
			return r, err
		}
	}
	if err := d.clearPods(ctx); err != nil {
		return r, err
	}
	return r, d.awaitNoClaims(ctx)
}

// countClaims adds a pod to the results of a round, by its claim in the API server and by what its node has reported.
func (d *demo) countClaims(ctx context.Context, r *document.DemoClaimsRound, p *v1.Pod, nodes []*state.Node) error {
	switch fate, _ := workload.FateOf(p); {
	case fate != workload.Running:
		r.Waiting++
		return nil
	case len(p.Spec.ResourceClaims) == 0:
		r.Aligned++
		return nil
	}
	name := claims.NamedBy(p)[0].Claim // its only one
	claim, err := d.client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read claim of pod %s: %w", p.Name, err)
	}
	on := slices.IndexFunc(nodes, func(n *state.Node) bool { return n.Name == p.Spec.NodeName })
	if on < 0 {
		return fmt.Errorf("pod %s runs on node %s, which has no layout", p.Name, p.Spec.NodeName)
	}
	e, ok := nodes[on].Entry(string(p.UID))
	if !ok {
		return fmt.Errorf("node %s has not reported pod %s", p.Spec.NodeName, p.Name)
	}
	near := nodes[on].Machine.IDs(place.ExtentOf(nodes[on].Machine, e.Holdings...).NUMAs)
	devices, apart := claims.DevicesOf(claim.Status.Allocation), []string(nil)
	for _, id := range devices {
		var at int
		if _, err := fmt.Sscanf(id.Name, "gpu-%d", &at); err != nil || at >= len(gpuNUMAs) {
			return fmt.Errorf("pod %s has the unknown device %s", p.Name, id)
		}
		if !slices.Contains(near, idset.NUMA(gpuNUMAs[at])) {
			apart = append(apart, fmt.Sprintf("%s on NUMA node %d", id.Name, gpuNUMAs[at]))
		}
	}
	if len(apart) == 0 {
		r.Aligned++
		return nil
	}
	r.Apart++
	if r.Example == "" {
		r.Example = fmt.Sprintf("%s on %s: CPUs and memory on NUMA node %s, %d of %d GPUs elsewhere: %s", p.Name,
			p.Spec.NodeName, idset.Of(near...), len(apart), len(devices), strings.Join(apart, ", "))
	}
	return nil
}

// awaitNoClaims waits until the controllers have deleted the claims of deleted pods.
func (d *demo) awaitNoClaims(ctx context.Context) error {
	left := 0
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		list, err := d.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("list claims: %w", err)
		}
		left = len(list.Items)
		return left == 0, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait until %d claims are deleted: %w", left, context.Cause(ctx))
	}
	return err
}
