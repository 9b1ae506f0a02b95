package nri_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/nri"
)

func TestPodsThatShareCPUsArePutOnANUMANode(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("shared", 0)
	w.pods.add("other", 0)
	w.pods.add("own", 2)
	for _, uid := range []string{"shared", "other", "own"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	r.want("other: 0,3-15 on 0-1", "own: 1-2 on 0", "shared: 0,3-15 on 0-1")
	w.Near(map[string]idset.NUMA{"shared": 1, "own": 1, "gone": 0}, false)
	r.wantSoon("other: 0,3-15 on 0-1", "own: 1-2 on 0", "shared: 8-15 on 0-1")
	w.Near(map[string]idset.NUMA{"shared": 0}, true)
	r.wantSoon("other: 0,3-15 on 0-1", "own: 1-2 on 0", "shared: 0,3-7 on 0")

	// A new pod takes exclusive CPUs from the shared pod's NUMA node.
	w.pods.add("more", 5)
	if err := r.create("more"); err != nil {
		t.Fatal(err)
	}
	r.want("more: 3-7 on 0", "other: 0,8-15 on 0-1", "own: 1-2 on 0", "shared: 0 on 0")
	w.Near(nil, true)
	r.wantSoon("more: 3-7 on 0", "other: 0,8-15 on 0-1", "own: 1-2 on 0", "shared: 0,8-15 on 0-1")
}

// After a change of the machine, pods are near the NUMA node with the id, whatever its position was before.
func TestPodsStayNearTheirNUMANodeWhenTheMachineChanges(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("shared", 0)
	if err := r.create("shared"); err != nil {
		t.Fatal(err)
	}
	w.Near(map[string]idset.NUMA{"shared": 1}, false)
	r.wantSoon("shared: 8-15 on 0-1")
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\nnuma 1 cpus 8-14,16 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	_, rules := rules(t)
	if err := w.Use(m, rules); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("shared: 8-14,16 on 0-1")
}
