package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/core/place"
)

// This file finds why a pod may not go to a node by the node's name, taints and labels, like kube-scheduler's plugins
// NodeName, NodeUnschedulable, TaintToleration and NodeAffinity.

// RequiredAffinity returns the required node affinity of a pod, without its node selector.
func RequiredAffinity(p *v1.Pod) nodeaffinity.RequiredNodeAffinity {
	return nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: v1.PodSpec{Affinity: p.Spec.Affinity}})
}

// Bars returns all reasons why a pod may not go to a node by the node's name, taints and labels. affinity is the result
// of RequiredAffinity for the pod.
func Bars(p *v1.Pod, affinity nodeaffinity.RequiredNodeAffinity, n *v1.Node) (out []place.Reason, err error) {
	if p.Spec.NodeName != "" && p.Spec.NodeName != n.Name {
		out = append(out, place.Reason{Code: place.NamesOther, With: p.Spec.NodeName})
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !Tolerated(p, cordon) {
		out = append(out, place.Reason{Code: place.Cordoned})
	}
	for _, t := range n.Spec.Taints {
		// The node controller taints nodes that are cordoned: one reason is enough.
		if t.Effect == v1.TaintEffectPreferNoSchedule || n.Spec.Unschedulable && t.MatchTaint(&cordon) || Tolerated(p, t) {
			continue
		}
		out = append(out, place.Reason{Code: place.Tainted, Resource: t.ToString()})
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		want := p.Spec.NodeSelector[key]
		if has, labelled := n.Labels[key]; has != want || !labelled {
			out = append(out, place.Reason{Code: place.Unselected, Resource: key + "=" + want, With: has})
		}
	}
	ok, err := affinity.Match(n)
	if err != nil {
		return nil, fmt.Errorf("node affinity: %w", err)
	}
	if !ok {
		out = append(out, place.Reason{Code: place.OtherAffinity})
	}
	return out, nil
}

// Tolerated reports whether a pod tolerates a taint, by the rules of ToleratesTaint in k8s.io/api/core/v1, whose
// arguments differ between releases. It ignores tolerations with the operators Lt and Gt, which need a feature gate
// that is off by default in 1.36.
func Tolerated(p *v1.Pod, t v1.Taint) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(l v1.Toleration) bool {
		if l.Effect != "" && l.Effect != t.Effect || l.Key != "" && l.Key != t.Key {
			return false
		}
		switch l.Operator {
		case v1.TolerationOpExists:
			return true
		case "", v1.TolerationOpEqual:
			return l.Value == t.Value
		}
		return false
	})
}

// DeviceCapacity returns a node's capacity of each extended resource if less is allocatable now, because devices are
// unhealthy or their plugin does not run.
func DeviceCapacity(n *v1.Node) (out map[string]int64) {
	for name, all := range n.Status.Capacity {
		now := n.Status.Allocatable[name]
		if !strings.Contains(string(name), "/") || all.Cmp(now) <= 0 {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[string(name)] = all.Value()
	}
	return out
}

// GoesWithNode reports whether a pod goes away with its node: it is static, or a DaemonSet controls it.
func GoesWithNode(p *v1.Pod) bool {
	if _, mirror := p.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}
