package ledger

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// claiming is a layout of a node that claims to have pods with these UIDs.
func claiming(t interface{ Fatal(...any) }, pods ...int) state.Layout {
	var entries []state.Entry
	for i, n := range pods {
		entries = append(entries, state.Entry{Pod: id(n), Holdings: []place.Holding{
			{Container: "c", CPUs: idset.Of(idset.CPU(1+i), idset.CPU(33+i))}}})
	}
	return layout(t, entries...)
}

// A node that lists a pod of another node has no effect on the other node, whatever happens to the pod.
func TestANodeThatListsPodsOfAnotherNode(t *testing.T) {
	b := New()
	l := layout(t)
	v := place.Place(place.NewUsage(l.Machine, l.Rules), pod(20, 1))
	b.Report("honest", layout(t, state.Entry{Pod: id(0), Holdings: v.Holdings}))
	before := b.Snapshot().Node("honest")
	b.Report("liar", claiming(t, 0, 1))
	b.Assume("honest", id(0), pod(20, 1)) // every update of the pod does this
	b.Admitted(id(0).UID)
	if now := b.Snapshot().Node("honest"); now != before {
		t.Errorf("the honest node has %d entries, %d CPUs free, unsettled %v", len(now.Entries),
			now.Usage.FreeCPUs().Len(), now.Unsettled)
	}
	if got, want := b.Snapshot().Node("liar").Usage.FreeCPUs().Len(), 56; got != want {
		t.Errorf("%d CPUs are free on the node that lists the pod, want %d: what it lists holds there", got, want)
	}
	b.Release(id(0).UID)
	if got := b.Snapshot().Node("honest").Usage.FreeCPUs().Len(); got != 60 {
		t.Errorf("%d CPUs are free on the honest node after the pod's end, want 60", got)
	}
}

// For any lists of one node, every other node has the same state as without them.
func TestALyingNodeAffectsNoOther(t *testing.T) {
	honest := []string{"n0", "n1"}
	rapid.Check(t, func(t *rapid.T) {
		lied, without := New(), New() // with and without the lies
		books := []*Book{lied, without}
		for _, b := range books {
			for _, node := range append(honest, "liar") {
				b.Report(node, layout(t))
			}
		}
		on := map[int]string{} // the nodes that pods were sent to
		which := func(t *rapid.T) int { return rapid.IntRange(0, 5).Draw(t, "pod") }
		each := func(do func(*Book)) {
			for _, b := range books {
				do(b)
			}
		}
		uid := func(do func(*Book, string)) func(*rapid.T) {
			return func(t *rapid.T) {
				n := which(t)
				each(func(b *Book) { do(b, id(n).UID) })
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"lie": func(t *rapid.T) {
				pods := rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 6, rapid.ID[int]).Draw(t, "pods")
				lied.Report("liar", claiming(t, pods...))
			},
			"the liar is gone": func(t *rapid.T) {
				lied.Forget("liar")
				lied.Report("liar", layout(t))
			},
			"reserve": func(t *rapid.T) {
				n, node := which(t), rapid.SampledFrom(honest).Draw(t, "node")
				if at := on[n]; at == "" || at == node {
					on[n] = node
					each(func(b *Book) { b.Reserve(node, id(n), pod(int64(2+n), 1), place.Demand{}) })
				}
			},
			"assume": func(t *rapid.T) {
				n, node := which(t), rapid.SampledFrom(append(honest, "liar")).Draw(t, "node")
				if at := on[n]; at == "" || at == node {
					on[n] = node
					each(func(b *Book) { b.Assume(node, id(n), pod(int64(2+n), 1)) })
				}
			},
			"report": func(t *rapid.T) {
				node := rapid.SampledFrom(honest).Draw(t, "node")
				var entries []state.Entry
				for _, e := range lied.Snapshot().Node(node).Entries {
					if on[number(e.Pod.UID)] == node && rapid.Bool().Draw(t, "listed") {
						entries = append(entries, e)
					}
				}
				each(func(b *Book) { b.Report(node, layout(t, entries...)) })
			},
			"turn":      uid(func(b *Book, uid string) { _, _, _ = b.Turn(uid, 0) }),
			"admitted":  uid(func(b *Book, uid string) { b.Admitted(uid) }),
			"settle":    uid((*Book).Settle),
			"overdue":   uid(func(b *Book, uid string) { b.Overdue(uid) }),
			"release":   uid((*Book).Release),
			"vanish":    uid((*Book).Vanish),
			"unreserve": uid((*Book).Unreserve),
			"decline":   uid((*Book).Decline),
			"begun":     uid(func(b *Book, uid string) { b.Begun(uid) }),
			"refuse":    uid(func(b *Book, uid string) { b.Refuse(uid, place.TopologyAffinityError) }),
			"doubt": func(t *rapid.T) {
				there := which(t)
				each(func(b *Book) { b.Doubt(func(id state.PodID) bool { return number(id.UID) <= there }) })
			},
			"": func(t *rapid.T) {
				for _, node := range honest {
					a, b := lied.Snapshot().Node(node), without.Snapshot().Node(node)
					if x, y := stateOf(a), stateOf(b); x != y {
						t.Fatalf("%s is\n%s\nwithout the lies it is\n%s", node, x, y)
					}
				}
			},
		})
	})
}

// stateOf writes everything about a node, in each of its states, except for how machines and usages are stored.
func stateOf(n *state.Node) string {
	v := reflect.ValueOf(*n)
	var out string
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Machine", "Rules", "Usage", "Others", "Basis":
		default:
			out += fmt.Sprintf("%s=%+v ", name, v.Field(i))
		}
	}
	b := n.Basis
	b.Empty = nil
	out += fmt.Sprintf("%+v free=", b) + n.Usage.FreeCPUs().String()
	for i := range n.Machine.NUMAs() {
		out += fmt.Sprint(" ", n.Usage.MemoryGroup(i))
	}
	out += "\n"
	for _, o := range n.Others {
		out += stateOf(o)
	}
	return out
}
