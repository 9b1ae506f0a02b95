package ledger

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// What a later report contains replaces what was predicted.
func TestAnUnlistedPodIsListedOrEnds(t *testing.T) {
	for name, end := range map[string]func(*Book){
		"listed": func(b *Book) {
			b.Report("n", layout(t, state.Entry{Pod: id(1), Holdings: []place.Holding{{Container: "c"}}}))
		},
		"ended":     func(b *Book) { b.Release("uid-1") },
		"vanished":  func(b *Book) { b.Vanish("uid-1") },
		"forgotten": func(b *Book) { b.Forget("n"); b.Release("uid-1"); b.Report("n", layout(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := New()
			b.Report("n", layout(t))
			b.Assume("n", id(1), pod(4, 4))
			b.Admitted("uid-1")
			b.Unlisted("uid-1")
			b.Assume("n", id(1), pod(4, 4)) // every update of the pod repeats this
			if n := b.Snapshot().Node("n"); len(n.Unlisted) != 1 || len(n.Entries) != 1 {
				t.Fatalf("unlisted %v, entries %v", n.Unlisted, n.Entries)
			}
			end(b)
			n := b.Snapshot().Node("n")
			if len(n.Unlisted) != 0 || len(n.Others) != 0 || n.Unsettled || b.Booked("n", "uid-1") {
				t.Errorf("unlisted %v, %d others, unsettled %v", n.Unlisted, len(n.Others), n.Unsettled)
			}
		})
	}
}

// Two pods were admitted while it was not known which of them came first, and their node's agent stopped. Each order is
// still possible after the wait for its report, so a pod is placed only where it fits in all.
func TestUnlistedPodsMayHoldWhatEachOrderGives(t *testing.T) {
	b := New()
	four := place.Holding{Container: "c", CPUs: idset.Of[idset.CPU](17, 18, 19, 20)} // of NUMA node 1
	l := layout(t, state.Entry{Pod: id(9), Holdings: []place.Holding{four}})
	b.Report("n", l)
	b.Assume("n", id(1), pod(12, 1)) // 18 CPUs of NUMA node 0 are left if it comes first, and 14 of 1 if not
	b.Assume("n", id(2), pod(20, 1))
	b.Admitted("uid-2")
	b.Admitted("uid-1")
	before := b.Snapshot().Node("n")
	if before.Fits(pod(18, 1)) || !before.Fits(pod(14, 1)) {
		t.Fatal("one order only")
	}
	for _, uid := range []string{"uid-1", "uid-2"} {
		if !b.Unlisted(uid) {
			t.Fatal("the pod is not marked")
		}
	}
	n := b.Snapshot().Node("n")
	if n.Fits(pod(18, 1)) || !n.Fits(pod(14, 1)) || n.Unsettled {
		t.Errorf("18 CPUs: %v, 14 CPUs: %v; unsettled: %v", n.Fits(pod(18, 1)), n.Fits(pod(14, 1)), n.Unsettled)
	}
	l.Entries = append(l.Entries, state.Entry{Pod: id(1)})
	b.Report("n", l)
	if n := b.Snapshot().Node("n"); len(n.Unlisted) != 1 || n.Unsettled || n.Fits(pod(28, 1)) {
		t.Errorf("unlisted: %v, 28 CPUs: %v", n.Unlisted, n.Fits(pod(28, 1)))
	}
}
