package profiles

import (
	"slices"
	"testing"
	"time"

	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// In a profile that filters with the plugin, TenonClaims runs exactly where DynamicResources would, with its arguments
// and its weight, and behind the plugin.
func TestClaimsTakeThePlaceOfDynamicResources(t *testing.T) {
	const all = "preFilter filter preScore score reserve preBind bind postBind"
	for name, c := range map[string]struct{ plugins, theirs, ours string }{
		"multiPoint":          {"{multiPoint: {enabled: [{name: Tenon}]}}", "", all},
		"filter by name":      {"{filter: {enabled: [{name: Tenon}]}}", "", all},
		"score only":          {"{score: {enabled: [{name: Tenon}]}}", all, ""},
		"without Tenon":       {"{score: {enabled: [{name: Other}]}}", all, ""},
		"no DynamicResources": {"{multiPoint: {enabled: [{name: Tenon}], disabled: [{name: DynamicResources}]}}", "", ""},
		"not at score": {"{multiPoint: {enabled: [{name: Tenon}]}, score: {disabled: [{name: DynamicResources}]}}", "",
			"preFilter filter preScore reserve preBind bind postBind"},
		"TenonClaims by name": {"{multiPoint: {enabled: [{name: Tenon}, {name: TenonClaims}], disabled: " +
			"[{name: DynamicResources}]}}", "", all},
		"TenonClaims disabled": {"{multiPoint: {enabled: [{name: Tenon}], disabled: [{name: TenonClaims}]}}", all, ""},
	} {
		list := profilestest.Profiles(t, "- schedulerName: one\n  plugins: "+c.plugins+
			"\n  pluginConfig: [{name: DynamicResources, args: {filterTimeout: 3s}}]\n")
		if err := Complete(list, klog.Background()); err != nil {
			t.Fatal(err)
		}
		pl := list[0].Plugins
		if theirs, ours := at(pl, names.DynamicResources), at(pl, config.TenonClaims); theirs != c.theirs || ours != c.ours {
			t.Errorf("%s: DynamicResources runs at %q and TenonClaims at %q, want %q and %q",
				name, theirs, ours, c.theirs, c.ours)
		}
		if c.ours == "" || name == "TenonClaims by name" {
			continue
		}
		last := pl.MultiPoint.Enabled[len(pl.MultiPoint.Enabled)-1]
		if want := (schedapi.Plugin{Name: config.TenonClaims, Weight: weight(t)}); last != want {
			t.Errorf("%s: the last plugin at multiPoint is %+v, want %+v", name, last, want)
		}
		if !slices.ContainsFunc(list[0].PluginConfig, func(c schedapi.PluginConfig) bool {
			args, ok := c.Args.(*schedapi.DynamicResourcesArgs)
			return c.Name == config.TenonClaims && ok && args.FilterTimeout.Duration == 3*time.Second
		}) {
			t.Errorf("%s: TenonClaims does not have the arguments of DynamicResources: %+v", name, list[0].PluginConfig)
		}
	}
}

// weight returns the weight of DynamicResources in kube-scheduler's default profile.
func weight(t *testing.T) int32 {
	t.Helper()
	for _, p := range profilestest.Profiles(t, "- schedulerName: one\n")[0].Plugins.MultiPoint.Enabled {
		if p.Name == names.DynamicResources {
			return p.Weight
		}
	}
	t.Fatal("the default profile has no DynamicResources")
	return 0
}
