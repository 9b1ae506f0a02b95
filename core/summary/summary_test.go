package summary

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

func fit(name string) Node { return Node{Name: name} }

// short lacks 40 CPUs on one NUMA node now.
func short(name string, have int64) Node {
	return Node{Name: name, Reasons: []place.Reason{{Code: place.OneNUMA, Container: "c", Resource: "cpu", Want: 40,
		Have: have}}}
}

// small could not give 40 CPUs even without other pods.
func small(name string, have int64) Node {
	n := short(name, have)
	n.Reasons[0].Never = true
	return n
}

func with(n Node, change func(*Node)) Node {
	change(&n)
	return n
}

func estimated(n *Node) { n.Estimated = true }
func inexact(n *Node)   { n.Inexact = true }

// What a sentence claims follows from its facts; where they are inexact or incomplete, the sentence says so.
func TestSentences(t *testing.T) {
	looked := func(n Node) []whatif.Looked { return []whatif.Looked{{Node: n.Name, Reasons: n.Reasons}} }
	pod := state.PodID{Namespace: "mine", Name: "old"}
	lacks := `Not now: container "c" wants 40 cpu on one NUMA node; best NUMA node has 30 free (node a)`
	freed := whatif.Soonest{Node: "b", Pods: []state.PodID{pod}, Any: true, Looked: looked(short("b", 8))}
	for _, c := range []struct {
		facts Facts
		kind  Kind
		want  string
	}{
		{Facts{State: Deleted, Nodes: []Node{fit("a")}}, NotTried, "It is being deleted, and no scheduler places it"},
		{Facts{State: Gated, Gates: []string{"x.io/a"}, Nodes: []Node{fit("a")}}, NotTried,
			"Not yet tried: it waits for gate x.io/a"},
		{Facts{Nodes: []Node{short("a", 30)}, Lost: []string{"b"}}, NotNow,
			lacks + "; node b has lost the room that was kept for it"},
		{Facts{Nodes: []Node{short("a", 30)}, Lost: []string{"a", "b", "c", "d", "e"}}, NotNow,
			lacks + "; nodes a, b, c and 2 more have lost the room that was kept for it"},
		{Facts{Nodes: []Node{short("a", 30)}, Lost: []string{"b"}, Unsure: []string{"c", "d"}}, NotNow,
			lacks + "; node b has lost the room that was kept for it; nodes c, d have not reported yet whether the room " +
				"that is kept for it is still there"},
		{Facts{Nodes: []Node{fit("a")}, Lost: []string{"b"}}, Fits, "Fits now on 1 of 1 node"},
		{Facts{State: Gated, Gates: []string{"x.io/a", "x.io/b"}}, NotTried,
			"Not yet tried: it waits for gates x.io/a, x.io/b"},
		{Facts{State: Unseen, Scheduler: "tenon-sheduler", Nodes: []Node{fit("a")}}, WrongName,
			`Wrong name: no scheduler named "tenon-sheduler" has been seen; "tenon-scheduler" may be meant`},
		{Facts{State: Unseen, Scheduler: "tenon-scheduler"}, WrongName,
			`Wrong name, or not running: no scheduler named "tenon-scheduler" has been seen`},
		{Facts{State: Unseen, Scheduler: "mine", Lease: true}, WrongName, `Perhaps a wrong name: no scheduler named "mine" has ` +
			"been seen, and the profiles of the kube-scheduler that leads are not known"},
		// Who may not read the events of all namespaces learns of a slip, too; it may be a scheduler that he does not see.
		{Facts{State: Unread, Scheduler: "tenon-sheduler", Nodes: []Node{fit("a")}}, WrongName,
			`Perhaps a wrong name: no scheduler named "tenon-sheduler" is known; "tenon-scheduler" may be meant`},
		{Facts{State: Unread, Scheduler: "tenon-scheduler2", Seen: []string{"tenon-scheduler2"}, Nodes: []Node{fit("a")}},
			Fits, "Fits now on 1 of 1 node"},
		{Facts{State: Unread, Scheduler: "tenon-scheduler", Nodes: []Node{fit("a")}}, Fits, "Fits now on 1 of 1 node"},
		{Facts{State: Unread, Scheduler: "mine", Nodes: []Node{fit("a")}}, Fits, "Fits now on 1 of 1 node"},
		{Facts{State: HasNode, Node: "b"}, Chosen,
			"Chosen: node b; the pod waits there for its turn, or for pods that leave"},
		{Facts{State: Untried, Scheduler: "s", Nodes: []Node{fit("a"), small("b", 8)}}, NotTried,
			"Not yet tried by scheduler s: fits now on 1 of 2 nodes"},
		{Facts{State: Untried, Scheduler: "s", Nodes: []Node{small("b", 8)}}, Never, // the scheduler will not help it
			`Never here: container "c" wants 40 cpu on one NUMA node; the largest has 8 (node b)`},
		{Facts{}, NotKnown, "Not known: there are no nodes"},
		{Facts{Partial: true}, NotKnown, "Not known: you may not read nodes, or there are none"},
		{Facts{Partial: true, Said: "Never here: pod wants 300 cpu"}, NotKnown,
			"The scheduler says: Never here: pod wants 300 cpu"},
		{Facts{Said: "Never here: pod wants 300 cpu", Nodes: []Node{fit("a")}}, Fits, "Fits now on 1 of 1 node"},
		{Facts{NotJudged: 3}, NotKnown, "Not known: none of 3 nodes is judged"},
		{Facts{Nodes: []Node{fit("a"), fit("b")}, Unjudged: []string{"resource claims"}}, Fits,
			"Fits now on 2 of 2 nodes, without regard to resource claims"},
		{Facts{State: Refused, Nodes: []Node{fit("a")}, Unjudged: []string{"resource claims"},
			Message: "0/1 nodes are available: request gpu: device class gpu.example.com does not exist. "}, NotKnown,
			"Fits now on 1 of 1 node, without regard to resource claims; its scheduler has refused it: request gpu: " +
				"device class gpu.example.com does not exist"},
		{Facts{State: Refused, Nodes: []Node{fit("a")}, Message: "0/1 nodes are available: Too many pods."}, Fits,
			"Fits now on 1 of 1 node"},
		{Facts{Nodes: []Node{with(fit("a"), estimated), small("b", 1)}}, Fits,
			"Fits now on 1 of 2 nodes (estimated: 1 node reports amounts only)"},
		{Facts{Nodes: []Node{with(fit("a"), estimated), fit("b")}}, Fits, "Fits now on 2 of 2 nodes"},
		{Facts{Namespace: "mine", Nodes: []Node{small("a", 8), short("b", 8)}, Soonest: freed}, NotNow,
			`Not now: container "c" wants 40 cpu on one NUMA node; best NUMA node has 8 free (node b); it fits there when pod ` +
				"old ends"},
		{Facts{Namespace: "other", Nodes: []Node{with(short("b", 8), inexact)}, Soonest: freed}, NotNow,
			`Not now: container "c" wants 40 cpu on one NUMA node; best NUMA node has 8 free (node b); it fits there when a pod ` +
				"of another namespace ends (inexact: predictions for 1 node may be wrong)"},
		{Facts{Nodes: []Node{short("a", 8), short("b", 30)}, Soonest: whatif.Soonest{
			Looked: append(looked(short("a", 8)), looked(short("b", 30))...)}}, NotNow,
			`Not now: container "c" wants 40 cpu on one NUMA node; best NUMA node has 30 free (node b)`},
		{Facts{Nodes: []Node{{Name: "a", Reasons: []place.Reason{{Code: place.PortTaken}}}}}, NotNow,
			"Not now: its host ports are taken (node a)"},
		{Facts{Nodes: []Node{short("a", 8)}, NotJudged: 3}, NotNow, // a node that is not judged may take the pod
			`Not now on the 1 node that is judged (3 are not): container "c" wants 40 cpu on one NUMA node; best NUMA node has ` +
				"8 free (node a)"},
		{Facts{State: Unseen, Scheduler: strings.Repeat("s", 300)}, WrongName, `Wrong name, or not running: no scheduler named "` +
			strings.Repeat("s", 63) + `..." has been seen`},
		{Facts{State: Untried, Scheduler: strings.Repeat("s", 300), Nodes: []Node{fit("a")}}, NotTried,
			"Not yet tried by scheduler " + strings.Repeat("s", 63) + "...: fits now on 1 of 1 node"},
		{Facts{Nodes: []Node{small("a", 8), with(small("b", 32), estimated)}, NotJudged: 2}, Never,
			`Never on the 2 nodes that are judged (2 are not): container "c" wants 40 cpu on one NUMA node; the largest has 32 ` +
				"(node b, the best of 2) (estimated: 1 node reports amounts only)"},
		// Other pods may push a container to where a demand is satisfied, so this is not "never".
		{Facts{Nodes: []Node{{Name: "a", Reasons: []place.Reason{{Code: place.Demanded, Container: "c", Want: 1, With: "0-1",
			Never: true}}}, small("b", 8)}}, Changed,
			`Not without a change: container "c" demands one NUMA node; node would use NUMA nodes 0-1 (1 node), never enough ` +
				"cpu (1 node)"},
		{Facts{Nodes: []Node{{Name: "a", Reasons: []place.Reason{{Code: place.Unselected, Resource: "x=y"}}}}, NotJudged: 1},
			NotKnown, "Not known: it selects none of the 1 node that are judged, and 1 node is not"},
		{Facts{Nodes: []Node{{Name: "a", Reasons: []place.Reason{{Code: place.Unselected, Resource: "x=y"}}},
			{Name: "b", Reasons: []place.Reason{{Code: place.Unselected, Resource: "v=w"}}}}}, Changed,
			"Not without a change: no node matches both the pod's node selector and its required node affinity"},
	} {
		got := Of(&c.facts)
		if got.Text != c.want || got.Kind != c.kind {
			t.Errorf("%s: %q\nwant %s: %q", got.Kind, got.Text, c.kind, c.want)
		}
		if m := got.Message("2 Insufficient cpu"); Cut(m) != got.Text || strings.Contains(got.Text, ". ") {
			t.Errorf("the sentence of %q is %q", m, Cut(m))
		}
	}
}

