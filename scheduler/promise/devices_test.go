package promise

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/whatif"
)

// withGPU is a place of a pod with a claim, which keeps a device near NUMA node on.
func withGPU(node string, cpus int64, device string, on uint) Place {
	p := at(node, podOf(cpus))
	p.Claims, p.Claimed, p.IDs, p.On = "gpu", true, []claims.ID{{Name: device}}, 1<<on
	return p
}

// comes has a pod use up a place of a request, without a reservation in the ledger.
func (c *cluster) comes(uid, request, node string, on uint) {
	x := podOf(8)
	c.keeper.Use(Coming{UID: uid, Request: request, Node: node, Pod: x.Pod, Demand: x.Demand, Claims: "gpu", On: 1 << on},
		func(whatif.Amounts) bool { return true })
}

func (c *cluster) hidden() (out []string) {
	for id := range c.keeper.Hidden() {
		out = append(out, id.Name)
	}
	slices.Sort(out)
	return out
}

// Devices of a place are for its pod until the pod is bound. The places of like pods exchange them, by where the pods
// get their CPUs. Others do not get them.
func TestDevicesAreForTheirPods(t *testing.T) {
	c := newCluster(t)
	k, g := c.keeper, func(names ...string) (out []claims.ID) {
		for _, name := range names {
			out = append(out, claims.ID{Name: name})
		}
		return out
	}
	full, err := k.Keep(Request{Name: "ml/r"}, []Place{withGPU("a", 8, "g0", 0), withGPU("a", 8, "g1", 1)})
	if err != nil || len(full) > 0 || !slices.Equal(c.hidden(), []string{"g0", "g1"}) {
		t.Fatalf("keep: %v, full %v; hidden are %v", err, full, c.hidden())
	}
	if full, _ := k.Keep(Request{Name: "ml/q"}, []Place{withGPU("b", 8, "g1", 0)}); !slices.Equal(full, []string{"b"}) {
		t.Errorf("a device is kept twice: full %v", full)
	}
	if k.Take("other", g("g1")) || !k.Take("other", g("g2")) {
		t.Error("another pod got a device that is kept, or did not get a free one")
	}
	c.comes("p", "ml/r", "a", 1)
	if k.Take("other", g("g1")) || k.Take("p", g("g0", "g1")) || !k.Take("p", g("g1")) {
		t.Error("the pod did not get the device near it, or got both")
	}
	if k.GiveBack("p"); !slices.Equal(c.hidden(), []string{"g0", "g1"}) || k.Take("p", g("g1")) {
		t.Errorf("after the pod could not be bound, hidden are %v", c.hidden())
	}
	c.comes("p", "ml/r", "a", 0)
	if !k.Take("p", g("g1")) || k.On("a")[0].IDs[0].Name != "g0" {
		t.Errorf("the pod did not get the device of a like place, which has now %v", k.On("a"))
	}
	if k.Came("p"); !slices.Equal(c.hidden(), []string{"g0"}) {
		t.Errorf("after the pod was bound, hidden are %v", c.hidden())
	}
	if k.Drop("ml/r"); k.Hidden() != nil {
		t.Errorf("after the end of the request, hidden are %v", c.hidden())
	}
}

// What a claim gets while places are being added is noticed after they were added: they are not kept.
func TestDevicesThatAClaimHasAreNotKept(t *testing.T) {
	c := newCluster(t)
	looks := 0
	c.keeper.Check(func(ids []claims.ID) bool {
		looks++
		return looks > 1 && ids[0].Name == "g0"
	})
	full, err := c.keeper.Keep(Request{Name: "ml/r"}, []Place{withGPU("a", 8, "g0", 0)})
	if err != nil || !slices.Equal(full, []string{"a"}) || looks < 2 || c.keeper.Any() || c.keeper.Hidden() != nil {
		t.Errorf("a device that a claim has since is kept: full %v, %d looks (%v)", full, looks, err)
	}
	if _, err := c.keeper.Keep(Request{Name: "ml/s"}, []Place{withGPU("a", 8, "g1", 0)}); err != nil {
		t.Fatal(err)
	}
	list := c.keeper.On("a")
	if list[0].IDs = []claims.ID{{Name: "g0"}}; c.keeper.Assign("a", list) || !slices.Equal(c.hidden(), []string{"g1"}) {
		t.Errorf("a place gets a device that a claim has; hidden are %v", c.hidden())
	}
	if list[0].IDs = []claims.ID{{Name: "g2"}}; !c.keeper.Assign("a", list) || !slices.Equal(c.hidden(), []string{"g2"}) {
		t.Errorf("a place does not get another device; hidden are %v", c.hidden())
	}
	if list[0].On = 2; c.keeper.Assign("a", list) {
		t.Error("a place gets a device on a NUMA node where its pod has no CPUs")
	}
}

