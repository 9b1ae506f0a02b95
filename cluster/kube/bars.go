package kube

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/core/place"
)

// This file finds why a pod may not go to a node by the node's name, taints and labels, like kube-scheduler's plugins
// NodeName, NodeUnschedulable, TaintToleration and NodeAffinity. It calls the functions that these plugins call
// (k8s.io/component-helpers).

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
	if len(p.Spec.NodeSelector) > 0 {
		for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
			want := p.Spec.NodeSelector[key]
			if has, labelled := n.Labels[key]; has != want || !labelled {
				out = append(out, place.Reason{Code: place.Unselected, Resource: key + "=" + want, With: has})
			}
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

// Tolerated reports whether a pod tolerates a taint. It ignores tolerations with the operators Lt and Gt, which need
// a feature gate that is off by default in 1.36.
func Tolerated(p *v1.Pod, t v1.Taint) bool { return tolerates(p.Spec.Tolerations, &t) }

// GoesWithNode reports whether a pod goes away with its node: it is static, or a DaemonSet controls it.
func GoesWithNode(p *v1.Pod) bool {
	if _, mirror := p.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}
