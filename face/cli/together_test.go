package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// gang returns two nodes whose NUMA nodes have 15 and 16 CPUs for pods, and the waiting pods of a deployment.
func gang(t *testing.T, cpus ...int64) cluster {
	t.Helper()
	c := cluster{pods: map[string]view.Pod{}}
	const text = `
numa 0 socket 0 cpus 0-15 memory 192Gi
numa 1 socket 1 cpus 16-31 memory 192Gi
distances 10 21
distances 21 10
`
	for _, name := range []string{"a", "b"} {
		c.nodes = append(c.nodes, node(t, name, text, place.SingleNUMA))
	}
	for i, n := range cpus {
		p := view.Pod{ID: id(fmt.Sprintf("ml/gang-%d", i)), Pod: wanting(n, 1, 0), Phase: "Pending"}
		c.pods["ml/"+p.ID.Name] = p
	}
	return c
}

// Together judges the pods as a cluster without devices and without requirements between pods does.
func (c cluster) Together(ctx context.Context, pods []state.PodID, least int) (out view.Together, err error) {
	var nodes []whatif.Node
	for _, n := range sortedNodes(c.nodes) {
		nodes = append(nodes, whatif.Node{Name: n.Name, State: n})
	}
	g := whatif.Gang{Least: least}
	wants := map[string]*whatif.Want{}
	for _, id := range pods {
		p := c.pods[id.Namespace+"/"+id.Name]
		w := &whatif.Want{Pod: p.Pod, Demand: p.Demand, Needs: p.Needs, Bars: &whatif.Bars{}}
		for i, n := range nodes {
			around := p.Around[n.Name]
			nodes[i].Allocatable, nodes[i].Used = around.Node.Allocatable, around.Node.Used
			w.Bars.Why = append(w.Bars.Why, around.Barred)
		}
		kind := fmt.Sprint(p.Pod.Shape(), p.Demand, p.Needs, w.Bars.Why)
		wants[kind] = cmp.Or(wants[kind], w)
		g.Pods = append(g.Pods, whatif.Member{ID: id, Want: wants[kind]})
		if p.Claimed {
			out.NotJudged = []string{"resource claims"}
		}
	}
	placed, err := whatif.New(nodes, whatif.Rules{}).Together(g, ctx.Err)
	for _, x := range placed.Placed {
		name := ""
		if x.Node != assign.Left {
			name = nodes[x.Node].Name
		}
		out.Nodes = append(out.Nodes, name)
	}
	return out, err
}

// Each of the waiting pods fits alone. The answer is whether all of them fit at once, and where.
func TestWaitingPodsAreJudgedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		cpus []int64
		want string
	}{
		"all":         {[]int64{12, 12, 12, 12}, "The 4 pods that wait fit together: 2 on a, 2 on b."},
		"not all":     {[]int64{12, 12, 12, 12, 12}, "Of the 5 pods that wait, 4 fit at the same time: 2 on a, 2 on b."},
		"small first": {[]int64{3, 3, 15, 16, 16, 9}, "The 6 pods that wait fit together: "},
		"too large":   {[]int64{17, 17}, "None of the 2 pods that wait fits now."},
		"one":         {[]int64{12}, ""},
	} {
		out, errs, code := run(t, gang(t, c.cpus...), "explain", "deploy/gang", "-n", "ml")
		none := c.want == "" && strings.Contains(out, "pods that wait")
		if code != 0 || errs != "" || !strings.Contains(out, c.want) || none {
			t.Errorf("%s: exit code %d, %s\n%s\nwant %q", name, code, errs, out, c.want)
		}
		checkWidth(t, out)
	}
	out, _, _ := run(t, gang(t, 12, 12, 12, 12, 12), "explain", "deploy/gang", "-n", "ml", "-o", "json")
	var d workloadExplanationDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Together == nil || d.Together.Fit != 4 ||
		len(d.Together.LeftOut) != 1 || len(d.Together.Nodes["a"]) != 2 {
		t.Errorf("the document has %+v, %v", d.Together, err)
	}
}

// Devices of claims are not counted, so the answer never is that pods with claims fit, nor who has to end for them.
func TestDevicesAreNotCountedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		cpus []int64
		want string
	}{
		"all": {[]int64{12, 12}, "The 2 pods that wait would fit together if they had no claims: 1 on a, 1 on b. Devices " +
			"of claims are not counted here."},
		"not all": {[]int64{12, 12, 12, 12, 12}, "Then no place is left for gang-4. Devices of claims are not counted " +
			"here: fewer may fit."},
		"none": {[]int64{17, 17}, "None of the 2 pods that wait fits now."},
	} {
		all := gang(t, c.cpus...)
		for key, p := range all.pods {
			p.Claimed = true
			all.pods[key] = p
		}
		out, errs, code := run(t, all, "explain", "deploy/gang", "-n", "ml")
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), c.want) {
			t.Errorf("%s: exit code %d, %s\n%s\nwant %q", name, code, errs, out, c.want)
		}
	}
}

