package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// onCPUs is an entry of a layout for a pod.
func onCPUs(p *v1.Pod, cpus ...idset.CPU) ledger.Entry {
	return ledger.Entry{Pod: ID(p), Holdings: []place.Holding{{Container: "c", CPUs: idset.Of(cpus...)}}}
}

// A layout that lists a pod of another node counts on the node that wrote it. The pod's own node stays as it
// is: when the pod is updated, and when the scheduler starts anew while the layout stands.
func TestALayoutThatListsAPodOfAnotherNode(t *testing.T) {
	p := bind(four("p"), "n", noon)
	honest := layoutOf(t, "n", 1, onCPUs(p, 1, 2, 3, 4))
	lie := layoutOf(t, "liar", 2, onCPUs(p, 9))
	for name, play := range map[string]func(f *Feed){
		"an update of the pod": func(f *Feed) { f.Begin(); f.Layout(honest); f.Pod(p); f.Layout(lie); f.Pod(start(p)) },
		"the lie comes first":  func(f *Feed) { f.Begin(); f.Layout(lie); f.Layout(honest); f.Pod(p); f.Pod(start(p)) },
		"the pod comes last":   func(f *Feed) { f.Begin(); f.Layout(lie); f.Layout(honest); f.Pod(p) },
		"a new scheduler":      func(f *Feed) { f.Layout(honest); f.Layout(lie); f.Pod(start(p)); f.Begin() },
		"a new scheduler, the lie first": func(f *Feed) {
			f.Layout(lie)
			f.Layout(honest)
			f.Pod(start(p))
			f.Begin()
		},
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			play(NewFeed(book, nil, nil))
			wantHeld(t, book, "n", "p=1-4")
			wantHeld(t, book, "liar", "p=9")
			if n := book.Snapshot().Node("n"); n.Doubtful() != "" {
				t.Errorf("the pod's own node: %s", n.Doubtful())
			}
		})
	}
}
