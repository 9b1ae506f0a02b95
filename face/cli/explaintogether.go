package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds out whether the waiting pods of a workload fit at the same time. Each of them may fit alone, and
// all of them together may not: then the workload cannot start as a whole. The cluster judges that as simulate does.
// Which other pods are in the way is found out here, of amounts, NUMA nodes, and what keeps the first pod of each kind
// from nodes; not if pods of the workload mean something to each other, as by anti-affinity.

// gatherer is a [Cluster] that also judges pods together.
type gatherer interface {
	// Together places pods that wait at the same time, in their order: least of them, or as many as it finds.
	Together(ctx context.Context, pods []state.PodID, least int) (view.Together, error)
}

const (
	// maxTogether bounds the waiting pods that are judged together, and maxTemplates the kinds of them for which pods in
	// the way are looked for: pods of one template are kept from the same nodes, which are read once.
	maxTogether  = 256
	maxTemplates = 16
	// togetherBudget bounds the containers that the search for pods in the way places; it takes a second or two.
	togetherBudget = 200_000
	// maxListed bounds the names in the sentence.
	maxListed = 6
)

// together is the answer for the waiting pods of a workload.
type together struct {
	Waiting int `json:"waiting"`
	// Fit is how many of them fit at the same time; the most that the search found.
	Fit int `json:"fit"`
	// Nodes has by node the names of the pods that fit there. LeftOut are those for which there is no place beside the
	// others.
	Nodes   map[string][]string `json:"nodes,omitempty"`
	LeftOut []string            `json:"leftOut,omitempty"`
	// Needed is how many of them have to fit. Once are pods that are in the way: when they have ended, so many fit. They
	// are absent if so many fit now, if the search found none, if devices are not counted, or if the pods require
	// something of each other or of others.
	Needed int         `json:"needed"`
	Once   []endingPod `json:"once,omitempty"`
	// More: more of them than Fit may fit at the same time, since no search has proved the number.
	More bool `json:"more,omitempty"`
	// DevicesNotCounted: some of the pods have claims, whose devices are not counted. Fit may then be too many.
	DevicesNotCounted bool `json:"devicesNotCounted,omitempty"`
}

// endingPod is a pod that has to end, and its node.
type endingPod struct {
	document.Pod
	Node string `json:"node"`
}

// findTogether judges the pods without a node together, in the order in which a scheduler takes them. needed is how
// many of them have to fit; 0 is all. It returns nil if fewer than two wait, or too many, or if the cluster cannot
// judge pods together.
func findTogether(ctx context.Context, c Cluster, pods []view.Pod, needed int, nodes []*state.Node) (*together, error) {
	g, can := c.(gatherer)
	waiting := slices.DeleteFunc(slices.Clone(pods), func(p view.Pod) bool {
		return p.Node != "" || p.Pod == nil || ended(p) || p.Deleted
	})
	if !can || len(waiting) < 2 || len(waiting) > maxTogether {
		return nil, nil
	}
	slices.SortFunc(waiting, inTurn)
	out := &together{Waiting: len(waiting), Needed: cmp.Or(max(0, needed), len(waiting))}
	at, err := g.Together(ctx, document.Each(waiting, func(p view.Pod) state.PodID { return p.ID }), out.Needed)
	if err != nil {
		return nil, err
	}
	for i, p := range waiting {
		out.put(p, at.Nodes[i])
	}
	out.More, out.DevicesNotCounted = at.More, len(at.NotJudged) > 0
	claimed := slices.ContainsFunc(waiting, func(p view.Pod) bool { return p.Claimed })
	if out.Fit < out.Needed && !out.More && !claimed && !out.DevicesNotCounted && !at.Related {
		out.Once, err = onceEnded(ctx, c, waiting, out.Needed, pods, nodes)
	}
	return out, err
}

// inTurn orders pods as a scheduler takes them: by priority, the highest first, by age, and then by name.
func inTurn(a, b view.Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), strings.Compare(a.ID.Name, b.ID.Name))
}

