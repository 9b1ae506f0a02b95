package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// checkRelated checks that a pod which the node admits is where its demand about other pods wants it. That is promised
// if no foreign pod and no end came between, for this pod and for the other one.
func (m *model) checkRelated(t *testing.T, i int, hs []place.Holding) {
	p := m.pods[i]
	if !p.demand.Relates() || !p.clear || !p.steady {
		return
	}
	numas := func(hs []place.Holding) (out topo.Mask) {
		for _, h := range hs {
			for k, n := range m.empty.Machine.NUMAs() {
				if !h.CPUs.And(n.CPUs).Empty() {
					out |= 1 << uint(k)
				}
			}
		}
		return out
	}
	own := numas(hs)
	if p.demand.Together != "" && own.Len() != 1 {
		m.fail(t, "pod %d has to be on one NUMA node, and is on %b", i, own)
	}
	for _, e := range m.node.entries {
		q := m.pods[number(e.Pod.UID)]
		if !q.clear || !q.steady {
			continue
		}
		switch on := numas(e.Holdings); {
		case p.demand.Together != "" && q.demand.Together == p.demand.Together && on != own:
			m.fail(t, "pod %d is on %b, and has to be with %s on %b", i, own, e.Pod, on)
		case p.demand.Apart != "" && q.demand.Apart == p.demand.Apart && on&own != 0:
			m.fail(t, "pod %d is on %b, and has to be apart from %s on %b", i, own, e.Pod, on)
		case p.demand.Apart != "" && q.demand.Apart == p.demand.Apart,
			p.demand.Together != "" && q.demand.Together == p.demand.Together:
			met++
		}
	}
}

// met counts the pods that checkRelated has compared with others.
var met int

// Six pods, most of them related to others, come to a node in random interleavings with reports, ends and restarts. The
// checks of the model hold, and every pod is where its demand wants it.
func TestRandomInterleavingsOfRelatedPods(t *testing.T) {
	met = 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 1))
		pods := randomPods(r)
		for i := range pods {
			pods[i].ends = r.IntN(3) == 0
			if pods[i].draws() {
				continue // which devices it gets is chance, so it has to wait for reports
			}
			switch r.IntN(4) {
			case 0:
				pods[i].demand.Together = "default/a"
			case 1:
				pods[i].demand.Apart = "default/b"
			case 2:
				pods[i].demand.Apart, pods[i].demand.Together = "default/b", "default/a"
			}
		}
		m := beginOn(randomNode(t, r), pods, 3)
		m.restarts, m.surprised = r.IntN(2), true
		m.wander(t, r, func(*model) {})
	}
	if met < 300 {
		t.Errorf("%d pods were beside others that they are related to, want many", met)
	}
	t.Logf("%d pods were compared with others", met)
}

// Where the agent is the arbiter, pods get the NUMA nodes that their demands leave, although place would take others.
func TestTheAgentIsToldWhereRelatedPodsHaveToBe(t *testing.T) {
	b := New()
	b.Report("n", agentLayout(t))
	at := func(i int) topo.Mask {
		e, _ := b.Snapshot().Node("n").Entry(id(i).UID)
		return place.Exclusive(layout(t).Machine, e.Holdings)
	}
	reserve := func(i int, cpus int64, d place.Demand) bool {
		v, ok := b.Reserve("n", id(i), pod(cpus, 1), d)
		return ok && v.Fits()
	}
	apart, together := place.Demand{Apart: "default/ranks"}, place.Demand{Together: "default/pair"}
	if !reserve(0, 2, apart) || !reserve(1, 2, apart) || at(0) == at(1) {
		t.Errorf("pods that have to be apart are on %b and %b", at(0), at(1))
	}
	if reserve(2, 2, apart) {
		t.Error("a third pod has a NUMA node of its own, of two")
	}
	if !reserve(3, 16, place.Demand{}) || !reserve(4, 6, together) || !reserve(5, 6, together) || at(4) != at(5) {
		t.Errorf("pods that have to be together are on %b and %b", at(4), at(5))
	}
	n := b.Snapshot().Node("n")
	v := n.Place(pod(6, 1), together)
	if v.Fits() || len(v.Reasons) == 0 {
		t.Errorf("a third pod of 6 CPUs fits beside the two: %v", v.Reasons)
	}
	b.Unreserve(id(4).UID)
	b.Unreserve(id(5).UID)
	if !n.Together("default/pair") || b.Snapshot().Node("n").Together("default/pair") {
		t.Error("pods that are gone still relate others to the node")
	}
}

