package desired

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// reasons are what joining the sources of an observation has found.
type reasons struct {
	machine *topo.Machine // with devices
	entries []state.Entry // all pods that were observed with holdings
	// podErr is the error of joining the entries, and policyErr is how the state files contradict the rules.
	podErr, policyErr error
	// contradiction is the accepted contradiction of the state files, or empty.
	contradiction string
	// machineChanged is how the machine differs from the one with which the kubelet started, or empty.
	machineChanged string
}

// inexact returns every reason why a prediction for the node may differ from what its kubelet does.
func inexact(o Observation, seen kubelet.Observation, r reasons) (out []state.Inexact) {
	add := func(code state.InexactCode, format string, args ...any) {
		out = append(out, state.Inexact{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	facts := o.Facts
	if why := facts.Configuration.Refusal; why != nil {
		add(state.NotPinning, "the agent does not pin containers: %v", why)
	}
	if o.Unpinned != "" {
		add(state.NotPinning, "%s", o.Unpinned)
	}
	if why, found := kubelet.Unusable(r.machine, facts.Rules); found {
		out = append(out, why)
	}
	if facts.Rules.Arbiter == place.ByKubelet {
		out = append(out, inexactKubelet(o, seen, r)...)
	}
	if r.podErr != nil {
		add(state.HoldingsOmitted, "%v", r.podErr)
	}
	if r.policyErr != nil {
		add(state.StateInconsistent, "%v", r.policyErr)
	}
	if r.contradiction != "" {
		add(state.StateInconsistent, "%s", r.contradiction)
	}
	if facts.Stale != nil {
		// The message omits the error. Its text may differ with every attempt, and each difference would cause a write.
		add(state.StaleFacts, "the machine or the rules could not be read again; the agent's log says why")
	}
	// The omitted resources may be many. They come last, because a layout has a bounded number of reasons.
	omitted := seen.Omitted(r.machine)
	for _, name := range slices.Sorted(maps.Keys(omitted)) {
		out = append(out, state.OmittedDevices(name, omitted[name]))
	}
	return out
}

// inexactKubelet returns the reasons that apply only where the kubelet is the arbiter.
func inexactKubelet(o Observation, seen kubelet.Observation, r reasons) (out []state.Inexact) {
	facts := o.Facts
	release, why, ok := kubelet.Release(o.Node.KubeletVersion)
	if !ok {
		out = append(out, why)
	}
	out = append(out, facts.Configuration.Unmodelled(release)...)
	if facts.source() == v1alpha1.FromFiles {
		out = append(out, state.Inexact{Code: state.RulesFromFiles,
			Message: "the rules are read from the kubelet's files, which lack its flags"})
	}
	if r.machineChanged != "" {
		out = append(out, state.Inexact{Code: state.MachineChanged, Message: r.machineChanged})
	}
	out = append(out, seen.Unhealthy(r.machine, facts.Rules)...)
	if why, found := seen.ReleaseOrder(facts.Rules, r.entries, o.Pods); found {
		out = append(out, why)
	}
	return out
}