// The amount is the largest that any node could take: a node with more CPUs in all may have less on one NUMA node.
// Nodes are tried once for each reason, and not all of them.
func TestNeverNamesTheNodeThatCouldTakeMost(t *testing.T) {
	total := func(name string, have int64) Node {
		return Node{Name: name, Reasons: []place.Reason{{Code: place.Short, Resource: "cpu", Want: 300, Have: have,
			Never: true}}}
	}
	asked := 0
	f := Facts{Nodes: []Node{total("wide-1", 252), total("two-2", 220), total("wide-0", 252), total("two-1", 220)},
		Fitting: func(_ int, r place.Reason) int64 {
			asked++
			return map[int64]int64{252: 32, 220: 112}[r.Have]
		}}
	s := Of(&f)
	if !strings.HasSuffix(s.Text, "(node two-1, the best of 4); 112 cpu would fit on the empty node") || s.Kind != Never {
		t.Errorf("%s: %q", s.Kind, s.Text)
	}
	if asked != 2 {
		t.Errorf("%d nodes were tried, want one of each kind", asked)
	}
	for have := range int64(100) {
		f.Nodes = append(f.Nodes, total("more", 100+have))
	}
	if asked = 0; Of(&f).Kind != Never || asked > 8 {
		t.Errorf("%d nodes were tried, want at most 8", asked)
	}
}