// onceEnded returns the fewest pods that the search finds whose end makes room for as many of the waiting pods as are
// needed; see judgedTogether.once. It returns none if the waiting pods are of too many kinds.
func onceEnded(ctx context.Context, c Cluster, waiting []view.Pod, needed int, own []view.Pod,
	nodes []*state.Node) ([]endingPod, error) {
	kinds, read, err := readKinds(ctx, c, waiting, nodes)
	if err != nil || kinds == nil {
		return nil, err
	}
	problem := assign.Problem{Nodes: nodes, Least: needed, Budget: togetherBudget}
	for i, p := range waiting {
		problem.Pods = append(problem.Pods, assign.Pod{ID: p.ID, Pod: p.Pod, Demand: p.Demand, Kind: kinds[i]})
	}
	partners := map[string]string{}
	for _, p := range problem.Pods {
		if _, known := partners[p.Demand.Together]; !known {
			partners[p.Demand.Together] = partnersOf(p.Demand, nodes)
		}
	}
	problem.Barred = func(node, pod int) bool {
		e := read[problem.Pods[pod].Kind]
		at := partners[problem.Pods[pod].Demand.Together]
		return e != nil && len(e.pod.Around[nodes[node].Name].Barred) > 0 || at != "" && at != nodes[node].Name
	}
	return judgedTogether{problem, read}.once(problem, own), nil
}

// readKinds returns the kind of each pod and, by kind, what was read about its first pod: what keeps it from nodes, and
// what the nodes have. It returns no kinds if too many pods would have to be read.
func readKinds(ctx context.Context, c Cluster, waiting []view.Pod, nodes []*state.Node) (kinds []string,
	read map[string]*explanation, err error) {
	known := map[string]string{} // by kindOf
	read = map[string]*explanation{}
	for _, p := range waiting {
		of := kindOf(p)
		if _, seen := known[of]; !seen {
			if len(known) == maxTemplates {
				return nil, nil, nil
			}
			whole, err := c.Pod(ctx, p.ID.Namespace, p.ID.Name)
			if err != nil {
				return nil, nil, err
			}
			e := &explanation{pod: whole}
			known[of] = e.kind(p, nodes)
			if read[known[of]] == nil {
				read[known[of]] = e
			}
		}
		kinds = append(kinds, known[of])
	}
	return kinds, read, nil
}

// kind returns a text that is equal for pods of one shape that request the same and are kept from the same nodes. The
// search relies on it: it does not try pods of one kind in another order.
func (e *explanation) kind(p view.Pod, nodes []*state.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %v", p.Pod.Shape(), p.Demand, e.pod.Needs)
	for i, n := range nodes {
		if len(e.pod.Around[n.Name].Barred) > 0 {
			fmt.Fprintf(&b, " %d", i)
		}
	}
	return b.String()
}

// put adds a pod with its node; "" if it has none.
func (x *together) put(p view.Pod, node string) {
	if node == "" {
		x.LeftOut = append(x.LeftOut, p.ID.Name)
		return
	}
	if x.Nodes == nil {
		x.Nodes = map[string][]string{}
	}
	x.Fit++
	x.Nodes[node] = append(x.Nodes[node], p.ID.Name)
}

// kindOf returns a text that is equal for pods of one kind, as far as that is known before they are read.
func kindOf(p view.Pod) string { return fmt.Sprintf("%s %v %s", p.Pod.Shape(), p.Demand, p.Template) }

// judgedTogether are the pods that are judged together, with what was read about the first one of each kind.
type judgedTogether struct {
	assign.Problem
	read map[string]*explanation
}

// enough reports whether a node has the plain amounts that some of the pods request, once some of the residents have
// ended. gone has the indices of these residents.
func (a judgedTogether) enough(node int, pods []int, residents []whatif.Resident, gone []int) bool {
	var at whatif.Node
	var needs whatif.Amounts
	for _, i := range pods {
		e := a.read[a.Pods[i].Kind]
		if e == nil {
			continue
		}
		if around, known := e.pod.Around[a.Nodes[node].Name]; known {
			at, needs = around.Node, needs.Add(e.pod.Needs)
		}
	}
	return len(at.After(residents, gone).Lacks(needs)) == 0
}

