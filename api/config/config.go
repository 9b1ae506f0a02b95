// Package config holds the arguments that an administrator writes for Tenon's scheduler plugin, under
// the plugin's own name or under the name of the plugin whose place it can take.
//
// Invariant: decoding is strict; an unknown or repeated field, or an unknown value, is an error that
// names it. The package refuses knobs for mechanisms: every field changes what users see. Fields of the
// other plugin that are such knobs are checked, and said to have no effect.
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
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/score"
)

// The names under which a profile may enable the plugin.
const (
	// Tenon is the plugin's own name; its arguments are TenonArgs.
	Tenon = "Tenon"
	// Match is the name of the plugin of scheduler-plugins; its arguments are
	// NodeResourceTopologyMatchArgs.
	Match = "NodeResourceTopologyMatch"
)

// What to do with a node that is not known well enough: UnknownNodes, CoarseNodes, SilentNodes and InexactNodes.
const (
	Allow  = "Allow"  // let pods in, as a scheduler that knows nothing of NUMA nodes would; prefer known nodes
	Refuse = "Refuse" // keep pods that need alignment away
	// AllowWithoutDemand lets pods in that demand nothing of their own, and keeps the others away: what
	// they demand cannot be promised there. It is a value of UnknownNodes.
	AllowWithoutDemand = "AllowWithoutDemand"
	// Deny is the opposite of Allow for what pods ask for: PodLogs.
	Deny = "Deny"
)

// Args are the arguments of the plugin (pluginConfig in KubeSchedulerConfiguration).
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// UnknownNodes is for nodes that have no layout, or one that was refused: Allow, Refuse or
	// AllowWithoutDemand; Allow when empty.
	UnknownNodes string `json:"unknownNodes,omitempty"`
	// CoarseNodes is for nodes of which only a NodeResourceTopology is known: Allow or Refuse; Allow when
	// empty. Such a node says how much each NUMA node has left, and not which CPUs and who holds them.
	CoarseNodes string `json:"coarseNodes,omitempty"`
	// SilentNodes is for nodes whose agent ought to have reported a pod a minute ago and has not: Allow or
	// Refuse; Allow when empty. Such a node is known by its last report and by predictions.
	SilentNodes string `json:"silentNodes,omitempty"`
	// TurnTimeoutSeconds bounds how long a pod waits for a pod before it that is assumed on the same node;
	// after that it is scheduled anew. 1..3600; 30 when zero.
	TurnTimeoutSeconds int32 `json:"turnTimeoutSeconds,omitempty"`

	// InexactNodes is for nodes whose kubelet may do something else than is predicted, such as one of a release
	// that is not known, and whose layout says so: Allow or Refuse; Allow when empty. Refuse keeps pods away that
	// would hold something there.
	InexactNodes string `json:"inexactNodes,omitempty"`
	// KeepRestartable keeps pods away from nodes where their CPUs would be the last ones that containers without
	// CPUs of their own share, if the node's kubelet could not start again then.
	KeepRestartable bool `json:"keepRestartable,omitempty"`
	// PodLogs is for the annotation tenon.sh/log-level of pods: Allow or Deny; Allow when empty. Lines that are
	// logged for its sake are bounded: 600 in a minute for all pods.
	PodLogs string `json:"podLogs,omitempty"`

	// LayoutSelector is a label selector, such as tenon.sh/shard=a: the scheduler reads what nodes publish under
	// labels that it matches, and takes pods to nodes with such labels only; all when empty.
	LayoutSelector string `json:"layoutSelector,omitempty"`

	// FittingShapes are shapes of pods, such as cpu=4,memory=8Gi,example.com/gpu=1, whose number the metric
	// tenon_fitting_pods counts beside those of the shapes that are usual; at most 8.
	FittingShapes []string `json:"fittingShapes,omitempty"`

	// Strategy is how nodes are scored, for pods that do not say it themselves: Tenon's own way when empty.
	// For arguments of kind NodeResourceTopologyMatchArgs it is LeastAllocated when empty, as it is there.
	Strategy Strategy `json:"scoringStrategy,omitzero"`

	// KeepVictims: nobody is evicted so that a pod can be aligned. scheduler-plugins' preemptionMode says so.
	KeepVictims bool `json:"-"`

	// Notes say what of the arguments has no effect or another one than under scheduler-plugins, one
	// line for each field that was given.
	Notes []string `json:"-"`
}

const (
	tenonVersion   = "tenon.sh/v1alpha1"
	tenonKind      = "TenonArgs"
	defaultTimeout = 30
	maxTimeout     = 3600
)

// Decode reads the arguments of the plugin under one of its names, JSON or YAML, as the scheduler
// framework hands them over; nil means defaults.
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

func (a Args) complete() (Args, error) {
	var err error
	if a.Strategy, err = a.Strategy.complete(tenonKind, score.Names()); err != nil {
		return Args{}, err
	}
	for _, field := range []*string{&a.UnknownNodes, &a.CoarseNodes, &a.SilentNodes, &a.InexactNodes, &a.PodLogs} {
		*field = cmp.Or(*field, Allow)
	}
	for _, c := range []check{
		{"silentNodes", a.SilentNodes, []string{Allow, Refuse}},
		{"apiVersion", a.APIVersion, []string{"", tenonVersion}},
		{"kind", a.Kind, []string{"", tenonKind}},
		{"unknownNodes", a.UnknownNodes, []string{Allow, Refuse, AllowWithoutDemand}},
		{"coarseNodes", a.CoarseNodes, []string{Allow, Refuse}},
		{"inexactNodes", a.InexactNodes, []string{Allow, Refuse}},
		{"podLogs", a.PodLogs, []string{Allow, Deny}},
	} {
		if err := c.fails(tenonKind); err != nil {
			return Args{}, err
		}
	}
	if a.TurnTimeoutSeconds == 0 {
		a.TurnTimeoutSeconds = defaultTimeout
	}
	if a.TurnTimeoutSeconds < 1 || a.TurnTimeoutSeconds > maxTimeout {
		return Args{}, fmt.Errorf("%s: turnTimeoutSeconds: %d is outside 1..%d", tenonKind, a.TurnTimeoutSeconds, maxTimeout)
	}
	return a, errors.Join(checkSelector(a.LayoutSelector), checkShapes(a.FittingShapes))
}

// Bounds of a selector: it goes with every list and watch.
const (
	maxSelector     = 1024 // bytes
	maxRequirements = 16
)

// checkSelector refuses what a node's affinity could not say, too.
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

// check is a field that takes certain values only.
type check struct {
	field, value string
	values       []string
}

func (c check) fails(kind string) error {
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
