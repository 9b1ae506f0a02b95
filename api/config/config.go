// Package config holds the arguments that an administrator writes for Tenon's scheduler plugin.
//
// Invariant: decoding is strict; an unknown or repeated field, or an unknown value, is an error that
// names it. The package refuses knobs for mechanisms: every field changes what users see.
package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// What to do with a node that has no layout, or one that was refused.
const (
	Allow  = "Allow"  // let pods in, as a scheduler that knows nothing of numas would; prefer known nodes
	Refuse = "Refuse" // keep pods that need alignment away
)

// Args are the arguments of the plugin Tenon (pluginConfig in KubeSchedulerConfiguration).
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// UnknownNodes is Allow or Refuse; Allow when empty.
	UnknownNodes string `json:"unknownNodes,omitempty"`
	// TurnTimeoutSeconds bounds how long a pod waits for a pod before it on its way to the same node;
	// after that it is scheduled anew. 1..3600; 30 when zero.
	TurnTimeoutSeconds int32 `json:"turnTimeoutSeconds,omitempty"`
}

const (
	version        = "tenon.sh/v1alpha1"
	kind           = "TenonArgs"
	defaultTimeout = 30
	maxTimeout     = 3600
)

// Decode reads the arguments as the scheduler framework hands them over; nil means defaults.
func Decode(obj runtime.Object) (Args, error) {
	var a Args
	switch o := obj.(type) {
	case nil:
	case *runtime.Unknown:
		if err := yaml.UnmarshalStrict(o.Raw, &a); err != nil {
			return Args{}, fmt.Errorf("decode %s: %w", kind, err)
		}
	default:
		return Args{}, fmt.Errorf("decode %s: unexpected type %T", kind, obj)
	}
	return a.complete()
}

func (a Args) complete() (Args, error) {
	if a.APIVersion != "" && a.APIVersion != version {
		return Args{}, fmt.Errorf("%s: apiVersion: unknown value %q: want %s", kind, a.APIVersion, version)
	}
	if a.Kind != "" && a.Kind != kind {
		return Args{}, fmt.Errorf("%s: kind: unknown value %q: want %s", kind, a.Kind, kind)
	}
	switch a.UnknownNodes {
	case "":
		a.UnknownNodes = Allow
	case Allow, Refuse:
	default:
		return Args{}, fmt.Errorf("%s: unknownNodes: unknown value %q: want one of %s, %s", kind, a.UnknownNodes, Allow, Refuse)
	}
	if a.TurnTimeoutSeconds == 0 {
		a.TurnTimeoutSeconds = defaultTimeout
	}
	if a.TurnTimeoutSeconds < 1 || a.TurnTimeoutSeconds > maxTimeout {
		return Args{}, fmt.Errorf("%s: turnTimeoutSeconds: %d is outside 1..%d", kind, a.TurnTimeoutSeconds, maxTimeout)
	}
	return a, nil
}
