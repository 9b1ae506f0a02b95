package kubelet

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Modelled is the minor release of Kubernetes whose kubelet package place predicts.
const Modelled = "1.36"

// Stages of a feature gate in the modelled release.
const (
	Alpha      = "ALPHA"
	Beta       = "BETA"
	Deprecated = "DEPRECATED"
)

// Gate is a feature gate that changes what the kubelet's managers decide, or what this package reads.
type Gate struct {
	Name string
	// Stage and Default are from the modelled release (pkg/features/kube_features.go).
	Stage   string
	Default bool
	// On and Off are whether package place and this package model the value.
	On, Off bool
	// Effect is what an unmodelled value changes.
	Effect string
}

// Gates returns the gates of the modelled release that can be set and that concern the managers. It omits gates that
// are locked to their default.
func Gates() []Gate {
	return []Gate{
		// They permit options of the CPU manager. A kubelet whose options lack their gate does not start, and
		// each option is modelled (pkg/kubelet/cm/cpumanager/policy_options.go).
		{Name: "CPUManagerPolicyAlphaOptions", Stage: Alpha, On: true, Off: true},
		{Name: "CPUManagerPolicyBetaOptions", Stage: Beta, Default: true, On: true, Off: true},
		// No option of the topology manager needs them (pkg/kubelet/cm/topologymanager/policy_options.go).
		{Name: "TopologyManagerPolicyAlphaOptions", Stage: Alpha, On: true, Off: true},
		{Name: "TopologyManagerPolicyBetaOptions", Stage: Beta, Default: true, On: true, Off: true},
		// The device manager leaves out what a ResourceClaim serves (pkg/kubelet/cm/devicemanager/manager.go).
		// Pods without claims are not affected.
		{Name: "DRAExtendedResource", Stage: Beta, Default: true, On: true, Off: true},
		// KEP-5526: all three managers allocate to pods as a whole and share that among containers.
		{Name: "PodLevelResourceManagers", Stage: Alpha, Off: true,
			Effect: "the managers give CPUs and memory to pods as a whole"},
		// Without it the kubelet ignores resources of pods, and their quality-of-service class with them.
		{Name: "PodLevelResources", Stage: Beta, Default: true, On: true,
			Effect: "the kubelet ignores the resources that a pod names as a whole"},
		// With them a resize changes what a running container holds (pkg/kubelet/allocation/handlers.go).
		{Name: "InPlacePodVerticalScalingExclusiveCPUs", Stage: Alpha, Off: true,
			Effect: "a resize changes the exclusive CPUs of a running container"},
		{Name: "InPlacePodVerticalScalingExclusiveMemory", Stage: Alpha, Off: true,
			Effect: "a resize changes the pinned memory of a running container"},
		// Without it the podresources service lists pods that have ended (pkg/kubelet/apis/podresources).
		{Name: "KubeletPodResourcesListUseActivePods", Stage: Deprecated, Default: true, On: true,
			Effect: "the podresources service lists pods that have ended"},
	}
}

// Gates that stand for all gates of a stage (k8s.io/component-base/featuregate).
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

const maxGates = 1 << 10

// managerGates returns those settings that concern the managers.
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

// value returns the gate's setting: by its name, by its stage, or by default.
func (g Gate) value(set map[string]bool) bool {
	if on, ok := set[g.Name]; ok {
		return on
	}
	if on, ok := set[allAlpha]; ok && g.Stage == Alpha {
		return on
	}
	if on, ok := set[allBeta]; ok && g.Stage == Beta {
		return on
	}
	return g.Default
}

// Unmodelled returns a reason for each feature gate that has a value that is not modelled.
func (c Configuration) Unmodelled() (out []ledger.Inexact) {
	for _, g := range Gates() {
		on := g.value(c.Gates)
		if on && g.On || !on && g.Off {
			continue
		}
		out = append(out, ledger.Inexact{Code: ledger.UnmodelledFeatureGate,
			Message: fmt.Sprintf("feature gate %s=%t: %s", g.Name, on, g.Effect)})
	}
	return out
}

// Release returns why a kubelet of a version, in the form of the Node, is not the modelled one; ok is true if it is.
func Release(text string) (why ledger.Inexact, ok bool) {
	why.Code = ledger.UnknownKubeletVersion
	if text == "" {
		why.Message = "the Node does not say which version its kubelet has"
		return why, false
	}
	v, err := version.ParseSemantic(text)
	if err != nil {
		why.Message = fmt.Sprintf("kubelet version %+q is not a version such as v%s.0", clip(text), Modelled)
		return why, false
	}
	if fmt.Sprintf("%d.%d", v.Major(), v.Minor()) != Modelled {
		why.Message = fmt.Sprintf("kubelet %s is not of release %s, which the predictions are made for", clip(text), Modelled)
		return why, false
	}
	// Vendors put their own names here, such as "gke.1234".
	for _, stage := range []string{"alpha", "beta", "rc"} {
		if strings.HasPrefix(v.PreRelease(), stage) {
			why.Message = fmt.Sprintf("kubelet %s came before release %s.0", clip(text), Modelled)
			return why, false
		}
	}
	return ledger.Inexact{}, true
}
