package cli

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file gathers the facts for the one sentence about a pod; see package summary.

// judgedNode returns what a node answers, as a fact. n is nil if the NUMA nodes of the node are not known.
func judgedNode(name string, n *state.Node, j whatif.Judgement) summary.Node {
	out := summary.Node{Name: name, Reasons: j.Reasons}
	if n != nil {
		out.Estimated, out.Inexact = n.Quality == state.Estimated, len(n.Inexact) > 0
	}
	return out
}

// summary returns the one sentence about the pod of an explanation.
func (e *explanation) summary() summary.Summary {
	f := summary.Facts{Namespace: e.pod.ID.Namespace, Unjudged: unjudged(e.pod.Unjudged, e.partial),
		NotJudged: e.notJudged(), Partial: e.partial != ""}
	for _, v := range e.verdicts {
		f.Nodes = append(f.Nodes, judgedNode(v.name, v.node, v.judged))
		switch {
		case v.node == nil:
		case v.node.HasLost(e.pod.Request):
			f.Lost = append(f.Lost, v.name)
		case v.node.MayHaveLost(e.pod.Request, e.pod.Pod):
			f.Unsure = append(f.Unsure, v.name)
		}
	}
	slices.Sort(f.Lost)
	slices.Sort(f.Unsure)
	if s := e.pod.Scheduling; s != nil && e.pod.Node == "" {
		f.State, f.Scheduler, f.Seen, f.Gates, f.Node = summary.State(s.State), s.Scheduler, s.Seen, s.Gates, s.Node
		f.Lease, f.Remedy, f.Said = s.Lease != "", s.Remedy(), summary.Cut(s.Message)
		f.Message = s.Message
	}
	if e.pod.Deleted && e.pod.Node == "" { // also where its scheduling was not read
		f.State = summary.Deleted
	}
	f.Soonest = soonest(e.want(), len(e.verdicts), func(i int) *whatif.Node {
		v := &e.verdicts[i]
		if !lacksAmounts(v.judged, e.pod.Around[v.name].Barred) {
			return nil
		}
		n := e.on(v.name, v.node)
		return &n
	})
	f.Offered = func() (out []string) {
		for _, v := range e.verdicts {
			n := e.on(v.name, v.node)
			out = append(out, n.Extended()...)
		}
		return out
	}
	f.Fitting = func(i int, r place.Reason) int64 {
		at := e.on(e.verdicts[i].name, e.verdicts[i].node)
		return at.Fitting(e.want(), r)
	}
	return summary.Of(&f)
}

// unjudged returns requirements that are not judged. partial is what of the cluster was not read: then the pods that
// are not known may hold what seems to be free.
func unjudged(requirements []string, partial string) []string {
	if partial == "" {
		return requirements
	}
	return append([]string{"what may not be read"}, requirements...)
}

// notJudged counts the nodes without a verdict, except the one to which the pod is bound.
func (e *explanation) notJudged() int {
	names := map[string]bool{}
	for _, p := range e.problems {
		names[p.Node] = p.Node != e.pod.Node
	}
	delete(names, e.pod.Node)
	return len(names)
}

// soonest finds where the end of pods makes room for w. lacksAmounts returns the node at an index below count. It
// returns nil if the pod lacks more there than amounts, or fits.
func soonest(w *whatif.Want, count int, lacksAmounts func(i int) *whatif.Node) whatif.Soonest {
	at := 0
	return whatif.Rules{}.Soonest(func() *whatif.Node {
		for at < count {
			at++
			if n := lacksAmounts(at - 1); n != nil {
				return n
			}
		}
		return nil
	}, w)
}

// lacksAmounts reports whether a pod only lacks amounts on a node now. barred are the reasons that are not about
// amounts.
func lacksAmounts(j whatif.Judgement, barred []place.Reason) bool {
	return !j.Fits() && j.When() == place.Later && len(barred) == 0
}

// summary returns the one sentence about a pod of the checked workload.
func (c checked) summary(nodes []whatif.Node) summary.Summary {
	w := c.workload
	f := summary.Facts{Namespace: w.Namespace, Unjudged: unjudged(w.Unjudged, c.partial), Partial: c.partial != "",
		State: summary.Unread, Scheduler: w.Scheduler, Seen: w.Schedulers}
	var at []int // positions of the nodes in f
	for i, j := range c.Judged {
		if j.Blind && j.Fits() {
			f.NotJudged++
			continue
		}
		at, f.Nodes = append(at, i), append(f.Nodes, judgedNode(nodes[i].Name, nodes[i].State, j))
	}
	barred := w.Want.Barred(nodes)
	f.Soonest = soonest(w.Want, len(nodes), func(i int) *whatif.Node {
		if !lacksAmounts(c.Judged[i], barred[i]) {
			return nil
		}
		return &nodes[i]
	})
	f.Offered = func() (out []string) {
		for i := range nodes {
			out = append(out, nodes[i].Extended()...)
		}
		return out
	}
	f.Fitting = func(i int, r place.Reason) int64 { return nodes[at[i]].Fitting(w.Want, r) }
	return summary.Of(&f)
}
