package desired

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// reasons are the findings of joining the sources of an observation.
type reasons struct {
	machine *topo.Machine  // with devices
	entries []ledger.Entry // all that were observed
	// podErr is the error of the entries, and policyErr that of the state files.
	podErr, policyErr error
	// contradiction is the accepted contradiction of the state files; empty: none.
	contradiction string
	// machineChanged is how the machine differs from that of the kubelet's start; empty: not at all.
	machineChanged string
}

// inexact returns every reason why a prediction for the node may differ from what its kubelet does.
func inexact(o Observation, seen kubelet.Observation, r reasons) (out []ledger.Inexact) {
	add := func(code ledger.InexactCode, format string, args ...any) {
		out = append(out, ledger.Inexact{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	facts := o.Facts
	if why := facts.Configuration.Refusal; why != nil {
		add(ledger.NotPinning, "the agent does not pin containers: %v", why)
	}
	if o.Unpinned != "" {
		add(ledger.NotPinning, "%s", o.Unpinned)
	}
	if why, is := kubelet.Unusable(r.machine, facts.Rules); is {
		out = append(out, why)
	}
	if facts.Rules.Arbiter == place.ByKubelet {
		out = append(out, inexactKubelet(o, seen, r)...)
	}
	if r.podErr != nil {
		add(ledger.HoldingsOmitted, "%v", r.podErr)
	}
	if r.policyErr != nil {
		add(ledger.StateInconsistent, "%v", r.policyErr)
	}
	if r.contradiction != "" {
		add(ledger.StateInconsistent, "%s", r.contradiction)
	}
	if facts.Stale != nil {
		// The message omits the error itself: its text may differ with every attempt, and each difference would be
		// written.
		add(ledger.StaleFacts, "the machine or the rules could not be read again; the agent's log says why")
	}
	// They may be many, and come last: a layout has a bounded number of reasons.
	omitted := seen.Omitted(r.machine)
	for _, name := range slices.Sorted(maps.Keys(omitted)) {
		out = append(out, ledger.OmittedDevices(name, omitted[name]))
	}
	return out
}

// inexactKubelet returns the reasons that concern a kubelet that decides.
func inexactKubelet(o Observation, seen kubelet.Observation, r reasons) (out []ledger.Inexact) {
	facts := o.Facts
	release, why, ok := kubelet.Release(o.Node.KubeletVersion)
	if !ok {
		out = append(out, why)
	}
	out = append(out, facts.Configuration.Unmodelled(release)...)
	if facts.source() == v1alpha1.FromFiles {
		out = append(out, ledger.Inexact{Code: ledger.RulesFromFiles,
			Message: "the rules are read from the kubelet's files, which lack its flags"})
	}
	if r.machineChanged != "" {
		out = append(out, ledger.Inexact{Code: ledger.MachineChanged, Message: r.machineChanged})
	}
	out = append(out, seen.Unhealthy(r.machine, facts.Rules)...)
	if why, is := seen.ReleaseOrder(facts.Rules, r.entries, o.Pods); is {
		out = append(out, why)
	}
	return out
}
