package v1alpha1

import (
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// An agent writes a layout and then changes, and readers never receive some of them. Whoever has the layout and the
// last change has what the node has. A layout that replaces them makes the change void.
func TestALayoutWithItsLastChangeIsWhatTheNodeHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := &NodeLayout{Sequence: 1, Machine: Machine{NUMAs: []NUMA{{ID: 0}}}}
		node.Name = "n"
		base, change, next := *node, (*LayoutChange)(nil), 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			node.Sequence++
			node.Holdings = append([]PodHoldings(nil), node.Holdings...)
			at := 0
			if n := len(node.Holdings); n > 0 {
				at = rapid.IntRange(0, n-1).Draw(t, "pod")
			}
			switch what := rapid.IntRange(0, 5).Draw(t, "event"); {
			case what <= 2 || len(node.Holdings) == 0:
				next++
				node.Holdings = append(node.Holdings, PodHoldings{Namespace: "d", Name: fmt.Sprint("p", next),
					UID: fmt.Sprint(next)})
			case what <= 4:
				node.Holdings = append(node.Holdings[:at:at], node.Holdings[at+1:]...)
			default:
				node.Holdings[at].Containers = []ContainerHolding{{Name: fmt.Sprint("c", node.Sequence)}}
			}
			node.Summary.Pods = int32(len(node.Holdings))
			c, ok := node.Since(&base)
			if !ok {
				base, c = *node, nil
			}
			change = c
			if got := base.With(change); !reflect.DeepEqual(got.Holdings, node.Holdings) && len(node.Holdings) > 0 ||
				got.Sequence != node.Sequence || got.Summary != node.Summary {
				t.Fatalf("the reader has %v in sequence %d, the node %v in %d", got.Holdings, got.Sequence, node.Holdings,
					node.Sequence)
			}
		}
		replaced := *node
		replaced.Sequence++
		if got := replaced.With(change); got != &replaced {
			t.Fatal("a change of an earlier layout has an effect")
		}
	})
}

// What a change cannot say makes the agent write its layout.
func TestOnlyHoldingsChangeWithoutALayout(t *testing.T) {
	pods := func(uids ...string) (out []PodHoldings) {
		for _, uid := range uids {
			out = append(out, PodHoldings{UID: uid})
		}
		return out
	}
	many := make([]string, MaxChanged+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	base := &NodeLayout{Sequence: 7, Holdings: pods("a", "b")}
	for name, c := range map[string]struct {
		l  NodeLayout
		ok bool
	}{
		"nothing":          {NodeLayout{Holdings: pods("a", "b")}, true},
		"one more":         {NodeLayout{Holdings: pods("a", "b", "c")}, true},
		"one less":         {NodeLayout{Holdings: pods("b")}, true},
		"another order":    {NodeLayout{Holdings: pods("b", "a")}, false},
		"an earlier place": {NodeLayout{Holdings: pods("c", "a", "b")}, false},
		"too many more":    {NodeLayout{Holdings: pods(many...)}, false},
		"the machine":      {NodeLayout{Holdings: pods("a", "b"), Machine: Machine{NUMAs: []NUMA{{}}}}, false},
		"the rules":        {NodeLayout{Holdings: pods("a", "b"), Rules: Rules{TopologyManagerPolicy: "restricted"}}, false},
		"doubts":           {NodeLayout{Holdings: pods("a", "b"), Inexact: []Inexact{{}}}, false},
	} {
		c.l.Sequence = 8
		if _, ok := c.l.Since(base); ok != c.ok {
			t.Errorf("%s: a change can say it: %v, want %v", name, ok, c.ok)
		}
	}
}

// Conditions that a scheduler writes give the layout a later version than its change. The later version counts, so that
// readers do not take what they read for older than what they have.
func TestAChangedLayoutHasTheLaterVersion(t *testing.T) {
	for _, c := range []struct{ layout, change, want string }{
		{"9", "10", "10"}, {"10", "9", "10"}, {"21", "22", "22"}, {"22", "21", "22"},
	} {
		l := &NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: c.layout}, Sequence: 1}
		got := l.With(&LayoutChange{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: c.change}, Base: 1,
			Sequence: 2})
		if got.ResourceVersion != c.want || got.Sequence != 2 {
			t.Errorf("layout %s and change %s are version %s in sequence %d, want %s in 2", c.layout, c.change,
				got.ResourceVersion, got.Sequence, c.want)
		}
	}
}

// A change that does not decode makes the node's layout unreadable, with the reason.
func TestAChangeThatDoesNotDecode(t *testing.T) {
	l := (&NodeLayout{}).With(&LayoutChange{Malformed: "base: want a number"})
	if _, err := l.Core(); err == nil {
		t.Error("the layout is accepted")
	}
}
