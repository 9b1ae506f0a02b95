// Package config holds the arguments that an administrator writes for Tenon's scheduler plugin. They are under the
// plugin's own name, or under the name of the plugin that it can replace.
//
// Invariant: decoding is strict. An unknown or repeated field, or an unknown value, is an error that names it. The
// package offers no arguments that only tune mechanisms: every field changes what users see. It accepts such
// arguments of the other plugin, notes that they have no effect, and does not check their values.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/score"
)

// The names under which a profile may enable the plugin.
const (
	// Tenon is the plugin's own name; its arguments are TenonArgs.
	Tenon = "Tenon"
	// Match is the name of the plugin of scheduler-plugins; its arguments are
	// NodeResourceTopologyMatchArgs.
	Match = "NodeResourceTopologyMatch"
	// TenonClaims is the name of the plugin that takes the place of DynamicResources; its arguments are
	// DynamicResourcesArgs.
	TenonClaims = "TenonClaims"
	// TenonGroups is the name of the plugin that takes the place of TopologyPlacementGenerator. It has no arguments.
	TenonGroups = "TenonGroups"
)

// What to do with a node that is not known well enough: values of UnknownNodes, CoarseNodes, SilentNodes and
// InexactNodes.
const (
	Allow  = "Allow"  // accept pods, as a scheduler without NUMA data would; prefer known nodes
	Refuse = "Refuse" // keep away pods that need alignment
	// AllowWithoutDemand accepts pods without a demand, and keeps the others away, since a demand cannot be guaranteed
	// there. It is a value of UnknownNodes.
	AllowWithoutDemand = "AllowWithoutDemand"
	// Deny refuses what pods request by an annotation. It is a value of PodLogs.
	Deny = "Deny"
)

// Where the devices of claims have to be: values of Claims.
const (
	// AsPolicy requires what the node's kubelet would require of devices that it gives itself: Require where its policy
	// is single-numa-node or restricted, and Prefer elsewhere.
	AsPolicy = "AsPolicy"
	Require  = "Require" // on the NUMA nodes of the pod's exclusive CPUs and pinned memory
	Prefer   = "Prefer"  // there, if possible
	Ignore   = "Ignore"  // anywhere, as without the plugin TenonClaims
)

// Args are the arguments of the plugin (pluginConfig in KubeSchedulerConfiguration).
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// UnknownNodes is for nodes without a layout, or with a rejected one: Allow, Refuse or AllowWithoutDemand; Allow
	// when empty.
	UnknownNodes string `json:"unknownNodes,omitempty"`
	// CoarseNodes is for nodes with only a NodeResourceTopology: Allow or Refuse; Allow when empty. Such a node reports
	// how much each NUMA node has left, but neither which CPUs nor which pods hold them.
	CoarseNodes string `json:"coarseNodes,omitempty"`
	// SilentNodes is for nodes whose agent should have reported a pod a minute ago and has not: Allow or Refuse; Allow
	// when empty. Such a node is judged by its last report and by predictions.
	SilentNodes string `json:"silentNodes,omitempty"`
	// TurnTimeoutSeconds bounds how long a pod waits for an earlier pod that is assumed on the same node; after that it
	// is scheduled again. 1..3600; 30 when zero.
	TurnTimeoutSeconds int32 `json:"turnTimeoutSeconds,omitempty"`

	// InexactNodes is for nodes whose layout reports that the kubelet may deviate from predictions, for example because
	// its release is unknown: Allow or Refuse; Allow when empty. Refuse keeps pods away that would hold something
	// there.
	InexactNodes string `json:"inexactNodes,omitempty"`
	// KeepRestartable keeps pods away from nodes where they would take the last CPUs that containers without exclusive
	// CPUs share, if the node's kubelet could not restart then.
	KeepRestartable bool `json:"keepRestartable,omitempty"`
	// Claims is where the devices of a pod's claims have to be: AsPolicy, Require, Prefer or Ignore; AsPolicy when empty.
	// It has an effect where the profile has the plugin TenonClaims, which tenon-scheduler puts in place of
	// DynamicResources.
	Claims string `json:"claims,omitempty"`
	// PodLogs is for the annotation tenon.sh/log-level of pods: Allow or Deny; Allow when empty. Lines that are logged
	// because of it are bounded: 600 per minute for all pods.
	PodLogs string `json:"podLogs,omitempty"`

	// LayoutSelector is a label selector, such as tenon.sh/shard=a. The scheduler reads only layouts and
	// NodeResourceTopologies whose labels match, and places pods only on nodes whose labels match; all when empty.
	LayoutSelector string `json:"layoutSelector,omitempty"`

	// FittingShapes are shapes of pods, such as cpu=4,memory=8Gi,example.com/gpu=1. The metric tenon_fitting_pods
	// counts them in addition to the shapes of the workload profile; at most 8.
	FittingShapes []string `json:"fittingShapes,omitempty"`
	// FittingPool is a label of nodes, such as node.kubernetes.io/instance-type. The metric tenon_fitting_pods has then a
	// number for each of its values; one for all nodes when empty.
	FittingPool string `json:"fittingPool,omitempty"`

	// Strategy is how nodes are scored, for pods that do not choose themselves; Tenon's own strategy when empty. For
	// arguments of kind NodeResourceTopologyMatchArgs it is LeastAllocated when empty, as in scheduler-plugins.
	Strategy Strategy `json:"scoringStrategy,omitzero"`

	// KeepVictims is set if no pod may be evicted so that another one can be aligned. It comes from scheduler-plugins'
	// preemptionMode.
	KeepVictims bool `json:"-"`

	// Notes has one line for each given field that has no effect, or an effect that differs from the one under
	// scheduler-plugins.
	Notes []string `json:"-"`
}

