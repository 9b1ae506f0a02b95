package place_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Statuses of pods endanger them by the rules of the release.
func TestStatusesEndangerPods(t *testing.T) {
	m, err := topo.ParseMachine(hazardMachine)
	if err != nil {
		t.Fatal(err)
	}
	two := []place.Holding{cpusOf(t, "1-2"), {Container: "d", CPUs: cpusOf(t, "3,9").CPUs}}
	gpu := []place.Holding{{Container: "c", Devices: []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"g0"},
		NUMAs: 1}}}}
	waits := place.Statuses{Stopped: []string{"d"}, Unsized: []string{"d"}}
	resized := place.Statuses{Resized: []string{"c"}}
	pod := func(r *place.Rules) { r.Topology.Policy, r.Topology.Scope = place.Restricted, place.PerPod }
	of := func(release place.Release, do ...func(*place.Rules)) func(*place.Rules) {
		return func(r *place.Rules) {
			pod(r)
			r.Release = release
			for _, f := range do {
				f(r)
			}
		}
	}
	for _, c := range []struct {
		name  string
		rules func(*place.Rules)
		hs    []place.Holding
		is    place.Statuses
		want  place.HazardCode
	}{
		{"1.32 reads the spec", of(32), two, waits, ""},
		{"1.33 reads the status", of(33), two, waits, place.StatusReadmission},
		{"1.34 reads the status", of(34), two, waits, place.StatusReadmission},
		{"1.35 reads the spec", of(35), two, waits, ""},
		{"single-numa-node", of(34, func(r *place.Rules) { r.Topology.Policy = place.SingleNUMA }), two, waits,
			place.StatusReadmission},
		{"best-effort", of(34, func(r *place.Rules) { r.Topology.Policy = place.BestEffort }), two, waits, ""},
		{"scope container", of(34, func(r *place.Rules) { r.Topology.Scope = place.PerContainer }), two, waits, ""},
		{"no static CPU manager", of(34, func(r *place.Rules) { r.CPU = place.CPURules{} }), two, waits, ""},
		{"the agent decides", of(34, func(r *place.Rules) { r.Arbiter = place.ByAgent }), two, waits, ""},
		{"the container was created", of(34), two, place.Statuses{Stopped: []string{"d"}}, ""},
		{"no container was created", of(34), two,
			place.Statuses{Stopped: []string{"c", "d"}, Unsized: []string{"c", "d"}}, ""},
		{"it has no CPUs", of(34), two[:1], waits, ""},
		{"a container with devices waits", of(30), gpu, place.Statuses{Stopped: []string{"c"}}, place.StoppedDevices},
		{"another one waits", of(37), gpu, waits, ""},
		{"devices where the agent decides", of(37, func(r *place.Rules) { r.Arbiter = place.ByAgent }), gpu,
			place.Statuses{Stopped: []string{"c"}}, place.StoppedDevices},
		{"1.36 does not resize", of(36), two, resized, ""},
		{"1.37 resizes", of(37), two, resized, place.ResizeReadmission},
		{"1.37 resizes, scope container", of(37, func(r *place.Rules) { r.Topology.Scope = place.PerContainer }), two,
			resized, place.ResizeReadmission},
		{"1.37 resizes under best-effort", of(37, func(r *place.Rules) { r.Topology.Policy = place.BestEffort }), two,
			resized, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := place.Rules{CPU: place.CPURules{Static: true}}
			c.rules(&r)
			got := place.NewUsage(m, r).Hold(c.hs...).RestartHazards(
				place.Readmitted{Pod: "ns/p", Holdings: c.hs, Statuses: c.is})
			switch {
			case c.want == "" && len(got) > 0, c.want != "" && (len(got) != 1 || got[0].Code != c.want):
				t.Fatalf("hazards %v, want %q", got, c.want)
			case c.want == "":
				return
			}
			if h := got[0]; h.Sure || h.Stops || !slices.Equal(h.Pods, []string{"ns/p"}) ||
				!strings.Contains(h.Text(), "(ns/p); ") || strings.Contains(h.Text(), string(h.Code)) {
				t.Errorf("%+v: %s", h, h.Text())
			}
		})
	}
}

// A text names some pods, in ascending order, and counts the others.
func TestHazardsNameFewPods(t *testing.T) {
	m, err := topo.ParseMachine(hazardMachine)
	if err != nil {
		t.Fatal(err)
	}
	var pods []place.Readmitted
	for i := range 5 {
		pods = append(pods, place.Readmitted{Pod: fmt.Sprintf("ns/p%d", 4-i),
			Holdings: []place.Holding{{Container: "c", Devices: []place.DeviceBlock{{Resource: "acme.com/gpu"}}}},
			Statuses: place.Statuses{Stopped: []string{"c"}}})
	}
	got := place.NewUsage(m, place.Rules{}).RestartHazards(pods...)
	if len(got) != 1 || len(got[0].Pods) != 5 || !strings.Contains(got[0].Text(), "(ns/p0, ns/p1, ns/p2 and 2 more)") {
		t.Errorf("hazards %v", got)
	}
}
