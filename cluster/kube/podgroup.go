package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodGroup is what Kubernetes' scheduler reads of a PodGroup.
type PodGroup struct {
	// Least is how many pods start together at least; 0 if they may start one by one.
	Least int
	// Label is the label whose value the nodes of all its pods have to share, or "".
	Label string
	// Part: it belongs to a composite group, which may need pods of several groups.
	Part bool
	// Whole: its pods may be disrupted only together.
	Whole bool
	// Shares: its pods share claims of devices.
	Shares bool
}

// StartsAlone reports whether a pod of the group starts without others.
func (g *PodGroup) StartsAlone() bool { return g.Least <= 1 && !g.Part }

// podGroup is the spec of a PodGroup.
type podGroup struct {
	Parent           string `json:"parentCompositePodGroupName"`
	SchedulingPolicy struct {
		Gang struct {
			MinCount int32 `json:"minCount"`
		} `json:"gang"`
	} `json:"schedulingPolicy"`
	SchedulingConstraints struct {
		Topology []struct {
			Key string `json:"key"`
		} `json:"topology"`
	} `json:"schedulingConstraints"`
	DisruptionMode struct {
		All *struct{} `json:"all"`
	} `json:"disruptionMode"`
	ResourceClaims []struct{} `json:"resourceClaims"`
}

// Gang returns how many pods a PodGroup needs to start, or 0 if its pods may start one by one, and the label whose
// value the nodes of all its pods have to share, or "". If the PodGroup does not exist, the error is NotFound.
func (r *Reader) Gang(ctx context.Context, namespace, name string) (needs int, label string, err error) {
	g, err := r.PodGroup(ctx, namespace, name)
	return g.Least, g.Label, err
}

// PodGroup reads a PodGroup. If it does not exist, the error is NotFound.
func (r *Reader) PodGroup(ctx context.Context, namespace, name string) (out PodGroup, err error) {
	// Of Kubernetes 1.37, the first that schedules groups as a whole.
	resource := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
	data, err := r.raw(ctx, resource, namespace, name, 0)
	if apierrors.IsNotFound(err) {
		// The answer about a resource that is not served names no object.
		var status metav1.Status
		if json.Unmarshal(data, &status) != nil || status.Details == nil || status.Details.Name != name {
			return out, fmt.Errorf("the API server does not serve %s of %s", resource.Resource, resource.GroupVersion())
		}
	}
	if err != nil {
		return out, fmt.Errorf("read podgroup %s/%s: %w", namespace, name, err)
	}
	var group struct {
		Spec podGroup `json:"spec"`
	}
	if err := json.Unmarshal(data, &group); err != nil {
		return out, fmt.Errorf("decode podgroup %s/%s: %w", namespace, name, err)
	}
	s := &group.Spec
	out = PodGroup{Least: int(s.SchedulingPolicy.Gang.MinCount), Part: s.Parent != "",
		Whole: s.DisruptionMode.All != nil, Shares: len(s.ResourceClaims) > 0}
	if t := s.SchedulingConstraints.Topology; len(t) > 0 {
		out.Label = t[0].Key // there is no more than one in 1.37
	}
	return out, nil
}