// The amount that fits now is the largest of all nodes, also where the search for pods that end has stopped at another.
func TestNotNowNamesTheNodeWithMostRoom(t *testing.T) {
	asked := 0
	a, b := short("a", 24), short("b", 34)
	f := Facts{Nodes: []Node{a, b, {Name: "c", Reasons: []place.Reason{{Code: place.PortTaken}}}},
		Soonest: whatif.Soonest{Node: "a", Pods: []state.PodID{{Name: "old"}}, Any: true,
			Looked: []whatif.Looked{{Node: "a", Reasons: a.Reasons}}},
		Fitting: func(_ int, r place.Reason) int64 { asked++; return r.Have }}
	s := Of(&f)
	if want := "wait for pods to end, or ask for at most 34 cpu (node b), or use a node whose policy allows more NUMA " +
		"nodes"; s.Remedy != want || s.Kind != NotNow ||
		!strings.Contains(s.Text, "has 24 free (node a)") {
		t.Errorf("%q, remedy %q; want %q", s.Text, s.Remedy, want)
	}
	for i := range 20 {
		f.Nodes = append(f.Nodes, short(fmt.Sprintf("more-%d", i), int64(i)))
	}
	if asked = 0; !strings.Contains(Of(&f).Remedy, "34 cpu (node b)") || asked > 8 {
		t.Errorf("%d nodes were tried; remedy %q", asked, Of(&f).Remedy)
	}
}

// An amount that would fit on a node is of no use where a taint keeps the pod away.
func TestNeverNamesANodeWithoutATaint(t *testing.T) {
	tainted := func(n *Node) {
		n.Reasons = append(n.Reasons, place.Reason{Code: place.Tainted, Resource: "team=infra:NoSchedule"})
	}
	f := Facts{Nodes: []Node{with(small("a", 32), tainted), small("b", 16)},
		Fitting: func(_ int, r place.Reason) int64 { return r.Have }}
	if s := Of(&f); !strings.HasSuffix(s.Text, "(node b, the best of 2); 16 cpu would fit on the empty node") {
		t.Errorf("%q", s.Text)
	}
	f.Nodes = f.Nodes[:1]
	if s := Of(&f); s.Kind != Never || !strings.HasSuffix(s.Text, "(node a)") {
		t.Errorf("%q", s.Text)
	}
}
