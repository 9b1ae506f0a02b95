package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

func gatesOf(t *testing.T, text string) string {
	t.Helper()
	c, err := ParseConfiguration([]byte(header + text))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range c.Unmodelled(36) {
		if r.Code != state.UnmodelledFeatureGate {
			t.Errorf("code is %s", r.Code)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Message, "feature gate "), ":")
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// A kubelet whose managers have unmodelled behaviour is never treated as a modelled one.
func TestUnmodelledGatesAreNamed(t *testing.T) {
	for _, c := range []struct{ gates, want string }{
		{``, ""},
		{`{PodLevelResourceManagers: true}`, ""},
		{`{PodLevelResourceManagers: false, SomethingElse: true}`, ""},
		{`{PodLevelResources: false, KubeletPodResourcesListUseActivePods: false}`,
			"PodLevelResources=false KubeletPodResourcesListUseActivePods=false"},
		{`{CPUManagerPolicyAlphaOptions: true, CPUManagerPolicyBetaOptions: false, DRAExtendedResource: false}`, ""},
		{`{InPlacePodVerticalScalingExclusiveCPUs: true, InPlacePodVerticalScalingExclusiveMemory: true}`, ""},
		// One gate stands for all of its stage, except for those that are set by name.
		{`{AllBeta: true, PodLevelResourceManagers: false, PodLevelResources: false}`, "PodLevelResources=false"},
		{`{AllAlpha: false, AllBeta: false}`, "PodLevelResources=false"},
		{`{AllBeta: true, PodLevelResources: true}`, ""},
	} {
		if got := gatesOf(t, "featureGates: "+c.gates); got != c.want {
			t.Errorf("%s: %q is not modelled, want %q", c.gates, got, c.want)
		}
	}
}

// The rules have the gate's value in each release, as in the table.
func TestRulesHaveTheGateOfPodLevelManagers(t *testing.T) {
	all := Gates()
	gate := all[slices.IndexFunc(all, func(g Gate) bool { return g.Name == "PodLevelResourceManagers" })]
	for r := place.OldestRelease; r <= place.NewestRelease; r++ {
		for _, set := range []map[string]bool{nil, {gate.Name: true}, {gate.Name: false, "AllAlpha": true, "AllBeta": true},
			{"AllAlpha": true}, {"AllBeta": true}} {
			at, ok := gate.At(r)
			want := ok && at.value(gate.Name, set)
			rules, err := Configuration{Gates: set}.On(machine(t), r)
			if err != nil || rules.PodLevelManagers != want {
				t.Errorf("%s with %v: %t (%v), want %t", r, set, rules.PodLevelManagers, err, want)
			}
		}
	}
}

func TestGatesOfARunningKubelet(t *testing.T) {
	c, err := ParseEffective([]byte(`{"kubeletconfig":{"featureGates":{"PodLevelResourceManagers":true,"Other":true}}}`))
	if err != nil || fmt.Sprint(c.Gates) != "map[PodLevelResourceManagers:true]" {
		t.Errorf("gates are %v, %v", c.Gates, err)
	}
}

func TestTooManyGatesAreRefused(t *testing.T) {
	var b strings.Builder
	for i := range maxGates + 1 {
		fmt.Fprintf(&b, "  G%d: true\n", i)
	}
	if _, err := ParseConfiguration([]byte(header + "featureGates:\n" + b.String())); err == nil ||
		!strings.Contains(err.Error(), "featureGates") {
		t.Errorf("error is %v", err)
	}
}

func TestOnlyModelledReleasesAreExact(t *testing.T) {
	for text, want := range map[string]place.Release{"v1.36.0": 36, "v1.36.3": 36, "v1.36.3+k3s1": 36, "v1.32.13": 32,
		"v1.36.3-gke.1234000": 36, "v1.36.9-eks-a1b2c3": 36, "v1.35.3": 35, "v1.37.2": 37,
		"v1.31.2": 31, "v1.30.14": 30} {
		if r, why, ok := Release(text); !ok || r != want {
			t.Errorf("%s: %s, want %s; %s", text, r, want, why.Message)
		}
	}
	const base = place.DefaultRelease
	for _, c := range []struct {
		text, want string
		nearest    place.Release
	}{
		{"", "does not say", base}, {"v1.29.15", "v1.29.15", 30}, {"v1.38.0", "1.37", 37}, {"v2.36.0", "v2.36.0", base},
		{"v1.36.0-beta.1", "came before", base}, {"v1.36.0-rc.0", "came before", base}, {"1.3", "1.3", base},
		{"v0.0.0-master+$Format:%H$", `"v0.0.0-master+$Format:%H$"`, base}, {"v1.36.0\x1b[2J", `\x1b[2J`, base},
	} {
		r, why, ok := Release(c.text)
		if ok || r.Nearest() != c.nearest || why.Code != state.UnknownKubeletVersion ||
			!strings.Contains(why.Message, c.want) {
			t.Errorf("%q: %s, %v, %+v, want %q", c.text, r, ok, why, c.want)
		}
	}
}

func TestGatesAreThoseOfTheRelease(t *testing.T) {
	set := Configuration{Gates: map[string]bool{"PodLevelResources": true, "InPlacePodVerticalScaling": true}}
	for r, want := range map[place.Release]int{30: 1, 32: 2, 33: 1, 34: 0, 36: 0} {
		if got := set.Unmodelled(r); len(got) != want {
			t.Errorf("%s: %v, want %d reasons", r, got, want)
		}
	}
}