const (
	tenonVersion   = "tenon.sh/v1alpha1"
	tenonKind      = "TenonArgs"
	defaultTimeout = 30
	maxTimeout     = 3600
)

// Decode reads the arguments, as JSON or YAML, that the scheduler framework passes to the plugin under the given
// name, and sets their defaults. If obj is nil, all arguments have their defaults.
func Decode(plugin string, obj runtime.Object) (Args, error) {
	switch plugin {
	case Tenon:
		var a Args
		if err := strict(tenonKind, obj, &a); err != nil {
			return Args{}, err
		}
		return a.complete()
	case Match:
		var m matchArgs
		if err := strict(matchKind, obj, &m); err != nil {
			return Args{}, err
		}
		return m.complete()
	}
	return Args{}, fmt.Errorf("decode arguments: unknown plugin %q: want one of %s, %s", plugin, Tenon, Match)
}

// strict decodes the arguments of a kind from YAML or JSON. If obj is nil, it decodes nothing and returns nil. An
// unknown or repeated field is an error.
func strict(kind string, obj runtime.Object, into any) error {
	switch o := obj.(type) {
	case nil:
		return nil
	case *runtime.Unknown:
		if err := yaml.UnmarshalStrict(o.Raw, into); err != nil {
			return fmt.Errorf("decode %s: %w", kind, err)
		}
		return nil
	default:
		return fmt.Errorf("decode %s: unexpected type %T", kind, obj)
	}
}

// complete checks the arguments, and returns them with defaults in place of empty fields.
func (a Args) complete() (Args, error) {
	var err error
	if a.Strategy, err = a.Strategy.complete(tenonKind, score.Names()); err != nil {
		return Args{}, err
	}
	for _, field := range []*string{&a.UnknownNodes, &a.CoarseNodes, &a.SilentNodes, &a.InexactNodes, &a.PodLogs} {
		*field = cmp.Or(*field, Allow)
	}
	a.Claims = cmp.Or(a.Claims, AsPolicy)
	for _, c := range []check{
		{"silentNodes", a.SilentNodes, []string{Allow, Refuse}},
		{"apiVersion", a.APIVersion, []string{"", tenonVersion}},
		{"kind", a.Kind, []string{"", tenonKind}},
		{"unknownNodes", a.UnknownNodes, []string{Allow, Refuse, AllowWithoutDemand}},
		{"coarseNodes", a.CoarseNodes, []string{Allow, Refuse}},
		{"inexactNodes", a.InexactNodes, []string{Allow, Refuse}},
		{"podLogs", a.PodLogs, []string{Allow, Deny}},
		{"claims", a.Claims, []string{AsPolicy, Require, Prefer, Ignore}},
	} {
		if err := c.verify(tenonKind); err != nil {
			return Args{}, err
		}
	}
	if a.TurnTimeoutSeconds == 0 {
		a.TurnTimeoutSeconds = defaultTimeout
	}
	if a.TurnTimeoutSeconds < 1 || a.TurnTimeoutSeconds > maxTimeout {
		return Args{}, fmt.Errorf("%s: turnTimeoutSeconds: %d is outside 1..%d", tenonKind, a.TurnTimeoutSeconds, maxTimeout)
	}
	return a, errors.Join(checkSelector(a.LayoutSelector), checkShapes(a.FittingShapes), checkPool(a.FittingPool))
}

// Bounds of a selector: every list and watch carries it.
const (
	maxSelector     = 1024 // bytes
	maxRequirements = 16
)

// checkPool returns an error unless the text is empty or can be the name of a label.
func checkPool(label string) error {
	if label == "" {
		return nil
	}
	if bad := validation.IsQualifiedName(label); len(bad) > 0 {
		return fmt.Errorf("%s: fittingPool: %q is not the name of a label: %s", tenonKind, printable.Clip(label, 100), bad[0])
	}
	return nil
}

// checkSelector returns an error for a selector that cannot be parsed, is beyond the bounds, or compares numbers
// (operators > and <).
func checkSelector(text string) error {
	if len(text) > maxSelector {
		return fmt.Errorf("%s: layoutSelector: %d bytes are more than %d", tenonKind, len(text), maxSelector)
	}
	s, err := labels.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: layoutSelector: %q: %w", tenonKind, text, err)
	}
	all, _ := s.Requirements()
	if len(all) > maxRequirements {
		return fmt.Errorf("%s: layoutSelector: %d requirements are more than %d", tenonKind, len(all), maxRequirements)
	}
	for _, r := range all {
		if op := r.Operator(); op == selection.GreaterThan || op == selection.LessThan {
			return fmt.Errorf("%s: layoutSelector: %q: operator %s is not supported", tenonKind, text, op)
		}
	}
	return nil
}

// check is a field, its value, and the values that it may have.
type check struct {
	field, value string
	values       []string
}

// verify returns an error unless the value is one of values. kind begins the text of the error.
func (c check) verify(kind string) error {
	if slices.Contains(c.values, c.value) {
		return nil
	}
	known := slices.DeleteFunc(slices.Clone(c.values), func(v string) bool { return v == "" })
	want := strings.Join(known, ", ")
	if len(known) > 1 {
		want = "one of " + want
	}
	return fmt.Errorf("%s: %s: unknown value %q: want %s", kind, c.field, c.value, want)
}
