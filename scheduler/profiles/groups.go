package profiles

import (
	"reflect"
	"slices"

	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
)

// placementGenerator is kube-scheduler's plugin that generates the placements of groups. Profiles have it by default if
// the gate TopologyAwareWorkloadScheduling is on.
const placementGenerator = "TopologyPlacementGenerator"

// arrangeGroups puts TenonGroups in place of TopologyPlacementGenerator in a profile that reserves with the plugin,
// before all others: it has to see each pod of a group first. A profile that names TenonGroups elsewhere than at
// placementScore, that enables or disables the other plugin elsewhere than at multiPoint, or that disables all plugins
// at preFilter, is left as it is.
func arrangeGroups(pl *schedapi.Plugins, name string) {
	if !enabledAt(pl, &pl.Reserve, name) || has(pl.PreFilter.Disabled, "*") {
		return
	}
	scores := placementScore(pl)
	for _, s := range everyPoint(pl) {
		if s == scores {
			continue // a profile may set the weight there
		}
		if has(s.Enabled, config.TenonGroups) || has(s.Disabled, config.TenonGroups) ||
			s != &pl.MultiPoint && (has(s.Enabled, placementGenerator) || has(s.Disabled, placementGenerator)) {
			return
		}
	}
	i := slices.IndexFunc(pl.MultiPoint.Enabled, func(p schedapi.Plugin) bool { return p.Name == placementGenerator })
	if i < 0 {
		return
	}
	first := schedapi.Plugin{Name: config.TenonGroups, Weight: weightOf(pl, name)}
	pl.MultiPoint.Enabled = slices.Insert(slices.Delete(slices.Clone(pl.MultiPoint.Enabled), i, i+1), 0, first)
	if scores != nil && !enabledAt(pl, &pl.Score, name) && !has(scores.Enabled, config.TenonGroups) {
		scores.Disabled = append(slices.Clone(scores.Disabled), schedapi.Plugin{Name: config.TenonGroups})
	}
	if len(pl.PreFilter.Enabled) > 0 { // these come before those at multiPoint
		pl.PreFilter.Enabled = slices.Insert(slices.Clone(pl.PreFilter.Enabled), 0, first)
	}
}

// placementScore returns where a profile enables the scoring of placements, or nil before 1.36. groupPostFilter returns
// where it enables preemption for groups, or nil before 1.37.
func placementScore(pl *schedapi.Plugins) *schedapi.PluginSet { return pointOf(pl, "PlacementScore") }
func groupPostFilter(pl *schedapi.Plugins) *schedapi.PluginSet {
	return pointOf(pl, "PodGroupPostFilter")
}

// pointOf returns the extension point with this name in Go, or nil if the release does not have it.
func pointOf(pl *schedapi.Plugins, name string) *schedapi.PluginSet {
	if f := reflect.ValueOf(pl).Elem().FieldByName(name); f.IsValid() {
		s, _ := f.Addr().Interface().(*schedapi.PluginSet)
		return s
	}
	return nil
}

// weightOf returns the weight of a plugin's scores as kube-scheduler finds it: the first entry counts, and 0 is 1.
func weightOf(pl *schedapi.Plugins, name string) int32 {
	for _, p := range slices.Concat(pl.Score.Enabled, pl.MultiPoint.Enabled) {
		if p.Name == name {
			return p.Weight
		}
	}
	return 0
}
