// Package profiles completes the profiles of a kube-scheduler's configuration for Tenon's plugin.
//
// It changes configurations and runs nothing. Invariant: if a profile disables the plugin by name at an extension
// point, the plugin stays disabled there. The package refuses profiles that contradict themselves or each other.
package profiles

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tenon-numa/tenon/api/config"
)

// point is an extension point that the plugin serves.
type point struct {
	name string
	set  *schedapi.PluginSet
}

// Complete adds the extension points that the plugin needs to each profile that enables the plugin at some points
// only, as configurations for scheduler-plugins do, which name filter, score and reserve. At these points the plugin
// comes after all others, as with multiPoint, except at bind, where it comes first. If a profile disables the plugin
// by name at a point, Complete does not add it there. It returns an error if a profile enables the plugin under both
// of its names.
func Complete(profiles []schedapi.KubeSchedulerProfile, logger klog.Logger) error {
	for i := range profiles {
		pl := profiles[i].Plugins
		if pl == nil {
			continue
		}
		names := slices.DeleteFunc(
			[]string{config.Tenon, config.Match},
			func(n string) bool { return !enabledSomewhere(pl, n) },
		)
		if len(names) > 1 {
			return fmt.Errorf("profile %q enables the plugins %s: they are the same plugin under two names: remove one",
				profiles[i].SchedulerName, strings.Join(names, " and "))
		}
		for _, name := range names {
			steerClaims(&profiles[i], name)
			completeProfile(pl, name, logger.WithValues("profile", profiles[i].SchedulerName, "plugin", name))
			arrangeGroups(pl, name)
		}
	}
	return nil
}

// completeProfile completes one profile for the plugin under this name, and logs what it changed or could not change.
func completeProfile(pl *schedapi.Plugins, name string, logger klog.Logger) {
	var added, missing []string
	for _, p := range needed(pl, name) {
		switch {
		case enabledAt(pl, p.set, name):
		case has(p.set.Disabled, name):
			missing = append(missing, p.name)
		default:
			p.set.Enabled = append(slices.Clone(p.set.Enabled), schedapi.Plugin{Name: name})
			added = append(added, p.name)
		}
	}
	if putFirstAtBind(pl, name) {
		added = append(added, "bind")
	}
	if len(added) > 0 {
		logger.Info("Plugin enabled at extension points that it needs", "points", strings.Join(added, ","))
	}
	if len(missing) > 0 {
		logger.Info("Plugin disabled at extension points that it needs: kubelets may refuse pods of this profile",
			"points", strings.Join(missing, ","))
	}
	if !enabledAt(pl, &pl.Filter, name) && !has(pl.Filter.Disabled, name) {
		logger.Info("Plugin only scores nodes: kubelets may refuse pods of this profile")
	}
}

// putFirstAtBind puts the plugin before all others at bind, if it runs at reserve. Only the first plugin that accepts
// a pod binds the pod, and this plugin skips pods without a decision to pass on. It returns true if the plugin did
// not run at bind before.
func putFirstAtBind(pl *schedapi.Plugins, name string) bool {
	if !enabledAt(pl, &pl.Reserve, name) || has(pl.Bind.Disabled, name) || has(pl.Bind.Enabled, name) {
		return false
	}
	pl.Bind.Enabled = slices.Insert(slices.Clone(pl.Bind.Enabled), 0, schedapi.Plugin{Name: name})
	return !has(pl.MultiPoint.Enabled, name)
}

// needed returns the extension points at which the plugin must run in a profile. A profile where it only scores does
// not get filter, because that would keep pods from nodes that the profile wants to allow.
func needed(pl *schedapi.Plugins, name string) (out []point) {
	scores := enabledAt(pl, &pl.Score, name)
	decides := has(pl.MultiPoint.Enabled, name) || enabledAt(pl, &pl.Filter, name) ||
		enabledAt(pl, &pl.Reserve, name) || enabledAt(pl, &pl.PreBind, name)
	out = append(out, point{"preFilter", &pl.PreFilter})
	if decides {
		out = append(out, point{"filter", &pl.Filter})
	}
	if scores {
		out = append(out, point{"preScore", &pl.PreScore})
	}
	if decides {
		out = append(out, point{"reserve", &pl.Reserve}, point{"preBind", &pl.PreBind})
	}
	return out
}

// Preemptors replaces DefaultPreemption by the plugin in each profile that filters with the plugin and preempts. It
// returns the arguments for preemption by the profile's name. If both plugins ran, the first one that finds victims
// would evict pods that the other one spares. A profile that disables the plugin by name at postFilter keeps
// DefaultPreemption, and a profile with neither plugin does not preempt.
func Preemptors(
	profiles []schedapi.KubeSchedulerProfile,
	logger klog.Logger,
) map[string]*schedapi.DefaultPreemptionArgs {
	out := map[string]*schedapi.DefaultPreemptionArgs{}
	for i := range profiles {
		pl := profiles[i].Plugins
		if pl == nil {
			continue
		}
		for _, name := range []string{config.Tenon, config.Match} {
			if enablePreemption(pl, name) {
				out[profiles[i].SchedulerName] = preemptionArgs(profiles[i].PluginConfig)
				logger.V(2).
					Info("Plugin preempts in place of "+names.DefaultPreemption, "profile", profiles[i].SchedulerName, "plugin", name)
			}
		}
	}
	return out
}

