package kube

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// written is one write of an agent: a layout, or a change of the last one.
type written struct {
	layout *v1alpha1.NodeLayout
	change *v1alpha1.LayoutChange
	held   string // what the node holds
}

// agentWrites returns what an agent writes while pods come and go on its node. draw returns a number below n.
func agentWrites(t *testing.T, draw func(n int) int, steps int) (out []written) {
	var entries []state.Entry
	var base *v1alpha1.NodeLayout
	for i := range steps {
		if n := len(entries); n > 0 && draw(3) == 0 {
			at := draw(n)
			entries = slices.Delete(slices.Clone(entries), at, at+1)
		} else if n < 6 {
			cpu := idset.CPU(1 + i%7)
			entries = append(slices.Clone(entries), state.Entry{Pod: state.PodID{UID: fmt.Sprint("uid-", i), Namespace: "d",
				Name: fmt.Sprint("p", i)}, Holdings: []place.Holding{{Container: "c", CPUs: idset.Of(cpu)}}})
		}
		l := layoutOf(t, "n", i+1, entries...)
		l.Sequence = int64(i + 1)
		book := ledger.New()
		begun(book).Layout(l)
		w := written{held: held(book, "n")}
		if c, ok := l.Since(orNone(base)); base != nil && ok && draw(5) > 0 {
			c.ResourceVersion, w.change = l.ResourceVersion, c
		} else {
			base, w.layout = l, l
		}
		out = append(out, w)
	}
	return out
}

func orNone(l *v1alpha1.NodeLayout) *v1alpha1.NodeLayout {
	if l == nil {
		return &v1alpha1.NodeLayout{}
	}
	return l
}

// Layouts and changes arrive by two watches, each in its order, and each may leave out what is no longer current.
// Queueing hints repeat old events of both. The ledger never has what the node did not have, never goes back, and has
// what the node has in the end.
func TestLayoutsAndChangesArriveInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") }
		all := agentWrites(t, draw, 1+draw(30))
		book := ledger.New()
		f := begun(book)
		f.now = func() time.Time { return noon }
		var layouts, changes []int
		for i, w := range all {
			if w.layout != nil {
				layouts = append(layouts, i)
			} else {
				changes = append(changes, i)
			}
		}
		deliver := func(i int) {
			if all[i].layout != nil {
				f.Layout(all[i].layout)
			} else {
				f.Change(all[i].change)
			}
		}
		var sent []int
		at := 0 // the write that the ledger has
		for len(layouts)+len(changes) > 0 {
			from := &layouts
			if len(layouts) == 0 || len(changes) > 0 && draw(2) == 0 {
				from = &changes
			}
			skip := draw(len(*from))
			sent = append(sent, (*from)[skip])
			*from = (*from)[skip+1:]
			f.paces = map[string]*pace{} // the pace is another test's
			deliver(sent[len(sent)-1])
			if draw(3) == 0 {
				deliver(sent[draw(len(sent))])
			}
			now := held(book, "n")
			later := slices.IndexFunc(all[at:], func(w written) bool { return w.held == now })
			if later < 0 && now != "unknown" {
				rt.Fatalf("after the writes %v the ledger has %q, and the node had that at no time since %q", sent, now,
					all[at].held)
			}
			at += max(0, later)
		}
		if got, want := held(book, "n"), all[len(all)-1].held; got != want {
			rt.Fatalf("in the end the ledger has %q, and the node has %q", got, want)
		}
	})
}

// A change that cannot be read makes the node's layout unreadable: what the node has is not known. The next layout
// mends that.
func TestAChangeThatCannotBeRead(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	l := layoutOf(t, "n", 1)
	l.Sequence = 1
	f.Layout(l)
	c := &v1alpha1.LayoutChange{Base: 1, Sequence: 2, Ended: make([]string, v1alpha1.MaxChanged+1)}
	c.Name, c.ResourceVersion = "n", "2"
	f.Change(c)
	wantHeld(t, book, "n", "unknown")
	if f.Problem("n") == "" {
		t.Error("nobody learns why")
	}
	whole := layoutOf(t, "n", 3)
	whole.Sequence = 3
	f.Layout(whole)
	wantHeld(t, book, "n", "")
	if why := f.Problem("n"); why != "" {
		t.Error(why)
	}
}
