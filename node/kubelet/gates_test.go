package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/ledger"
)

func gatesOf(t *testing.T, text string) string {
	t.Helper()
	c, err := ParseConfiguration([]byte(header + text))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range c.Unmodelled() {
		if r.Code != ledger.UnmodelledFeatureGate {
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
		{`{PodLevelResourceManagers: true}`, "PodLevelResourceManagers=true"},
		{`{PodLevelResourceManagers: false, SomethingElse: true}`, ""},
		{`{PodLevelResources: false, KubeletPodResourcesListUseActivePods: false}`,
			"PodLevelResources=false KubeletPodResourcesListUseActivePods=false"},
		{`{CPUManagerPolicyAlphaOptions: true, CPUManagerPolicyBetaOptions: false, DRAExtendedResource: false}`, ""},
		{`{InPlacePodVerticalScalingExclusiveCPUs: true, InPlacePodVerticalScalingExclusiveMemory: true}`,
			"InPlacePodVerticalScalingExclusiveCPUs=true InPlacePodVerticalScalingExclusiveMemory=true"},
		// One gate stands for all of its stage, except for those that are set by name.
		{`{AllAlpha: true, InPlacePodVerticalScalingExclusiveCPUs: false}`,
			"PodLevelResourceManagers=true InPlacePodVerticalScalingExclusiveMemory=true"},
		{`{AllAlpha: false, AllBeta: false}`, "PodLevelResources=false"},
		{`{AllBeta: true, PodLevelResources: true}`, ""},
	} {
		if got := gatesOf(t, "featureGates: "+c.gates); got != c.want {
			t.Errorf("%s: %q is not modelled, want %q", c.gates, got, c.want)
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

func TestOnlyTheModelledReleaseIsExact(t *testing.T) {
	for _, text := range []string{"v1.36.0", "v1.36.3", "v1.36.3+k3s1", "v1.36.3-gke.1234000", "v1.36.9-eks-a1b2c3"} {
		if why, ok := Release(text); !ok {
			t.Errorf("%s: %s", text, why.Message)
		}
	}
	for text, want := range map[string]string{
		"": "does not say", "v1.35.3": "v1.35.3", "v1.37.0": "1.36", "v2.36.0": "v2.36.0", "v1.36.0-beta.1": "before release",
		"v1.36.0-rc.0": "before release", "v0.0.0-master+$Format:%H$": `"v0.0.0-master+$Format:%H$"`,
		"v1.36.0\x1b[2J": `\x1b[2J`, "1.3": "1.3",
	} {
		why, ok := Release(text)
		if ok || why.Code != ledger.UnknownKubeletVersion || !strings.Contains(why.Message, want) {
			t.Errorf("%q: %v, %+v, want %q", text, ok, why, want)
		}
	}
}
