package kubelet

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Stage is the state of a feature gate from the release Since on, up to the next Stage of the gate.
type Stage struct {
	Since   place.Release
	Name    string // Alpha, Beta, Stable or Deprecated
	Default bool
	Locked  bool // a kubelet with another value does not start
}

// Names of stages, as the kubelet has them.
const (
	Alpha      = "ALPHA"
	Beta       = "BETA"
	Stable     = ""
	Deprecated = "DEPRECATED"
)

// Gate is a feature gate that changes what the kubelet's managers decide, or what this package reads. The default of
// every release is modelled.
type Gate struct {
	Name string
	// Stages are in ascending order (pkg/features/kube_features.go of each release). Before the first of them the
	// kubelet has no such gate.
	Stages []Stage
	// Until is the first release without the gate; 0 where all later ones have it.
	Until place.Release
	// Either is set where both values are modelled.
	Either bool
	// Effect describes the effect of a value other than the default.
	Effect string
}

// Gates returns the gates of the modelled releases that concern the managers.
func Gates() []Gate {
	return []Gate{
		// They permit options of the CPU manager. A kubelet whose options lack their gate does not start, and
		// each option is modelled (pkg/kubelet/cm/cpumanager/policy_options.go).
		{Name: "CPUManagerPolicyAlphaOptions", Either: true, Stages: []Stage{{Since: 30, Name: Alpha}}},
		{Name: "CPUManagerPolicyBetaOptions", Either: true, Stages: []Stage{{Since: 30, Name: Beta, Default: true}}},
		// The same for the topology manager (pkg/kubelet/cm/topologymanager/policy_options.go).
		{Name: "TopologyManagerPolicyAlphaOptions", Either: true, Stages: []Stage{{Since: 30, Name: Alpha}}},
		{Name: "TopologyManagerPolicyBetaOptions", Either: true, Stages: []Stage{{Since: 30, Name: Beta, Default: true}}},
		// With it, the device manager leaves out devices that a ResourceClaim serves
		// (pkg/kubelet/cm/devicemanager/manager.go). Pods without claims are not affected.
		{Name: "DRAExtendedResource", Either: true, Stages: []Stage{{Since: 34, Name: Alpha},
			{Since: 36, Name: Beta, Default: true}, {Since: 37, Name: Stable, Default: true, Locked: true}}},
		// With it, the managers serve pods that request resources as a whole (KEP-5526; core/place/podlevel.go).
		{Name: "PodLevelResourceManagers", Either: true,
			Stages: []Stage{{Since: 36, Name: Alpha}, {Since: 37, Name: Beta}}},
		// Without it the kubelet ignores the resources that a pod requests as a whole, also when it determines the pod's
		// quality-of-service class.
		{Name: "PodLevelResources", Stages: []Stage{{Since: 32, Name: Alpha}, {Since: 34, Name: Beta, Default: true}},
			Effect: "the kubelet treats the resources that a pod names as a whole otherwise"},
		// With it, a restarted kubelet reads from the pods' status what their containers want
		// (pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs).
		{Name: "InPlacePodVerticalScaling", Stages: []Stage{{Since: 30, Name: Alpha}, {Since: 33, Name: Beta, Default: true},
			{Since: 35, Name: Stable, Default: true, Locked: true}},
			Effect: "a restarted kubelet reads otherwise what running containers want"},
		// With them, the kubelet applies a resize of exclusive CPUs or pinned memory to the pod's cgroups only. The
		// managers ignore it (1.37) or refuse it (earlier), so what a running container holds stays the same
		// (pkg/kubelet/allocation/handlers.go, pkg/kubelet/cm/cpumanager/policy_static.go).
		{Name: "InPlacePodVerticalScalingExclusiveCPUs", Either: true, Stages: []Stage{{Since: 32, Name: Alpha}}},
		{Name: "InPlacePodVerticalScalingExclusiveMemory", Either: true, Stages: []Stage{{Since: 34, Name: Alpha}}},
		// Without it, the podresources service lists pods that have ended, as in earlier releases. This package leaves
		// out pods with an ended phase (pkg/kubelet/apis/podresources).
		{Name: "KubeletPodResourcesListUseActivePods", Stages: []Stage{{Since: 34, Name: Deprecated, Default: true}},
			Effect: "the podresources service lists pods that have ended"},
		{Name: "SidecarContainers", Until: 37, Stages: []Stage{{Since: 30, Name: Beta, Default: true},
			{Since: 33, Name: Stable, Default: true, Locked: true}},
			Effect: "restartable init containers are treated as other init containers"},
		{Name: "MemoryManager", Until: 36, Stages: []Stage{{Since: 30, Name: Beta, Default: true},
			{Since: 32, Name: Stable, Default: true, Locked: true}},
			Effect: "there is no memory manager"},
	}
}

