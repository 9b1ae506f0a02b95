// Package kube translates between the API server's objects and core values: Pod to place.Pod,
// NodeLayout to ledger.Layout, and the event streams of both into a ledger.Book.
//
// Invariant: a translation is total: what it does not understand is an error that names the object and
// the value, never a silent default, and an object that is refused harms no other. The package refuses
// to write anything: the conditions of a NodeLayout are package sched's.
package kube

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubectl/pkg/util/qos"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// ID names a pod for the ledger.
func ID(pod *v1.Pod) ledger.PodID {
	return ledger.PodID{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
}

// Pod translates what a node's managers look at. The pod is not changed and not kept.
func Pod(pod *v1.Pod) (*place.Pod, error) {
	out := &place.Pod{QoS: class(pod), PodLevel: resourcehelper.IsPodLevelResourcesSet(pod)}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := place.Init
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = place.Sidecar
		}
		if err := add(out, c, kind); err != nil {
			return nil, fmt.Errorf("pod %s/%s: init container %s: %w", pod.Namespace, pod.Name, c.Name, err)
		}
	}
	for i := range pod.Spec.Containers {
		if err := add(out, &pod.Spec.Containers[i], place.App); err != nil {
			return nil, fmt.Errorf("pod %s/%s: container %s: %w", pod.Namespace, pod.Name, pod.Spec.Containers[i].Name, err)
		}
	}
	return out, nil
}

func class(pod *v1.Pod) place.QoS {
	// The API server sets the class in the status; for other pods it is computed from sums.
	if pod.Status.QOSClass == "" {
		pod = quantity.ClampPod(pod)
	}
	switch qos.GetPodQOS(pod) {
	case v1.PodQOSGuaranteed:
		return place.Guaranteed
	case v1.PodQOSBurstable:
		return place.Burstable
	default:
		return place.BestEffortQoS
	}
}

func add(out *place.Pod, c *v1.Container, kind place.Kind) error {
	pc := place.Container{Name: c.Name, Kind: kind}
	for name, q := range c.Resources.Requests {
		switch {
		case name == v1.ResourceCPU:
			n, err := whole(name, q, 1000)
			if err != nil {
				return err
			}
			pc.MilliCPU = n
		case name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
			n, err := whole(name, q, 1)
			if err != nil {
				return err
			}
			// The kubelet reads a quantity as the API server writes it, so 1000m is one byte. To compare zero costs
			// as much as its exponent says, which may be anything.
			pc.Memory = append(pc.Memory, place.Amount{Kind: string(name), Bytes: n, Fractional: !q.IsZero() && q.CmpInt64(n) != 0})
		}
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
	slices.SortFunc(pc.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(pc.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
	out.Containers = append(out.Containers, pc)
	return nil
}

// whole returns a quantity times scale, within the bounds of a machine.
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

// extended reports whether a resource may be served by a device plugin: what is not native, as
// Kubernetes tells them apart.
func extended(name v1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// Started reports whether the pod's kubelet has dealt with it: the kubelet sets startTime when it first
// reports a pod that it admitted.
func Started(pod *v1.Pod) bool { return pod.Status.StartTime != nil }

// Ended reports whether the pod holds nothing any more.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Rejection returns why the pod's kubelet refused it for the sake of alignment.
func Rejection(pod *v1.Pod) (why place.Error, ok bool) {
	switch e := place.Error(pod.Status.Reason); e {
	case place.TopologyAffinityError, place.SMTAlignmentError, place.UnexpectedAdmissionError:
		return e, pod.Status.Phase == v1.PodFailed
	}
	return "", false
}
