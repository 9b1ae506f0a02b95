package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
)

// pod has the kept decisions on a pod.
type pod document.PodDecisions

// pod returns the last decisions on a pod, or an error that explains why none is kept.
func (s Source) pod(namespace, name string) (*pod, error) {
	out := &pod{Namespace: namespace, Name: name}
	snap := s.Book.Snapshot()
	for _, d := range s.Decisions.newest() {
		if d.pod.Namespace == namespace && d.pod.Name == name && len(out.Decisions) < maxShown {
			out.Decisions = append(out.Decisions, d.view(snap))
		}
	}
	if e := s.election(); len(out.Decisions) == 0 && e.Role == document.Standby {
		return nil, errors.New(strings.TrimSuffix(e.role()+"\n"+e.remedy(), "\n"))
	}
	if len(out.Decisions) == 0 {
		return nil, fmt.Errorf("no decision on pod %s in namespace %s is remembered: it asks for nothing that is aligned, "+
			"another scheduler has it, or it was long ago", quoted(name), quoted(namespace))
	}
	return out, nil
}

// view returns the document of a decision. snap has the machine by which holdings are rendered.
func (d *Decision) view(snap *ledger.Snapshot) document.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	var m *topo.Machine
	if n := snap.Node(d.node); n != nil {
		m = n.Machine
	}
	out := document.Decision{UID: d.pod.UID, Time: d.at.UTC(), Stage: d.stage, Why: d.why, Node: d.node,
		Predicted: document.Containers(
			m,
			d.predicted,
		), Seen: document.Containers(m, d.seen), MoreNodes: d.judged.Load() > MaxNodes}
	if !d.turned.IsZero() {
		out.Turned = d.turned.UTC()
	}
	costs := map[string]int64{}
	for i := range d.costs {
		if c := &d.costs[i]; c.written.Load() {
			costs[c.node] = c.cost
		}
	}
	for i := range d.verdicts {
		v := &d.verdicts[i]
		if !v.written.Load() {
			continue
		}
		refusal := refused{}
		if v.refused != nil {
			refusal = *v.refused
		}
		a := document.Verdict{Node: v.node, Fits: v.refused == nil, Why: refusal.why,
			Reasons: document.Each(refusal.reasons, document.ReasonOf)}
		if cost, ok := costs[v.node]; ok && a.Fits {
			a.Cost = &cost
		}
		out.Nodes = append(out.Nodes, a)
	}
	// A node may be judged twice, with nominated pods and without them: the refusal counts.
	slices.SortStableFunc(out.Nodes, func(a, b document.Verdict) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), refusalsFirst(a, b))
	})
	out.Nodes = slices.CompactFunc(out.Nodes, func(a, b document.Verdict) bool { return a.Node == b.Node })
	return out
}

func refusalsFirst(a, b document.Verdict) int {
	switch {
	case a.Fits == b.Fits:
		return 0
	case a.Fits:
		return 1
	}
	return -1
}

func (p *pod) text(w io.Writer) {
	for i, a := range p.Decisions {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printf(w, "%s  pod %s/%s: %s", a.Time.Format(time.RFC3339), p.Namespace, p.Name, a.Stage)
		if a.Node != "" {
			printf(w, " on node %s", a.Node)
		}
		fmt.Fprintln(w)
		if a.Why != "" {
			printf(w, "  %s\n", a.Why)
		}
		hold(w, "  predicted", a.Predicted)
		hold(w, "  seen     ", a.Seen)
		for _, n := range a.Nodes {
			verdict(w, n)
		}
		if a.MoreNodes {
			printf(w, "  and other nodes, of which nothing is remembered\n")
		}
	}
}

func verdict(w io.Writer, v document.Verdict) {
	switch {
	case v.Why != "":
		printf(w, "  node %s: %s\n", v.Node, v.Why)
	case v.Fits && v.Cost != nil:
		printf(w, "  node %s: fits, cost %d\n", v.Node, *v.Cost)
	case v.Fits:
		printf(w, "  node %s: fits\n", v.Node)
	default:
		printf(w, "  node %s:\n", v.Node)
		for _, r := range v.Reasons {
			printf(w, "    %s\n", r.Text)
		}
	}
}

// hold writes the holdings of containers, one line each.
func hold(w io.Writer, label string, cs []document.Container) {
	for _, c := range cs {
		printf(w, "%s container %s\n", label, c.Text())
	}
}
