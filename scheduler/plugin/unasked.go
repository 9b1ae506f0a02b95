package plugin

import (
	"cmp"
	"slices"

	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// The framework asks the Filter plugins in an order, and stops at the first refusal. A pod that lacks amounts today may
// therefore be refused tomorrow by a plugin that was not asked, so the sentence names what was not looked at.

// wants has what a pod wants if one of kube-scheduler's plugins does not skip it in PreFilter.
var wants = map[string]string{
	"VolumeRestrictions":   "volumes",
	"NodeVolumeLimits":     "volumes",
	"VolumeBinding":        "volumes",
	"VolumeZone":           "volumes",
	"PodTopologySpread":    "topology spread",
	"InterPodAffinity":     "pod affinity",
	"DynamicResources":     "resource claims",
	steer.Name:             "resource claims",
	"NodeDeclaredFeatures": "features of the kubelet",
}

// plainCycle is the state of the latest cycle of a pod that this plugin has skipped.
type plainCycle struct {
	uid string
	cs  fwk.CycleState
}

// cycleOf returns the state of the latest cycle if that was for the pod with this UID, or nil.
func (p *Plugin) cycleOf(uid string) fwk.CycleState {
	if c := p.last.Load(); c != nil && c.state.uid == uid {
		return c.cs
	}
	if c := p.skipped.Load(); c != nil && c.uid == uid {
		return c.cs
	}
	return nil
}

// filters returns the names of the profile's Filter plugins, in the order in which the framework asks them. It returns
// nil if the handle does not list them.
func (p *Plugin) filters() (names []string) {
	f, ok := p.handle.(interface{ ListPlugins() *schedapi.Plugins })
	if !ok {
		return nil
	}
	for _, x := range f.ListPlugins().Filter.Enabled {
		names = append(names, x.Name)
	}
	return names
}

// unasked returns what the pod wants from the plugins that come after the one that refused a node. Tenon's own verdict
// is not among that: the sentence takes it into account.
func (f *facts) unasked(by string) (out []string) {
	out, known := f.later[by]
	if known || f.skips == nil {
		return out
	}
	if at := slices.Index(f.order, by); at >= 0 {
		for _, name := range f.order[at+1:] {
			what := cmp.Or(wants[name], "plugin "+name)
			if name != f.p.name && !f.skips.Has(name) && !slices.Contains(out, what) {
				out = append(out, what)
			}
		}
	}
	f.later[by] = out
	return out
}
