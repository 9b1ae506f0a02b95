package place_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// An outline has the amounts of the verdict, on any machine in any state. A pod that is refused has none.
func TestOutlineAgreesWithPlace(t *testing.T) {
	outlined := 0
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.OneOf(rapid.Custom(drawnMachine), rapid.Custom(unequalMachine)).Draw(t, "machine")
		rules := drawnRules(t, m)
		rules.Topology.PreferClosest = rapid.Bool().Draw(t, "closest")
		rules.Arbiter = place.Arbiter(rapid.IntRange(0, 1).Draw(t, "arbiter"))
		rules.PodLevelManagers = rapid.Bool().Draw(t, "pod-level managers")
		u := place.NewUsage(m, rules)
		for range rapid.IntRange(1, 12).Draw(t, "pods") {
			p := drawnPod(t)
			if rapid.Bool().Draw(t, "simple") {
				p.Containers = p.Containers[len(p.Containers)-1:]
				p.Containers[0].Devices = nil
				if c := &p.Containers[0]; rapid.IntRange(0, 9).Draw(t, "none") == 0 {
					c.Memory[len(c.Memory)-1].Bytes = 0
				}
			}
			v := place.Place(u, p)
			if o, ok := place.NewQuestion(p).Outline(u); ok {
				outlined++
				checkOutline(t, m, o, v)
			}
			u = u.Hold(v.Holdings...)
		}
	})
	if outlined < 20 {
		t.Errorf("only %d verdicts had an outline", outlined)
	}
}

func checkOutline(t *rapid.T, m *topo.Machine, o place.Outline, v place.Verdict) {
	if !v.Fits() {
		t.Fatalf("outline %+v of a pod that is refused: %v", o, v.Reasons)
	}
	if o.NUMA < 0 {
		if len(v.Holdings) > 0 {
			t.Fatalf("the outline has nothing, and the verdict %+v", v)
		}
		return
	}
	if len(v.Holdings) != 1 || v.NUMAs(m) != 1<<uint(o.NUMA) {
		t.Fatalf("outline %+v, verdict %+v", o, v)
	}
	h := v.Holdings[0]
	if int64(h.CPUs.Len()) != o.CPUs || len(h.Devices) > 0 || len(h.Memory) != len(o.Memory) {
		t.Fatalf("outline %+v, verdict %+v", o, v)
	}
	for i, b := range h.Memory {
		if want := (place.Block{Kind: o.Memory[i].Kind, NUMAs: 1 << uint(o.NUMA), Bytes: o.Memory[i].Bytes}); b != want {
			t.Fatalf("outline %+v, verdict %+v", o, v)
		}
	}
	for id := range h.CPUs.All() {
		if !h.CPUs.SubsetOf(m.GroupOf(topo.L3s, id).CPUs) {
			t.Fatalf("CPUs %s are in several caches", h.CPUs)
		}
	}
}