// once returns the fewest pods that the search finds whose end makes room for as many of the pods as the problem
// needs. The workload's own pods stay, and so do pods that were not read from the API server. It returns none if the
// search gave up, and where the answer may be another one: if kinds of pods were not read, or if pods that hold nothing
// exclusively may go to nodes without a report.
func (a judgedTogether) once(p assign.Problem, own []view.Pod) (out []endingPod) {
	e := assign.Evictions{Problem: p}
	around := a.read[a.Pods[0].Kind].pod.Around // the pods of a node are the same for all kinds
	mine := map[string]bool{}
	for _, o := range own {
		mine[o.ID.UID] = true
	}
	for _, p := range a.Pods {
		if a.read[p.Kind] == nil || p.Pod.Plain() && len(around) > len(a.Nodes) {
			return nil
		}
	}
	var residents []whatif.Resident // by unit
	for i, n := range a.Nodes {
		at, known := around[n.Name]
		pods := at.Node.Pods
		if len(around) == 0 { // a file without pods
			pods = (&whatif.Node{State: n}).MayEnd()
		} else if !known {
			continue // the node does not exist
		}
		for _, r := range pods {
			if mine[r.Pod.UID] || r.Stays {
				continue
			}
			e.Units = append(e.Units, assign.Unit{Victim: evict.Victim{Size: r.Needs["cpu"]},
				Pods: []assign.Held{{Node: i, UID: r.Pod.UID}}})
			residents = append(residents, r)
		}
	}
	e.Room = func(node int, pods, gone []int) bool { return a.enough(node, pods, residents, gone) }
	set, spent := assign.Evict(e)
	if spent {
		return nil
	}
	for _, i := range set {
		out = append(out, endingPod{document.PodOf(residents[i].Pod), a.Nodes[e.Units[i].Pods[0].Node].Name})
	}
	return out
}

// text returns the answer as a sentence; "" for nil.
func (x *together) text() string {
	if x == nil {
		return ""
	}
	text := ""
	switch {
	case x.Fit == 0 && x.More:
		text = fmt.Sprintf("No place was found for the %d pods that wait, and one may exist all the same.", x.Waiting)
	case x.Fit == 0:
		text = fmt.Sprintf("None of the %d pods that wait fits now.", x.Waiting)
	case x.Fit == x.Waiting && x.DevicesNotCounted:
		return fmt.Sprintf("The %d pods that wait would fit together if they had no claims: %s. Devices of claims are not "+
			"counted here.", x.Waiting, nodeCounts(x.Nodes))
	case x.Fit == x.Waiting:
		text = fmt.Sprintf("The %d pods that wait fit together: %s.", x.Waiting, nodeCounts(x.Nodes))
	default:
		text = fmt.Sprintf("Of the %d pods that wait, %s%d fit at the same time: %s. Then no place is left for %s.",
			x.Waiting, x.least(), x.Fit, nodeCounts(x.Nodes), firstOf(x.LeftOut, maxListed, ""))
		if x.DevicesNotCounted {
			text += " Devices of claims are not counted here: fewer may fit."
		}
	}
	if len(x.Once) > 0 {
		names := document.Each(x.Once, func(p endingPod) string { return p.Namespace + "/" + p.Name + " on " + p.Node })
		text += fmt.Sprintf(" %d fit at the same time once other pods have ended, for example %s.", x.Needed,
			firstOf(names, maxListed, ""))
	}
	return text
}

// least is a word before Fit. Where devices are not counted, fewer may fit.
func (x *together) least() string {
	if x.More && !x.DevicesNotCounted {
		return "at least "
	}
	return ""
}

// nodeCounts writes how many pods each node would take, the fullest first. pods has the names of pods by node.
func nodeCounts(pods map[string][]string) string {
	names := slices.SortedFunc(maps.Keys(pods), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(pods[b]), len(pods[a])), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d on %s", len(pods[name]), name)
	}
	return firstOf(names, maxListed, "")
}