// The keys of a pod that has ended count until no report lists it, and then take no memory.
func TestRelationsEndWithTheirPods(t *testing.T) {
	b := New()
	l := layout(t)
	held := state.Entry{Pod: id(0), Holdings: place.Place(place.NewUsage(l.Machine, l.Rules), pod(4, 1)).Holdings}
	b.Report("n", layout(t, held))
	b.Relate("n", id(0).UID, state.Relations{Together: "default/pair"})
	if got := fmt.Sprint(b.Together("default/pair"), b.Together("default/other")); got != "n" {
		t.Errorf("the pair is on %q", got)
	}
	b.Relate("n", id(0).UID, state.Relations{})
	if b.Together("default/pair") == "" {
		t.Error("the pod is still listed, and its keys are gone")
	}
	b.Report("n", layout(t))
	if len(b.nodes["n"].relations)+len(b.nodes["n"].leaving)+len(b.partners) > 0 {
		t.Errorf("%v and %v are left", b.nodes["n"].relations, b.nodes["n"].leaving)
	}
}

// Pods that have to be together do not get two nodes, also where a node has no report, and the callback is called when
// the last of them has left.
func TestPartnersOnAnotherNode(t *testing.T) {
	b, parted := New(), []string{}
	b.OnParting(func(key string) { parted = append(parted, key) })
	b.Report("m", layout(t))
	b.Report("n", layout(t))
	pair := place.Demand{Together: "default/pair"}
	b.Relate("lost", id(9).UID, state.RelationsOf(pair)) // bound to a node that has not reported
	if v, _ := b.Reserve("n", id(0), pod(4, 1), pair); v.Fits() || v.Reasons[0].With != "lost" {
		t.Errorf("the pod is on n, and its partner on another node: %v", v.Reasons)
	}
	b.Relate("lost", id(9).UID, state.Relations{})
	if len(parted) != 1 || parted[0] != pair.Together || b.nodes["lost"] != nil {
		t.Errorf("after the end of the partner: %v, account %v", parted, b.nodes["lost"])
	}
	if v, _ := b.Reserve("n", id(0), pod(4, 1), pair); !v.Fits() {
		t.Errorf("the pod does not fit: %v", v.Reasons)
	}
	b.Relate("m", id(8).UID, state.RelationsOf(pair)) // another scheduler binds a partner elsewhere
	if v, wait, err := b.Turn(id(0).UID, 0); v.Fits() || wait != nil || err != nil {
		t.Errorf("the pod has its turn apart from its partner: %v, %v, %v", v, wait, err)
	}
	if len(parted) != 2 || b.Together(pair.Together) != "m" {
		t.Errorf("after that: %v, on %q", parted, b.Together(pair.Together))
	}
}

// The last pod with a key has left a node when its booking ends, whether or not it has asked for its turn. Only the end
// of a booking on trial is no news.
func TestABookingThatEndsBeforeItsTurnParts(t *testing.T) {
	pair := place.Demand{Together: "default/pair"}
	for name, c := range map[string]struct {
		end  func(*Book)
		want int
	}{
		"unreserved": {func(b *Book) { b.Unreserve(id(0).UID) }, 1},
		"declined":   {func(b *Book) { b.Decline(id(0).UID) }, 1},
		"deleted":    {func(b *Book) { b.Release(id(0).UID) }, 1},
		"moved":      {func(b *Book) { b.Reserve("m", id(0), pod(4, 1), place.Demand{}) }, 1},
		"on trial":   {func(b *Book) { b.Withdraw(id(0).UID) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, parted := New(), []string{}
			b.OnParting(func(key string) { parted = append(parted, key) })
			b.Report("m", layout(t))
			b.Report("n", layout(t))
			if v, _ := b.Reserve("n", id(0), pod(4, 1), pair); !v.Fits() {
				t.Fatal(v.Reasons)
			}
			if v, _ := b.Reserve("m", id(1), pod(4, 1), pair); v.Fits() {
				t.Fatal("the partner fits on another node")
			}
			if c.end(b); b.Together(pair.Together) != "" || len(parted) != c.want {
				t.Errorf("after the end %d partings are reported, want %d; the pair is on %q", len(parted), c.want,
					b.Together(pair.Together))
			}
			if v, _ := b.Reserve("m", id(1), pod(4, 1), pair); !v.Fits() {
				t.Errorf("the partner does not fit: %v", v.Reasons)
			}
		})
	}
}