// If the pods do not fit together, the answer has the fewest pods of others that are in the way. A pod of the workload
// itself is not among them.
func TestPodsInTheWayOfAGangAreNamed(t *testing.T) {
	c := gang(t, 12, 12, 12, 12)
	held := func(node int, name string, cpus int64) {
		next, ok := c.nodes[node].With(id(name), wanting(cpus, 1, 0))
		if !ok {
			t.Fatalf("pod %s does not fit", name)
		}
		c.nodes[node] = next
	}
	held(0, "ml/large", 8)
	held(0, "ml/other", 3)
	held(1, "ml/gang-0", 12)
	held(1, "ml/side", 3)
	p := c.pods["ml/gang-0"]
	p.Node, p.Phase = "b", "Running"
	c.pods["ml/gang-0"] = p
	c.pods["ml/gang-4"] = view.Pod{ID: id("ml/gang-4"), Pod: wanting(12, 1, 0), Phase: "Pending"}
	out, _, _ := run(t, c, "explain", "deploy/gang", "-n", "ml")
	if strings.Contains(out, "once other") {
		t.Errorf("pods are named whose end does not make room for four:\n%s", out)
	}
	for want, needs := range map[string]int{
		"3 fit at the same time once other pods have ended, for example ml/large on a.": 4,
		"Of the 4 pods that wait, 2 fit at the same time: 1 on a, 1 on b. ":             3,
	} {
		out, errs, code := run(t, gangCluster{cluster: c, needs: needs}, "explain", "podgroup/gang", "-n", "ml")
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("exit code %d, %s\n%s\nwant %q", code, errs, out, want)
		}
		if needs == 3 && strings.Contains(out, "once other") {
			t.Errorf("enough pods fit, and others are named:\n%s", out)
		}
		checkWidth(t, out)
	}
}

// gangCluster is a cluster with a group of pods.
type gangCluster struct {
	cluster
	needs int
	label string
	err   error
}

func (g gangCluster) Gang(context.Context, string, string) (int, string, error) {
	return g.needs, g.label, g.err
}

// A gang may wait for pods that are not there, however much room there is.
func TestAGangWaitsForPodsThatAreMissing(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "podgroups"}, "gang")
	for want, c := range map[string]gangCluster{
		"The group needs 3 pods, and has 2. With": {needs: 3},
		"The PodGroup does not exist":             {err: gone},
		"needs is not known: forbidden.":          {err: errors.New("forbidden")},
		"same value of the label rack, which is":  {needs: 2, label: "rack"},
		"":                                        {needs: 2},
	} {
		c.cluster = gang(t, 12, 12)
		out, errs, code := run(t, c, "explain", "podgroup/gang", "-n", "ml")
		if code != 0 || errs != "" || !strings.Contains(out, want) || want == "" && strings.Contains(out, "roup ") {
			t.Errorf("exit code %d, %s\n%s\nwant %q", code, errs, out, want)
		}
		checkWidth(t, out)
	}
}

// A pod with scheduling gates keeps its whole group from the scheduler, and a pod that is being deleted gets no node.
func TestAGangWaitsForPodsThatAreHeld(t *testing.T) {
	for want, change := range map[string]func(p *view.Pod){
		"The group waits for pods with scheduling gates: gang-1.": func(p *view.Pod) { p.Gated = true },
		"The group needs 3 pods, and has 2. With":                 func(p *view.Pod) { p.Deleted = true },
	} {
		c := gangCluster{cluster: gang(t, 12, 12, 12), needs: 3}
		p := c.pods["ml/gang-1"]
		change(&p)
		c.pods["ml/gang-1"] = p
		out, errs, code := run(t, c, "explain", "podgroup/gang", "-n", "ml")
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("exit code %d, %s\n%s\nwant %q", code, errs, out, want)
		}
		if p.Deleted && !strings.Contains(out, "The 2 pods that wait fit together") {
			t.Errorf("the pod that is being deleted is judged:\n%s", out)
		}
		checkWidth(t, out)
	}
}

