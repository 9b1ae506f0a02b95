package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Pod is what is remembered of a pod: the newest decision first.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Decisions []Attempt `json:"decisions"`
}

// Attempt is one decision.
type Attempt struct {
	UID  string    `json:"uid"`
	Time time.Time `json:"time"`
	// Turned is when the pod got leave to be bound: what the scheduler received later did not count.
	Turned time.Time `json:"turned,omitzero"`
	// Stage is judged, reserved, turned, bound, released, confirmed, wrong or rejected.
	Stage Stage `json:"stage"`
	// Why says what went wrong apart from what nodes say.
	Why string `json:"why,omitempty"`
	// Node is the node that was chosen; Predicted is what the pod was to hold there, Seen what the node
	// gave.
	Node      string      `json:"node,omitempty"`
	Predicted []Container `json:"predicted,omitempty"`
	Seen      []Container `json:"seen,omitempty"`
	// Nodes is what nodes said, in order of name; MoreNodes is set where others were asked, too.
	Nodes     []Answer `json:"nodes,omitempty"`
	MoreNodes bool     `json:"moreNodes,omitempty"`
}

// Answer is what one node said.
type Answer struct {
	Node string `json:"node"`
	Fits bool   `json:"fits"`
	// Cost is what the node would cost; the lowest is best. Nodes that do not fit have none.
	Cost    *int64   `json:"cost,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Why stands for reasons where there are none: nothing is known of the node.
	Why string `json:"why,omitempty"`
}

// Reason is one thing that a node lacks. Code is stable; Text is for people.
type Reason struct {
	Code      place.Code `json:"code"`
	Container string     `json:"container,omitempty"`
	Resource  string     `json:"resource,omitempty"`
	Want      int64      `json:"want"`
	Have      int64      `json:"have"`
	Text      string     `json:"text"`
}

// Container is what one container holds.
type Container struct {
	Name    string   `json:"name"`
	CPUs    string   `json:"cpus,omitempty"`
	Memory  []Memory `json:"memory,omitempty"`
	Devices []Device `json:"devices,omitempty"`
}

// Memory is one block of memory. NUMAs are ids, or positions where the machine is not known any more.
type Memory struct {
	Kind  string `json:"kind"`
	NUMAs []int  `json:"numas"`
	Bytes int64  `json:"bytes"`
}

// Device is the devices of one resource. Free is set where the kubelet takes any of several.
type Device struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
	NUMAs    []int    `json:"numas,omitempty"`
	Free     bool     `json:"free,omitempty"`
}

func (s Source) pod(namespace, name string) (*Pod, error) {
	out := &Pod{Namespace: namespace, Name: name}
	snap := s.Book.Snapshot()
	for _, d := range s.Decisions.newest() {
		if d.pod.Namespace == namespace && d.pod.Name == name && len(out.Decisions) < maxShown {
			out.Decisions = append(out.Decisions, d.view(snap))
		}
	}
	if len(out.Decisions) == 0 {
		return nil, fmt.Errorf("no decision on pod %s in namespace %s is remembered: it asks for nothing that is aligned, "+
			"another scheduler has it, or it was long ago", quoted(name), quoted(namespace))
	}
	return out, nil
}

func (d *Decision) view(snap *ledger.Snapshot) Attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	var m *topo.Machine
	if n := snap.Node(d.node); n != nil {
		m = n.Machine
	}
	out := Attempt{UID: d.pod.UID, Time: d.at.UTC(), Stage: d.stage, Why: d.why, Node: d.node,
		Predicted: containers(m, d.predicted), Seen: containers(m, d.seen), MoreNodes: d.judged.Load() > MaxNodes}
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
		a := Answer{Node: v.node, Fits: v.fits, Why: v.why}
		for _, r := range v.reasons {
			a.Reasons = append(a.Reasons, Reason{r.Code, r.Container, r.Resource, r.Want, r.Have, r.Text()})
		}
		if cost, ok := costs[v.node]; ok && a.Fits {
			a.Cost = &cost
		}
		out.Nodes = append(out.Nodes, a)
	}
	// A node may be asked twice, with pods that were promised a place on it and without: the refusal counts.
	slices.SortStableFunc(out.Nodes, func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), refusalsFirst(a, b))
	})
	out.Nodes = slices.CompactFunc(out.Nodes, func(a, b Answer) bool { return a.Node == b.Node })
	return out
}

func refusalsFirst(a, b Answer) int {
	switch {
	case a.Fits == b.Fits:
		return 0
	case a.Fits:
		return 1
	}
	return -1
}

func containers(m *topo.Machine, hs []place.Holding) (out []Container) {
	for _, h := range hs {
		c := Container{Name: h.Container, CPUs: h.CPUs.String()}
		for _, b := range h.Memory {
			c.Memory = append(c.Memory, Memory{b.Kind, numas(m, b.NUMAs), b.Bytes})
		}
		for _, d := range h.Devices {
			c.Devices = append(c.Devices, Device{d.Resource, d.IDs, numas(m, d.NUMAs), d.Free})
		}
		out = append(out, c)
	}
	return out
}

func numas(m *topo.Machine, mask topo.Mask) []int {
	if m == nil || mask&^m.All() != 0 {
		return mask.Positions()
	}
	var out []int
	for _, id := range m.IDs(mask) {
		out = append(out, int(id))
	}
	return out
}

func (p *Pod) text(w io.Writer) {
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
			n.text(w)
		}
		if a.MoreNodes {
			printf(w, "  and other nodes, of which nothing is remembered\n")
		}
	}
}

func (a Answer) text(w io.Writer) {
	switch {
	case a.Why != "":
		printf(w, "  node %s: %s\n", a.Node, a.Why)
	case a.Fits && a.Cost != nil:
		printf(w, "  node %s: fits, cost %d\n", a.Node, *a.Cost)
	case a.Fits:
		printf(w, "  node %s: fits\n", a.Node)
	default:
		printf(w, "  node %s:\n", a.Node)
		for _, r := range a.Reasons {
			printf(w, "    %s\n", r.Text)
		}
	}
}

// hold writes what containers hold, one line each.
func hold(w io.Writer, label string, cs []Container) {
	for _, c := range cs {
		printf(w, "%s container %s:", label, c.Name)
		if c.CPUs != "" {
			printf(w, " cpus %s", c.CPUs)
		}
		for _, m := range c.Memory {
			printf(w, " %s on numa %s", place.Quantity(m.Kind, m.Bytes), list(m.NUMAs))
		}
		for _, d := range c.Devices {
			printf(w, " %s %s", d.Resource, strings.Join(d.IDs, ","))
		}
		fmt.Fprintln(w)
	}
}

func list(ids []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}
