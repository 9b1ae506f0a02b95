package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// kubelet returns what the layout says of the kubelet. A version that the layout has no form for is left out;
// inexact quotes it.
func (k *look) kubelet() (out v1alpha1.Kubelet) {
	if v1alpha1.IsVersion(k.node.version) {
		out.Version = k.node.version
	}
	for _, name := range slices.Sorted(maps.Keys(k.conf.Gates)) {
		out.FeatureGates = append(out.FeatureGates, v1alpha1.FeatureGate{Name: name, Enabled: k.conf.Gates[name]})
	}
	return out
}

// inexact returns every reason that the agent knows why a prediction for the node may differ from what its
// kubelet does. entries are all that were observed; deviceErr and podErr are what Machine and Entries of the
// same observation complained of.
func (k *look) inexact(m *topo.Machine, seen kubelet.Observation, entries []ledger.Entry, deviceErr, podErr error) (out []ledger.Inexact) {
	add := func(code ledger.InexactCode, format string, args ...any) {
		out = append(out, ledger.Inexact{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if why, ok := kubelet.Release(k.node.version); !ok {
		out = append(out, why)
	}
	out = append(out, k.conf.Unmodelled()...)
	if k.from == v1alpha1.FromFiles {
		add(ledger.RulesFromFiles, "the rules are read from the kubelet's files, which lack its flags")
	}
	if why, is := kubelet.Unusable(m, k.rules); is {
		out = append(out, why)
	}
	out = append(out, seen.Unhealthy(m, k.rules)...)
	if why, is := seen.ReleaseOrder(k.rules, entries, k.pods); is {
		out = append(out, why)
	}
	if deviceErr != nil {
		add(ledger.DeviceLocality, "%v", deviceErr)
	}
	if podErr != nil {
		add(ledger.HoldingsOmitted, "%v", podErr)
	}
	if err := k.contradicts(seen); err != nil {
		add(ledger.StateInconsistent, "%v", err)
	}
	if k.borne != "" {
		add(ledger.StateInconsistent, "%s", k.borne)
	}
	if k.stale != nil {
		// Not the error: it may differ with every try, and each difference would be written.
		add(ledger.StaleFacts, "the machine or the rules could not be read again; the agent's log says why")
	}
	return out
}

// explain logs the reasons when they change.
func (k *look) explain(reasons []v1alpha1.Inexact) {
	text := ""
	for _, r := range reasons {
		text += r.Code + ": " + r.Message + "\n"
	}
	if text != k.reasons {
		k.log.Info("predictions for this node may differ from what its kubelet does", "reasons", text)
		k.reasons = text
	}
}

// devices remembers the devices that the kubelet has listed, so that those that become unhealthy, and that it
// then no longer lists, are known by their NUMA nodes.
type devices struct {
	known map[string]map[string]kubelet.Device // by resource and id
}

func newDevices() *devices { return &devices{map[string]map[string]kubelet.Device{}} }

// learn takes the devices that are listed now, and returns all that are remembered, by resource and id. Those of
// a resource of which the Node counts no more than are listed are all there are, and others are forgotten.
func (d *devices) learn(listed []kubelet.Device, capacity map[string]int64) (out []kubelet.Device) {
	now := map[string]map[string]kubelet.Device{}
	for _, x := range listed {
		if now[x.Resource] == nil {
			now[x.Resource] = map[string]kubelet.Device{}
		}
		now[x.Resource][x.ID] = x
	}
	for resource := range d.known {
		if capacity[resource] <= int64(len(now[resource])) {
			delete(d.known, resource)
		}
	}
	for resource, devs := range now {
		if d.known[resource] == nil || len(d.known[resource])+len(devs) > 2*topo.MaxDevices {
			d.known[resource] = map[string]kubelet.Device{}
		}
		maps.Copy(d.known[resource], devs)
	}
	for _, resource := range slices.Sorted(maps.Keys(d.known)) {
		for _, id := range slices.Sorted(maps.Keys(d.known[resource])) {
			out = append(out, d.known[resource][id])
		}
	}
	return out
}