// A scheduler takes pods by priority and age, whatever their names. On this node the pod of 15 CPUs has to come first,
// since the one of 12 would take its NUMA node.
func TestWaitingPodsAreTakenInTheOrderOfAScheduler(t *testing.T) {
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	for name, c := range map[string]struct {
		cpus       []int64
		created    []time.Time
		priorities []int32
		fits       bool
	}{
		"by name":                {[]int64{15, 12}, []time.Time{first, first}, []int32{0, 0}, true},
		"by name, exchanged":     {[]int64{12, 15}, []time.Time{first, first}, []int32{0, 0}, false},
		"by age":                 {[]int64{12, 15}, []time.Time{second, first}, []int32{0, 0}, true},
		"by age, exchanged":      {[]int64{15, 12}, []time.Time{second, first}, []int32{0, 0}, false},
		"by priority":            {[]int64{12, 15}, []time.Time{first, second}, []int32{0, 1}, true},
		"by priority, exchanged": {[]int64{15, 12}, []time.Time{first, second}, []int32{0, 1}, false},
	} {
		all := gang(t, c.cpus...)
		all.nodes = all.nodes[:1]
		next, ok := all.nodes[0].With(id("ml/side-0"), wanting(15, 1, 0))
		if ok {
			next, ok = next.With(id("ml/side-1"), wanting(4, 1, 0))
		}
		if !ok {
			t.Fatal("the other pods do not fit")
		}
		all.nodes[0] = next.Without("uid-of-side-0")
		for i := range c.cpus {
			name := fmt.Sprint("ml/gang-", i)
			p := all.pods[name]
			p.Created, p.Priority = c.created[i], c.priorities[i]
			all.pods[name] = p
		}
		got, errs, code := run(t, all, "explain", "deploy/gang", "-n", "ml")
		if code != 0 || errs != "" || strings.Contains(got, "The 2 pods that wait fit together") != c.fits {
			t.Errorf("%s: exit code %d, %s\n%s\nthey fit together: want %t", name, code, errs, got, c.fits)
		}
	}
}

// A node that another filter closes to the pods has no place for them together either.
func TestClosedNodesHaveNoPlaceForPodsTogether(t *testing.T) {
	c := gang(t, 12, 12, 12)
	for name, p := range c.pods {
		p.Around = map[string]view.Around{"b": {Barred: []place.Reason{{Code: place.Cordoned}}}}
		c.pods[name] = p
	}
	out, _, _ := run(t, c, "explain", "deploy/gang", "-n", "ml")
	if want := "Of the 3 pods that wait, 2 fit at the same time: 2 on a."; !strings.Contains(out, want) {
		t.Errorf("want %q in\n%s", want, out)
	}
}

// Pods of one size may be kept from different nodes, such as two replicated jobs of a JobSet.
func TestPodsOfOneSizeMayBeKeptFromDifferentNodes(t *testing.T) {
	c := gang(t, 12, 12)
	for name, nodes := range map[string][]string{"ml/gang-0": {"b"}, "ml/gang-1": {"a", "b"}} {
		p := c.pods[name]
		p.Template, p.Around = strings.Join(nodes, " "), map[string]view.Around{}
		for _, n := range nodes {
			p.Around[n] = view.Around{Barred: []place.Reason{{Code: place.Cordoned}}}
		}
		c.pods[name] = p
	}
	out, _, _ := run(t, c, "explain", "deploy/gang", "-n", "ml")
	want := "Of the 2 pods that wait, 1 fit at the same time: 1 on a. Then no place is left for gang-1."
	if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("want %q in\n%s", want, out)
	}
}

// gatheringCluster has an answer of its own to whether pods fit together.
type gatheringCluster struct {
	cluster
	out view.Together
}

func (g gatheringCluster) Together(context.Context, []state.PodID, int) (view.Together, error) {
	return g.out, nil
}

// The sentence has the answer of the cluster, which knows what pods mean to each other and, for some, the devices of
// claims. Otherwise devices are not counted.
func TestTheClusterJudgesPodsTogether(t *testing.T) {
	for want, out := range map[string]view.Together{
		"The 2 pods that wait fit together: 1 on a, 1 on b.":                        {Nodes: []string{"b", "a"}},
		"Of the 2 pods that wait, 1 fit at the same time: 1 on a. Then no place":    {Nodes: []string{"a", ""}},
		"Of the 2 pods that wait, at least 1 fit at the same time: 1 on a. Then no": {Nodes: []string{"a", ""}, More: true},
		"None of the 2 pods that wait fits now.":                                    {Nodes: []string{"", ""}},
		"No place was found for the 2 pods that wait, and one may exist":            {Nodes: []string{"", ""}, More: true},
		"would fit together if they had no claims": {
			Nodes: []string{"a", "b"}, NotJudged: []string{"resource claims"}},
	} {
		c := gatheringCluster{gang(t, 12, 12), out}
		for _, claimed := range []bool{false, true} {
			for name, p := range c.pods {
				p.Claimed = claimed
				c.pods[name] = p
			}
			got, errs, code := run(t, c, "explain", "deploy/gang", "-n", "ml")
			if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("claims %t: exit code %d, %s\n%s\nwant %q", claimed, code, errs, got, want)
			}
		}
	}
}