// At returns the stage of the gate in a release; ok is false if the kubelet has no such gate there.
func (g Gate) At(r place.Release) (at Stage, ok bool) {
	if g.Until != 0 && r >= g.Until {
		return at, false
	}
	for _, s := range g.Stages {
		if s.Since <= r {
			at, ok = s, true
		}
	}
	return at, ok
}

// Gates that stand for all gates of a stage (k8s.io/component-base/featuregate).
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// maxGates bounds the gates that a configuration sets.
const maxGates = 1 << 10

// managerGates returns the configured gates that concern the managers, given all configured gates; nil if there are
// none.
func managerGates(set map[string]bool) (map[string]bool, error) {
	if err := within("featureGates", len(set), maxGates); err != nil {
		return nil, err
	}
	names := []string{allAlpha, allBeta}
	for _, g := range Gates() {
		names = append(names, g.Name)
	}
	var out map[string]bool
	for _, name := range names {
		if on, ok := set[name]; ok {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = on
		}
	}
	return out, nil
}

// value returns whether a gate is on while it is in this stage. name is the gate's name, and set has the configured
// gates. The gate's own setting comes first, then the setting for all gates of the stage, then the default. A locked
// gate always has its default.
func (s Stage) value(name string, set map[string]bool) bool {
	if s.Locked {
		return s.Default
	}
	if on, ok := set[name]; ok {
		return on
	}
	if on, ok := set[allAlpha]; ok && s.Name == Alpha {
		return on
	}
	if on, ok := set[allBeta]; ok && s.Name == Beta {
		return on
	}
	return s.Default
}

// Unmodelled returns a reason for each feature gate whose value is not modelled for a kubelet of the release.
func (c Configuration) Unmodelled(r place.Release) (out []state.Inexact) {
	for _, g := range Gates() {
		at, ok := g.At(r)
		if !ok || g.Either {
			continue
		}
		if on := at.value(g.Name, c.Gates); on != at.Default {
			out = append(out, state.Inexact{Code: state.UnmodelledFeatureGate,
				Message: fmt.Sprintf("feature gate %s=%t: %s", g.Name, on, g.Effect)})
		}
	}
	return out
}

// Release returns the release whose rules predict a kubelet, given the version in its Node's status. ok is false if
// the version is missing, malformed or not modelled. Then r is the nearest modelled release or the default one, and
// why has the reason.
func Release(text string) (r place.Release, why state.Inexact, ok bool) {
	why.Code = state.UnknownKubeletVersion
	r, ok = place.ReleaseOf(text)
	switch {
	case text == "":
		why.Message = "the Node does not say which version its kubelet has"
	case !ok:
		why.Message = fmt.Sprintf("kubelet version %+q is not a version such as v%s.0, or came before such a version",
			clip(text), place.DefaultRelease)
	case !r.Modelled():
		why.Message = fmt.Sprintf("kubelet %s is of a release that is not modelled", clip(text))
	default:
		return r, state.Inexact{}, true
	}
	r = r.Nearest()
	why.Message += fmt.Sprintf("; the predictions are those of %s", r)
	return r, why, false
}