// While a place gets other devices, no moment shows any that are kept before and after: a pod that is being reserved
// could keep them. What is not kept any more is announced.
func TestDevicesStayHiddenWhileOthersAreAssigned(t *testing.T) {
	c := newCluster(t)
	if _, err := c.keeper.Keep(Request{Name: "ml/r"}, []Place{withGPU("a", 8, "g0", 0)}); err != nil {
		t.Fatal(err)
	}
	list, lost := c.keeper.On("a"), false
	c.keeper.Check(func([]claims.ID) bool {
		lost = lost || !c.keeper.Hidden()[claims.ID{Name: "g0"}]
		return false
	})
	seen, ended := make(chan bool), make(chan struct{})
	go func() {
		shown := false
		for {
			select {
			case <-ended:
				seen <- shown
				return
			default:
				shown = shown || !c.keeper.Hidden()[claims.ID{Name: "g0"}]
			}
		}
	}()
	for i := range 2000 {
		list[0].IDs = []claims.ID{{Name: "g0"}, {Name: "g1"}}[:1+i%2]
		if !c.keeper.Assign("a", list) {
			t.Fatal("the place does not get its devices")
		}
	}
	if close(ended); <-seen || lost {
		t.Error("a device was shown for a moment")
	}
	if !slices.Equal(slices.Compact(c.freed), []string{"a"}) {
		t.Errorf("freed are %v", c.freed)
	}
	list[0].IDs = []claims.ID{{Name: "g2"}}
	if lost = false; !c.keeper.Assign("a", list) || lost {
		t.Error("a device was shown before another one was kept for certain")
	}
}

// A pod is offered, on each node of its request, the devices of its own place, and then the devices of like places.
func TestOffers(t *testing.T) {
	c := newCluster(t)
	other := withGPU("a", 2, "x", 1)
	other.Claims = "nic"
	for request, places := range map[string][]Place{
		"ml/q": {withGPU("a", 6, "q0", 0), withGPU("a", 2, "q1", 0)},
		"ml/r": {other, withGPU("a", 6, "r0", 1), withGPU("b", 6, "r1", 0), withGPU("b", 6, "r2", 1)},
	} {
		if err := c.keeper.Restore(Request{Name: request}, places); err != nil {
			t.Fatal(err)
		}
	}
	x, got := podOf(6), map[string][]string{}
	for node, lists := range c.keeper.Offers(Coming{Request: "ml/r", Pod: x.Pod, Demand: x.Demand, Claims: "gpu"}) {
		for _, ids := range lists {
			got[node] = append(got[node], ids[0].Name)
		}
	}
	if !slices.Equal(got["a"], []string{"r0", "q0"}) || !slices.Equal(got["b"], []string{"r1", "r2"}) || len(got) != 2 {
		t.Errorf("offered are %v", got)
	}
}

// The devices of all nodes are checked together. Where claims have some, the nodes are named.
func TestDevicesOfManyNodesAreCheckedTogether(t *testing.T) {
	c := newCluster(t)
	looks, taken := 0, map[string]bool{}
	c.keeper.Check(func(ids []claims.ID) bool {
		looks++
		return slices.ContainsFunc(ids, func(id claims.ID) bool { return taken[id.Name] })
	})
	places := []Place{withGPU("a", 8, "g0", 0), withGPU("a", 8, "g1", 1), withGPU("b", 8, "g2", 0)}
	for _, names := range [][]string{{"g2"}, {"g1"}, {"g0", "g2"}} {
		for _, name := range names {
			taken[name] = true
		}
		var want []string
		for _, p := range places {
			if taken[p.IDs[0].Name] {
				want = append(want, p.Node)
			}
		}
		if full, err := c.keeper.Keep(Request{Name: "ml/r"}, places); err != nil || !slices.Equal(full, want) {
			t.Errorf("with %v taken, full are %v (%v), want %v", names, full, err, want)
		}
		clear(taken)
	}
	looks = 0
	if full, err := c.keeper.Keep(Request{Name: "ml/r"}, places); err != nil || len(full) > 0 || looks != 2 {
		t.Errorf("%d looks, before and after the places are kept; full are %v (%v)", looks, full, err)
	}
}
