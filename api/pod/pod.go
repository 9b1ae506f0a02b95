// Package pod converts a v1.Pod to core values: a place.Pod and a place.Demand.
//
// It is a separate module that needs no module of Kubernetes but k8s.io/api and k8s.io/apimachinery. So a program
// with libraries of another release can import it. Invariant: a value that is not understood, or that is beyond every
// machine, is an error that names the pod, the container and the value, never a silent default. The package neither
// changes nor keeps pods, and the cost of a conversion is bounded for any quantities. It does not repeat the API
// server's validation.
//
// Its exported names follow semantic versions, like those of module core; see the documentation of package place.
package pod

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// ToPlace returns the parts of a pod that the kubelet's managers read. The API server must have set the pod's
// defaults: with these, a container without requests has its limits as requests. The quality of service class is
// taken from the status if it has one, and computed otherwise.
func ToPlace(p *v1.Pod) (*place.Pod, error) {
	out := &place.Pod{QoS: class(p), PodLevel: podLevel(p)}
	if out.PodLevel {
		var err error
		if out.Whole.MilliCPU, out.Whole.Memory, err = amounts(p.Spec.Resources.Requests); err != nil {
			return nil, fmt.Errorf("pod %s/%s: resources of the pod: %w", p.Namespace, p.Name, err)
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		kind := place.Init
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = place.Sidecar
		}
		if err := add(out, c, kind); err != nil {
			return nil, fmt.Errorf("pod %s/%s: init container %s: %w", p.Namespace, p.Name, c.Name, err)
		}
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if err := add(out, c, place.App); err != nil {
			return nil, fmt.Errorf("pod %s/%s: container %s: %w", p.Namespace, p.Name, c.Name, err)
		}
	}
	return out, nil
}

// add appends a container with its requests, and the devices of its limits, in ascending order of name.
func add(out *place.Pod, c *v1.Container, kind place.Kind) error {
	pc := place.Container{Name: c.Name, Kind: kind}
	// To containers of a pod with resources of its own, the kubelet applies the rule by which a pod is Guaranteed
	// (pkg/kubelet/cm/qos/helpers.go).
	pc.Unequal = out.PodLevel && classOf(&c.Resources) != place.Guaranteed
	var err error
	if pc.MilliCPU, pc.Memory, err = amounts(c.Resources.Requests); err != nil {
		return err
	}
	for name, q := range c.Resources.Limits {
		if !extended(name) {
			continue
		}
		n, err := whole(name, q, 1)
		if err != nil {
			return err
		}
		pc.Devices = append(pc.Devices, place.Count{Resource: string(name), N: n})
	}
	slices.SortFunc(pc.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
	out.Containers = append(out.Containers, pc)
	return nil
}

// amounts returns the CPUs and the memory that a list requests, memory in ascending order of kind.
func amounts(list v1.ResourceList) (milliCPU int64, memory []place.Amount, err error) {
	for name, q := range list {
		switch {
		case name == v1.ResourceCPU:
			if milliCPU, err = whole(name, q, 1000); err != nil {
				return 0, nil, err
			}
		case name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
			n, err := whole(name, q, 1)
			if err != nil {
				return 0, nil, err
			}
			// The kubelet reads a quantity in the API server's form, so 1000m is one byte. Zero is not compared: with a
			// large exponent the comparison would take very long.
			fractional := !q.IsZero() && q.CmpInt64(n) != 0
			memory = append(memory, place.Amount{Kind: string(name), Bytes: n, Fractional: fractional})
		}
	}
	slices.SortFunc(memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	return milliCPU, memory, nil
}

// whole returns a quantity times scale, which is 1 or 1000, rounded up to a whole number. A quantity that is negative
// or beyond every machine is an error.
func whole(name v1.ResourceName, q resource.Quantity, scale int64) (int64, error) {
	if !quantity.Within(q, topo.MaxBytes) {
		return 0, fmt.Errorf("%s: quantity %s is outside 0..%d", name, quantity.Text(q), int64(topo.MaxBytes))
	}
	switch {
	case q.IsZero():
		return 0, nil
	case scale == 1000:
		return q.MilliValue(), nil
	}
	return q.Value(), nil
}

// extended reports whether a device plugin may serve a resource. Native resources have no domain, or one that ends in
// kubernetes.io.
func extended(name v1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}
