package ledger_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// describe returns a line that shows how certain the ledger is of a node.
func describe(n *state.Node) string {
	if n == nil {
		return "node: no report"
	}
	s := "node: settled"
	switch {
	case n.Unsettled:
		s = "node: unsettled"
	case len(n.Others) > 0:
		s = fmt.Sprintf("node: one of %d possible states", 1+len(n.Others))
	}
	if why := n.Doubtful(); why != "" {
		s += " (" + why + ")"
	}
	return s
}

// changes returns the description of the node if it has changed since the last call.
func (w *cluster) changes() []string {
	now := describe(w.book.Snapshot().Node("n"))
	if now == w.last {
		return nil
	}
	w.last = now
	return []string{now}
}

// verdict prints a verdict: what the pod gets, or why it is refused.
func (w *cluster) verdict(p *member, v place.Verdict, yes, no string) (out []string) {
	switch {
	case v.Fits() && len(v.Holdings) == 0:
		return []string{yes + ": holds nothing"}
	case v.Fits():
		return []string{yes + ": " + w.holdings(p, v.Holdings)}
	}
	for _, r := range v.Reasons {
		out = append(out, no+": "+r.Text())
	}
	return out
}

// holdings prints holdings. The name of a pod's only container is left out.
func (w *cluster) holdings(p *member, hs []place.Holding) string {
	var out []string
	for _, h := range hs {
		s := scenario.Show(w.machine, h)
		if p == nil || len(p.spec.Containers) == 1 {
			s = strings.TrimPrefix(s, h.Container+": ")
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func (w *cluster) outcome(o state.Outcome) string {
	p := w.find(o.Pod.Name)
	s := fmt.Sprintf("prediction for %s: %s", p.name, o.Result)
	if o.Result != state.Confirmed {
		s += "; predicted " + w.holdings(p, o.Predicted)
	}
	if o.Result == state.Wrong && len(o.Seen) > 0 {
		s += ", observed " + w.holdings(p, o.Seen)
	}
	return s
}

func (w *cluster) fits(p *member) []string {
	n := w.book.Snapshot().Node("n")
	if n == nil {
		return []string{"no: the ledger has no report of the node"}
	}
	v := n.Place(p.spec, p.demand)
	out := w.verdict(p, v, "yes", "no")
	if !v.Fits() && n.Might(p.spec, p.demand) {
		out = append(out, "some possible state has room for it")
	}
	return out
}

// show prints every possible state of the node, with the pods that wait for their turn.
func (w *cluster) show() []string {
	n := w.book.Snapshot().Node("n")
	out := []string{describe(n)}
	w.last = out[0]
	if n == nil {
		for _, p := range w.pods {
			if w.book.Booked("n", p.id.UID) {
				out = append(out, p.name+": assumed")
			}
		}
		return out
	}
	for i, one := range append([]*state.Node{n}, n.Others...) {
		if len(n.Others) > 0 {
			out = append(out, fmt.Sprintf("state %d:", i+1))
		}
		for _, e := range one.Entries {
			out = append(out, w.entry(n, e))
		}
		for _, p := range w.pods {
			if _, there := one.Entry(p.id.UID); w.book.Booked("n", p.id.UID) && !there && !isOneOf(n.Unlisted, p.id) {
				out = append(out, p.name+": no room")
			}
		}
		out = append(out, w.free(one.Usage))
	}
	for _, p := range w.pods {
		if why, refused := n.Refused[p.spec.Shape()]; refused {
			out = append(out, fmt.Sprintf("no pods like %s until the next report: %s", p.name, why))
			break
		}
	}
	return out
}

func isOneOf(ids []state.PodID, id state.PodID) bool { return slices.Contains(ids, id) }

// entry prints what a pod holds in one state of the node.
func (w *cluster) entry(n *state.Node, e state.Entry) string {
	source := [...]string{state.Predicted: "predicted", state.Observed: "observed", state.Counted: "counted"}[e.Source]
	p := w.find(e.Pod.Name)
	if p == nil {
		return fmt.Sprintf("unknown pods: %s (%s)", w.holdings(nil, e.Holdings), source)
	}
	switch {
	case isOneOf(n.Unlisted, p.id):
		source += ", unlisted"
	case isOneOf(n.Gone, p.id):
		source += ", has no object"
	case w.waits(p):
		source += ", waits for its turn"
	}
	return fmt.Sprintf("%s: %s (%s)", p.name, w.holdings(p, e.Holdings), source)
}

// waits reports whether a pod waits for its turn.
func (w *cluster) waits(p *member) bool {
	return w.book.Booked("n", p.id.UID) && !w.book.HadTurn(p.id.UID)
}

// free prints what each NUMA node has left in one state.
func (w *cluster) free(u *place.Usage) string {
	var numas []string
	for i, n := range u.Machine.NUMAs() {
		cpus := u.FreeCPUs().And(n.CPUs)
		s := fmt.Sprintf("NUMA node %d no cpus", n.ID)
		if !cpus.Empty() {
			s = fmt.Sprintf("NUMA node %d cpus %s", n.ID, cpus)
		}
		if u.Rules.Memory.Static {
			for _, k := range u.Machine.Kinds() {
				s += " " + k + " " + topo.FormatBytes(u.FreeMemory(i, k))
			}
		}
		for k, r := range u.Machine.Resources() {
			s += fmt.Sprintf(" %s %d", r.Name, u.FreeDevicesOn(k, 1<<uint(i)))
		}
		numas = append(numas, s)
	}
	return "free: " + strings.Join(numas, "; ")
}
