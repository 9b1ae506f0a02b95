//go:build !upto1.36

package profiles

import (
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// TenonGroups comes first, so that it sees each pod of a group before another plugin refuses it. Where the profile
// decides who generates placements, nothing changes.
func TestGroupsTakeThePlaceOfThePlacementGenerator(t *testing.T) {
	gates := utilfeature.DefaultFeatureGate
	for _, gate := range []featuregate.Feature{features.GenericWorkload, features.TopologyAwareWorkloadScheduling} {
		featuregatetesting.SetFeatureGateDuringTest(t, gates, gate, true)
	}
	for name, c := range map[string]struct {
		plugins string
		first   bool
	}{
		"multiPoint":     {"{multiPoint: {enabled: [{name: Tenon}]}}", true},
		"with a weight":  {"{multiPoint: {enabled: [{name: Tenon, weight: 7}]}}", true},
		"without scores": {"{multiPoint: {enabled: [{name: Tenon}]}, score: {disabled: [{name: Tenon}]}}", true},
		"weight of placements": {"{multiPoint: {enabled: [{name: Tenon}]}, " +
			"placementScore: {enabled: [{name: TenonGroups, weight: 3}]}}", true},
		"filter by name": {"{filter: {enabled: [{name: Tenon}]}, reserve: {enabled: [{name: Tenon}]}}", true},
		"without Tenon":  {"{score: {enabled: [{name: Other}]}}", false},
		"another generator": {"{multiPoint: {enabled: [{name: Tenon}]}, placementGenerate: {enabled: [{name: Other}], " +
			"disabled: [{name: TopologyPlacementGenerator}]}}", false},
		"others at preFilter":  {"{multiPoint: {enabled: [{name: Tenon}]}, preFilter: {enabled: [{name: Other}]}}", true},
		"nothing at preFilter": {"{multiPoint: {enabled: [{name: Tenon}]}, preFilter: {disabled: [{name: '*'}]}}", false},
		"disabled":             {"{multiPoint: {enabled: [{name: Tenon}], disabled: [{name: TenonGroups}]}}", false},
	} {
		list := profilestest.Profiles(t, "- schedulerName: one\n  plugins: "+c.plugins+"\n")
		if err := Complete(list, klog.Background()); err != nil {
			t.Fatal(err)
		}
		pl := list[0].Plugins
		first := pl.MultiPoint.Enabled[0].Name == config.TenonGroups
		if theirs := has(pl.MultiPoint.Enabled, placementGenerator); first != c.first || theirs == c.first {
			t.Errorf("%s: TenonGroups comes first: %t, %s is enabled: %t", name, first, placementGenerator, theirs)
		}
		if w := pl.MultiPoint.Enabled[0].Weight; name == "with a weight" && w != 7 {
			t.Errorf("%s: %d", name, w)
		}
		off := has(pl.PlacementScore.Disabled, config.TenonGroups)
		if off != (name == "without scores" || name == "filter by name") {
			t.Errorf("%s: placements are not scored: %t", name, off)
		}
		if p := pl.PreFilter.Enabled; first && len(p) > 0 && p[0].Name != config.TenonGroups {
			t.Errorf("%s: %s comes first at preFilter", name, p[0].Name)
		}
	}
}

// The plugin that preempts for pods preempts for groups as well, in place of DefaultPreemption, unless the profile does
// not preempt for groups.
func TestWhoPreemptsForGroups(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	for name, c := range map[string]struct {
		plugins          string
		tenon, upstreams bool
	}{
		"multiPoint":     {"{multiPoint: {enabled: [{name: Tenon}]}}", true, false},
		"filter by name": {"{filter: {enabled: [{name: Tenon}]}, reserve: {enabled: [{name: Tenon}]}}", true, false},
		"without Tenon":  {"{score: {enabled: [{name: Other}]}}", false, true},
		"nothing there": {"{multiPoint: {enabled: [{name: Tenon}]}, podGroupPostFilter: {disabled: [{name: '*'}]}}",
			false, false},
		"no preemption": {"{multiPoint: {enabled: [{name: Tenon}]}, podGroupPostFilter: {disabled: " +
			"[{name: DefaultPreemption}]}}", false, false},
		"upstream's alone": {"{multiPoint: {enabled: [{name: Tenon}]}, podGroupPostFilter: {disabled: [{name: Tenon}]}}",
			false, true},
	} {
		list := profilestest.Profiles(t, "- schedulerName: one\n  plugins: "+c.plugins+"\n")
		Preemptors(list, klog.Background())
		pl := list[0].Plugins
		if got := enabledAt(pl, &pl.PodGroupPostFilter, config.Tenon); got != c.tenon {
			t.Errorf("%s: Tenon preempts for groups: %t", name, got)
		}
		if got := enabledAt(pl, &pl.PodGroupPostFilter, "DefaultPreemption"); got != c.upstreams {
			t.Errorf("%s: DefaultPreemption preempts for groups: %t", name, got)
		}
	}
}
