package profiles

import (
	"reflect"
	"slices"

	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tenon-numa/tenon/api/config"
)

// steerClaims puts TenonClaims in place of DynamicResources in a profile that filters with the plugin. TenonClaims gets
// the arguments of DynamicResources, unless the profile has some for it. At multiPoint, TenonClaims comes last, behind
// the plugin. Where the profile disables DynamicResources, TenonClaims is disabled as well. A profile that names
// TenonClaims among its plugins is left as it is.
func steerClaims(profile *schedapi.KubeSchedulerProfile, name string) {
	pl := profile.Plugins
	all := everyPoint(pl)
	if !enabledAt(pl, &pl.Filter, name) || slices.ContainsFunc(all, func(s *schedapi.PluginSet) bool {
		return has(s.Enabled, config.TenonClaims) || has(s.Disabled, config.TenonClaims)
	}) {
		return
	}
	for _, s := range all {
		s.Enabled, s.Disabled = slices.Clone(s.Enabled), slices.Clone(s.Disabled)
		if has(s.Disabled, names.DynamicResources) {
			s.Disabled = append(s.Disabled, schedapi.Plugin{Name: config.TenonClaims})
		}
		for i := range s.Enabled {
			if s.Enabled[i].Name == names.DynamicResources {
				s.Enabled[i].Name = config.TenonClaims
			}
		}
	}
	if i := slices.IndexFunc(pl.MultiPoint.Enabled, func(p schedapi.Plugin) bool {
		return p.Name == config.TenonClaims
	}); i >= 0 {
		moved := pl.MultiPoint.Enabled[i]
		pl.MultiPoint.Enabled = append(slices.Delete(pl.MultiPoint.Enabled, i, i+1), moved)
	}
	configured := slices.ContainsFunc(profile.PluginConfig, func(c schedapi.PluginConfig) bool {
		return c.Name == config.TenonClaims
	})
	for _, c := range profile.PluginConfig {
		if c.Name == names.DynamicResources && !configured {
			profile.PluginConfig = append(slices.Clone(profile.PluginConfig),
				schedapi.PluginConfig{Name: config.TenonClaims, Args: c.Args})
		}
	}
}

// everyPoint returns all extension points of a profile. Later releases have more of them.
func everyPoint(pl *schedapi.Plugins) (out []*schedapi.PluginSet) {
	for _, field := range reflect.ValueOf(pl).Elem().Fields() {
		if s, ok := field.Addr().Interface().(*schedapi.PluginSet); ok {
			out = append(out, s)
		}
	}
	return out
}
