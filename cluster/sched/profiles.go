package sched

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
)

// point is an extension point that the plugin serves.
type point struct {
	name string
	set  *schedapi.PluginSet
}

// complete adds the extension points without which the plugin cannot keep its promise to profiles that
// enable it at some points only: configurations written for scheduler-plugins name filter, score and
// reserve. They go behind all others, as with multiPoint. A point at which the profile disables the
// plugin by name stays without it.
func complete(profiles []schedapi.KubeSchedulerProfile, logger klog.Logger) error {
	for i := range profiles {
		pl := profiles[i].Plugins
		if pl == nil {
			continue
		}
		names := slices.DeleteFunc([]string{config.Tenon, config.Match}, func(n string) bool { return !enabledSomewhere(pl, n) })
		if len(names) > 1 {
			return fmt.Errorf("profile %q enables the plugins %s: they are the same plugin under two names: remove one",
				profiles[i].SchedulerName, strings.Join(names, " and "))
		}
		for _, name := range names {
			completeProfile(pl, name, logger.WithValues("profile", profiles[i].SchedulerName, "plugin", name))
		}
	}
	return nil
}

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

// needed are the points that a profile must have. One that only scores is left to it: to filter as well
// would keep pods away from nodes that it wants to let them on.
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

// points are those that the plugin serves, and some that scheduler-plugins' plugin serves: a profile
// that names the plugin there enables it.
func points(pl *schedapi.Plugins) []*schedapi.PluginSet {
	return []*schedapi.PluginSet{&pl.MultiPoint, &pl.PreFilter, &pl.Filter, &pl.PreScore, &pl.Score, &pl.Reserve, &pl.PreBind, &pl.PostBind}
}

func enabledSomewhere(pl *schedapi.Plugins, name string) bool {
	return slices.ContainsFunc(points(pl), func(s *schedapi.PluginSet) bool { return has(s.Enabled, name) })
}

// enabledAt reports whether the plugin runs at a point, by the rules of kube-scheduler: what is enabled
// at a point runs there; what is enabled everywhere does unless the point disables it.
func enabledAt(pl *schedapi.Plugins, at *schedapi.PluginSet, name string) bool {
	return has(at.Enabled, name) ||
		has(pl.MultiPoint.Enabled, name) && !has(at.Disabled, name) && !has(at.Disabled, "*")
}

func has(in []schedapi.Plugin, name string) bool {
	return slices.ContainsFunc(in, func(p schedapi.Plugin) bool { return p.Name == name })
}