// Pods in the way are named only where room is all that the pods lack, and where they are of few kinds.
func TestPodsInTheWayAreNotAlwaysLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		pods   int
		change func(*view.Pod)
		out    view.Together
		named  bool
	}{
		"room":      {2, nil, view.Together{}, true},
		"kinds":     {maxTemplates, ofItsOwnKind, view.Together{}, true},
		"related":   {2, nil, view.Together{Related: true}, false},
		"claims":    {2, func(p *view.Pod) { p.Claimed = true }, view.Together{}, false},
		"devices":   {2, nil, view.Together{NotJudged: []string{"resource claims"}}, false},
		"uncertain": {2, nil, view.Together{More: true}, false},
		"too many":  {maxTemplates + 1, ofItsOwnKind, view.Together{}, false},
	} {
		all := gang(t, slices.Repeat([]int64{1}, c.pods)...)
		all.nodes = all.nodes[:1]
		for i, cpus := range []int64{15, 16} {
			next, ok := all.nodes[0].With(id(fmt.Sprint("ml/large-", i)), wanting(cpus, 1, 0))
			if !ok {
				t.Fatal("the large pods do not fit")
			}
			all.nodes[0] = next
		}
		for name, p := range all.pods {
			if c.change != nil {
				c.change(&p)
			}
			all.pods[name] = p
		}
		c.out.Nodes = make([]string, c.pods)
		got, errs, code := run(t, gatheringCluster{all, c.out}, "explain", "deploy/gang", "-n", "ml")
		if code != 0 || errs != "" || strings.Contains(got, "other pods have ended") != c.named {
			t.Errorf("%s: exit code %d, %s\n%s\npods in the way are named: want %t", name, code, errs, got, c.named)
		}
	}
}

func ofItsOwnKind(p *view.Pod) { p.Template = p.ID.Name }

// Pods with volumes of their own are read one by one. They are still of one kind where the same nodes take them, so
// that the search finds the number.
func TestEqualPodsWithVolumesAreOfOneKind(t *testing.T) {
	c := gang(t, slices.Repeat([]int64{12}, 9)...)
	c.nodes = nil
	for i := range 8 {
		c.nodes = append(c.nodes, node(t, fmt.Sprint("n", i), "\nnuma 0 socket 0 cpus 0-15 memory 192Gi\n",
			place.SingleNUMA))
	}
	for name, p := range c.pods {
		p.Template = name
		c.pods[name] = p
	}
	got, _, _ := run(t, c, "explain", "deploy/gang", "-n", "ml")
	if !strings.Contains(got, "Of the 9 pods that wait, 8 fit") {
		t.Errorf("want 8 that fit in\n%s", got)
	}
}

// Amounts that no manager counts are used up by the pods before.
func TestAmountsOfPodsTogetherCount(t *testing.T) {
	c := gang(t, 3, 3, 3, 3)
	for name, p := range c.pods {
		p.Pod.QoS, p.Needs = place.Burstable, whatif.Amounts{"memory": 1 << 30, "pods": 1}
		room := whatif.Node{Allocatable: whatif.Amounts{"memory": 3 << 29, "pods": 100}}
		p.Around = map[string]view.Around{"a": {Node: room}, "b": {Node: room}}
		c.pods[name] = p
	}
	out, _, _ := run(t, c, "explain", "deploy/gang", "-n", "ml")
	if want := "Of the 4 pods that wait, 2 fit at the same time: 1 on a, 1 on b."; !strings.Contains(out, want) {
		t.Errorf("want %q in\n%s", want, out)
	}
}

// A pod of a group may fit and wait for others: its explanation names the group, that of the group does not.
func TestAPodNamesTheGroupThatItWaitsWith(t *testing.T) {
	c := gangCluster{cluster: gang(t, 12, 12), needs: 4}
	for name, p := range c.pods {
		p.Group = "llm"
		c.pods[name] = p
	}
	const want = "The pod belongs to PodGroup ml/llm, whose pods may have to start together: kubectl tenon explain " +
		"podgroup ml/llm."
	for ref, named := range map[string]bool{"pod/gang-0": true, "deploy/gang": true, "podgroup/gang": false} {
		out, errs, code := run(t, c, "explain", ref, "-n", "ml")
		if code != 0 || errs != "" || strings.Contains(strings.Join(strings.Fields(out), " "), want) != named {
			t.Errorf("%s: exit code %d, %s\n%s\nthe group is named: want %t", ref, code, errs, out, named)
		}
		checkWidth(t, out)
	}
}
