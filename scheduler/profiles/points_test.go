package profiles

import (
	"reflect"
	"slices"
	"testing"

	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

const dra = "DynamicResources"

// A plugin that is in a profile twice, under two names, keeps kube-scheduler from starting. So DynamicResources is
// replaced at all points, also at those that only later releases have.
func TestDynamicResourcesIsReplacedEverywhere(t *testing.T) {
	one := profilestest.Profiles(t, "- schedulerName: one\n  plugins: {multiPoint: {enabled: [{name: Tenon}]}}\n")[0]
	points := reflect.ValueOf(one.Plugins).Elem()
	for i := range points.NumField() {
		s, ok := points.Field(i).Addr().Interface().(*schedapi.PluginSet)
		if name := points.Type().Field(i).Name; ok && name != "MultiPoint" {
			s.Enabled = append(s.Enabled, schedapi.Plugin{Name: dra, Weight: 7})
			s.Disabled = append(s.Disabled, schedapi.Plugin{Name: dra})
		}
	}
	steerClaims(&one, "Tenon")
	for i := range points.NumField() {
		s, ok := points.Field(i).Addr().Interface().(*schedapi.PluginSet)
		name := points.Type().Field(i).Name
		switch {
		case !ok:
		case has(s.Enabled, dra) || !has(s.Enabled, "TenonClaims"):
			t.Errorf("%s enables %+v", name, s.Enabled)
		case name != "MultiPoint" && !has(s.Disabled, "TenonClaims"):
			t.Errorf("%s disables %+v", name, s.Disabled)
		}
	}
}

// kube-scheduler refuses a profile that has arguments for a plugin twice.
func TestArgumentsOfTheProfileForTenonClaims(t *testing.T) {
	one := profilestest.Profiles(t, "- schedulerName: one\n  plugins: {multiPoint: {enabled: [{name: Tenon}]}}\n"+
		"  pluginConfig: [{name: TenonClaims, args: {filterTimeout: 3s}}]\n")[0]
	steerClaims(&one, "Tenon")
	isClaims := func(c schedapi.PluginConfig) bool { return c.Name == "TenonClaims" }
	first := slices.IndexFunc(one.PluginConfig, isClaims)
	if first < 0 || slices.ContainsFunc(one.PluginConfig[first+1:], isClaims) {
		t.Errorf("the arguments are %+v", one.PluginConfig)
	}
}