// enablePreemption makes the plugin preempt, in place of DefaultPreemption, in a profile where the plugin filters. It
// returns false, and changes nothing, if the profile does not filter with the plugin, does not preempt, or disables
// the plugin at postFilter.
func enablePreemption(pl *schedapi.Plugins, name string) bool {
	postFilter := &pl.PostFilter
	defaultPreempts := enabledAt(pl, postFilter, names.DefaultPreemption)
	if !enabledAt(pl, &pl.Filter, name) || has(postFilter.Disabled, name) {
		return false
	}
	if !defaultPreempts && !has(postFilter.Enabled, name) {
		return false
	}
	if at := slices.IndexFunc(postFilter.Enabled, func(p schedapi.Plugin) bool {
		return p.Name == names.DefaultPreemption
	}); at >= 0 {
		postFilter.Enabled = slices.Delete(slices.Clone(postFilter.Enabled), at, at+1)
		if !has(postFilter.Enabled, name) {
			postFilter.Enabled = slices.Insert(postFilter.Enabled, at, schedapi.Plugin{Name: name})
		}
	}
	if defaultPreempts {
		postFilter.Disabled = append(slices.Clone(postFilter.Disabled), schedapi.Plugin{Name: names.DefaultPreemption})
	}
	for _, p := range []point{{"postFilter", postFilter}, {"preEnqueue", &pl.PreEnqueue}} {
		if !enabledAt(pl, p.set, name) && !has(p.set.Disabled, name) {
			p.set.Enabled = append(slices.Clone(p.set.Enabled), schedapi.Plugin{Name: name})
		}
	}
	enableForGroups(pl, name)
	return true
}

// enableForGroups makes the plugin preempt for groups of pods, in place of DefaultPreemption, unless the profile
// disables the plugin there, or does not preempt for groups.
func enableForGroups(pl *schedapi.Plugins, name string) {
	s := groupPostFilter(pl)
	switch {
	case s == nil || has(s.Disabled, name):
		return
	case !enabledAt(pl, s, names.DefaultPreemption):
		if !has(s.Enabled, name) { // multiPoint would enable it
			s.Disabled = append(slices.Clone(s.Disabled), schedapi.Plugin{Name: name})
		}
		return
	}
	s.Enabled = slices.DeleteFunc(slices.Clone(s.Enabled), func(p schedapi.Plugin) bool {
		return p.Name == names.DefaultPreemption
	})
	s.Disabled = append(slices.Clone(s.Disabled), schedapi.Plugin{Name: names.DefaultPreemption})
	if !enabledAt(pl, s, name) {
		s.Enabled = append(s.Enabled, schedapi.Plugin{Name: name})
	}
}

// preemptionArgs returns a profile's arguments for preemption, or kube-scheduler's defaults.
func preemptionArgs(all []schedapi.PluginConfig) *schedapi.DefaultPreemptionArgs {
	for _, c := range all {
		if a, ok := c.Args.(*schedapi.DefaultPreemptionArgs); ok && c.Name == names.DefaultPreemption {
			return a
		}
	}
	return &schedapi.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
}

// points returns the extension points at which a profile may name the plugin to enable it: the plugin's own, and
// points that only the plugin of scheduler-plugins serves.
func points(pl *schedapi.Plugins) []*schedapi.PluginSet {
	return []*schedapi.PluginSet{
		&pl.MultiPoint,
		&pl.PreFilter,
		&pl.Filter,
		&pl.PreScore,
		&pl.Score,
		&pl.Reserve,
		&pl.PreBind,
		&pl.PostBind,
	}
}

func enabledSomewhere(pl *schedapi.Plugins, name string) bool {
	return slices.ContainsFunc(points(pl), func(s *schedapi.PluginSet) bool { return has(s.Enabled, name) })
}

// enabledAt reports whether the plugin runs at a point, by kube-scheduler's rules: a plugin that is enabled at the
// point runs there; a plugin that is enabled by multiPoint runs there unless the point disables it by name or by "*".
func enabledAt(pl *schedapi.Plugins, at *schedapi.PluginSet, name string) bool {
	return has(at.Enabled, name) ||
		has(pl.MultiPoint.Enabled, name) && !has(at.Disabled, name) && !has(at.Disabled, "*")
}

func has(in []schedapi.Plugin, name string) bool {
	return slices.ContainsFunc(in, func(p schedapi.Plugin) bool { return p.Name == name })
}
