package manifest

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file reads PodGroups of Kubernetes' Workload API. The type is written out here, because libraries before 1.37
// do not have it.

// Group is a PodGroup of a file.
type Group struct {
	// Namespace is empty if the object has none.
	Namespace, Name string
	// Least is how many pods get nodes at the same time or not at all; 0 if the policy is basic.
	Least int
	// Label is the label whose value the nodes of all pods have to share, or "".
	Label string
	// Parent is the name of the composite group that the group belongs to, or "".
	Parent string
	// PriorityClass is the name of its priority class, or "". Priority is its priority if the file has it, or nil.
	PriorityClass string
	Priority      *int32
	// PreemptionPolicy is that of the file, or "".
	PreemptionPolicy string
}

// groupVersions are the versions in which PodGroups have the fields of podGroupSpec.
var groupVersions = []schema.GroupVersion{{Group: "scheduling.k8s.io", Version: "v1beta1"},
	{Group: "scheduling.k8s.io", Version: "v1alpha3"}}

// podGroup is a PodGroup. Fields that nothing here reads are decoded so that they are not unknown.
type podGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              podGroupSpec    `json:"spec"`
	Status            json.RawMessage `json:"status"`
}

type podGroupSpec struct {
	ParentCompositePodGroupName string          `json:"parentCompositePodGroupName"`
	WorkloadRef                 json.RawMessage `json:"workloadRef"`
	SchedulingPolicy            struct {
		Basic *struct{} `json:"basic"`
		Gang  *struct {
			MinCount *int32 `json:"minCount"`
		} `json:"gang"`
	} `json:"schedulingPolicy"`
	SchedulingConstraints struct {
		Topology []struct {
			Key string `json:"key"`
		} `json:"topology"`
	} `json:"schedulingConstraints"`
	ResourceClaims    json.RawMessage `json:"resourceClaims"`
	DisruptionMode    json.RawMessage `json:"disruptionMode"`
	PriorityClassName string          `json:"priorityClassName"`
	Priority          *int32          `json:"priority"`
	PreemptionPolicy  string          `json:"preemptionPolicy"`
}

// DeepCopyObject implements runtime.Object. Decoding does not change what it copies.
func (g *podGroup) DeepCopyObject() runtime.Object {
	out := *g
	return &out
}

// group reads a PodGroup; kept is false for other objects.
func (r *reader) group(what string, gvk schema.GroupVersionKind, text []byte) (kept bool, err error) {
	if !isGroup(gvk) {
		return false, nil
	}
	obj, _, err := r.decoder.Decode(text, &gvk, nil)
	if err != nil {
		return true, fmt.Errorf("%s: %w", what, firstError(err))
	}
	g, ok := obj.(*podGroup)
	if !ok {
		return true, fmt.Errorf("%s: not a PodGroup", what)
	}
	if err := g.refusal(); err != nil {
		return true, fmt.Errorf("%s: %w", what, err)
	}
	out := Group{Namespace: g.Namespace, Name: g.Name, Parent: clip(g.Spec.ParentCompositePodGroupName),
		PriorityClass: clip(g.Spec.PriorityClassName), Priority: g.Spec.Priority,
		PreemptionPolicy: clip(g.Spec.PreemptionPolicy)}
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Least = int(*gang.MinCount)
	}
	if t := g.Spec.SchedulingConstraints.Topology; len(t) > 0 {
		out.Label = t[0].Key
	}
	r.file.Groups = append(r.file.Groups, out)
	return true, nil
}

func isGroup(gvk schema.GroupVersionKind) bool {
	for _, v := range groupVersions {
		if gvk == v.WithKind("PodGroup") {
			return true
		}
	}
	return false
}

// refusal returns the first rule of the API server that a PodGroup breaks, of the rules about the fields that are read
// here (pkg/apis/scheduling of Kubernetes 1.37).
func (g *podGroup) refusal() error {
	var all field.ErrorList
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	if g.Name == "" {
		return errors.New("metadata.name is missing")
	}
	all = append(all, invalid(meta.Child("name"), g.Name, validation.IsDNS1123Subdomain(g.Name))...)
	if g.Namespace != "" {
		all = append(all, invalid(meta.Child("namespace"), g.Namespace, validation.IsDNS1123Label(g.Namespace))...)
	}
	policy, at := g.Spec.SchedulingPolicy, spec.Child("schedulingPolicy")
	switch {
	case policy.Basic == nil && policy.Gang == nil:
		all = append(all, field.Required(at, "must have one of basic and gang"))
	case policy.Basic != nil && policy.Gang != nil:
		all = append(all, field.Forbidden(at, "must have only one of basic and gang"))
	case policy.Gang == nil:
	case policy.Gang.MinCount == nil:
		all = append(all, field.Required(at.Child("gang", "minCount"), "must be at least 1"))
	case *policy.Gang.MinCount < 1:
		all = append(all, field.Invalid(at.Child("gang", "minCount"), *policy.Gang.MinCount, "must be at least 1"))
	}
	topology := g.Spec.SchedulingConstraints.Topology
	at = spec.Child("schedulingConstraints", "topology")
	if len(topology) > 1 {
		all = append(all, field.TooMany(at, len(topology), 1))
	}
	for i, t := range topology {
		all = append(all, invalid(at.Index(i).Child("key"), t.Key, validation.IsQualifiedName(t.Key))...)
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(shown(all[0].Error(), maxRefusal))
}
