package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/draw"
)

const (
	// fewOn is the number of nodes that are named for a workload, and fewOf for a refusal.
	fewOn = 6
	fewOf = 3
)

// write writes the simulation as text.
func (s *simulation) write(w io.Writer, f simulateFlags) error {
	limit := fewNodes
	if f.drawing.all {
		limit = maxSimulated
	}
	b := bufio.NewWriter(w)
	s.writeSource(b)
	if f.pending && !slices.ContainsFunc(s.rounds, func(r round) bool { return len(r.tasks) > 0 }) {
		fmt.Fprintln(b, "No pod waits.")
	} else {
		s.writeTasks(b, limit)
	}
	s.writeGroups(b, limit)
	s.writeRefusals(b, limit)
	if s.needed != nil {
		fmt.Fprintf(b, "\n%s\n", s.needed.text())
	}
	if len(s.rounds) == 1 {
		s.writeNodes(b, s.rounds[0].plan, limit)
	}
	if len(s.problems) > 0 {
		fmt.Fprintf(b, "\nThe NUMA nodes of %s are not known: %s.\n\n", nodesText(len(s.problems)), [...]string{
			guard.Everybody:     "pods may go there, and their kubelets may refuse them",
			guard.WithoutDemand: "pods without a demand of their own may go there, and their kubelets may refuse them",
			guard.Nobody:        "pods that need alignment do not go there",
		}[s.rules.Guard.Unknown])
		writeProblems(b, s.problems, limit, " (--all shows them)")
	}
	s.writeCoarse(b, limit)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write simulation: %w", err)
	}
	if f.maps && len(s.rounds) == 1 {
		return s.writeMaps(w, f.drawing)
	}
	return nil
}

// writeCoarse writes the estimated nodes, and how pods are placed on them.
func (s *simulation) writeCoarse(b *bufio.Writer, limit int) {
	names := coarse(s.stage.Nodes())
	if len(names) == 0 {
		return
	}
	what := "the CPUs and devices of pods there are made up"
	if s.rules.Guard.Estimated {
		what = "pods that need alignment do not go there"
	}
	list := firstOf(names, limit, " (--all shows them)")
	fmt.Fprintln(b)
	writeWrapped(b, "", fmt.Sprintf("%s only amounts per NUMA node; %s: %s", choose(len(names), "1 node reports",
		nodesText(len(names))+" report"), what, list))
}

// coarse returns the names of the estimated nodes, which report only amounts.
func coarse(all []whatif.Node) (out []string) {
	for _, n := range all {
		if n.State != nil && n.State.Quality == state.Estimated {
			out = append(out, n.Name)
		}
	}
	return out
}

// writeSource writes on which nodes pods are placed, and how these nodes differ from the source.
func (s *simulation) writeSource(b *bufio.Writer) {
	fmt.Fprintf(b, "On %s (%s), scored by %s:\n", nodesText(len(s.stage.Nodes())-len(s.without)), s.source,
		s.rules.Strategy.Type)
	if s.added > 0 {
		fmt.Fprintf(b, "%s joined.\n", choose(s.added, "1 of them has", fmt.Sprintf("%d of them have", s.added)))
	}
	if n := len(s.altered); n > 0 {
		moved, who := 0, "node "+s.altered[0].node
		for _, x := range s.altered {
			moved += x.moved
		}
		if n > 1 {
			who = nodesText(n)
		}
		fmt.Fprintf(b, "With another configuration of %s, which has to be drained for it: %s to be placed anew.\n", who,
			podsText(moved))
	}
	for _, g := range s.without {
		fmt.Fprintf(b, "Without node %s: %s to be placed anew", g.node, podsText(g.moved))
		if g.ended > 0 {
			fmt.Fprintf(b, ", %d more (of DaemonSets, or its own) would go with it", g.ended)
		}
		fmt.Fprintln(b, ".")
	}
	if n := s.stage.Waiting(); n > 0 && !s.pending {
		who := choose(n, "1 pod waits", fmt.Sprintf("%d pods wait", n))
		if s.partial != "" {
			who = "Of the pods that you may read, " + choose(n, "1 waits", fmt.Sprintf("%d wait", n))
		}
		fmt.Fprintf(b, "%s for a node now, and no room is kept for %s.\n", who, choose(n, "it", "them"))
	}
	fmt.Fprintln(b)
}

func podsText(n int) string { return choose(n, "1 pod", fmt.Sprintf("%d pods", n)) }

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// writeTasks writes the table of workloads. Pods that lose the same node share a line.
func (s *simulation) writeTasks(b *bufio.Writer, limit int) {
	rows := [][]string{{"WORKLOAD", "WANTED", "PLACED", "NO PLACE", "ON"}}
	if s.countMax {
		rows = [][]string{{"WORKLOAD", "MORE THAT FIT", "ON"}}
	}
	more := 0
	for _, r := range s.rounds {
		for _, group := range grouped(r.tasks) {
			if len(rows) > limit {
				more++
				continue
			}
			rows = append(rows, s.taskRow(r.plan, group))
		}
	}
	writeTable(b, rows)
	if more > 0 {
		fmt.Fprintf(b, "... and %d more (--all shows them)\n", more)
	}
	blind := 0
	for _, r := range s.rounds {
		for _, t := range r.tasks {
			blind += t.blind()
		}
	}
	if blind > 0 {
		fmt.Fprintf(b, "\n%s on nodes whose NUMA nodes are not known.\n", choose(blind, "1 of these is",
			fmt.Sprintf("%d of these are", blind)))
	}
}

// grouped groups neighbouring tasks whose pods lose the same node. Any other task is a group by itself.
func grouped(tasks []*task) (out [][]*task) {
	for i, t := range tasks {
		if i > 0 && t.from != "" && t.from == tasks[i-1].from {
			out[len(out)-1] = append(out[len(out)-1], t)
			continue
		}
		out = append(out, []*task{t})
	}
	return out
}

// taskRow returns the cells of a group of tasks; with --count max there are fewer columns.
func (s *simulation) taskRow(p *whatif.Plan, group []*task) []string {
	name := group[0].workload.String()
	if group[0].from != "" {
		name = "pods of node " + group[0].from
	}
	wanted, placed := 0, 0
	on := map[int]int{}
	for _, t := range group {
		wanted, placed = wanted+t.wanted, placed+t.placed()
		for _, x := range t.outcome.Placed {
			on[x.Node]++
		}
	}
	if s.countMax {
		text := fmt.Sprint(placed)
		if placed == maxSimulated {
			text += " and more"
		}
		return []string{name, text, onNodes(p, on)}
	}
	left := "-"
	if placed < wanted {
		left = fmt.Sprint(wanted - placed)
	}
	return []string{name, fmt.Sprint(wanted), fmt.Sprint(placed), left, onNodes(p, on)}
}

// onNodes returns the number of pods on each node as text, the largest number first.
func onNodes(p *whatif.Plan, on map[int]int) string {
	var at []int
	for i := range on {
		at = append(at, i)
	}
	slices.SortFunc(at, func(a, b int) int { return cmp.Or(on[b]-on[a], a-b) })
	var items []string
	for _, i := range at[:min(fewOn, len(at))] {
		items = append(items, fmt.Sprintf("%s %d", p.Nodes()[i].Name, on[i]))
	}
	if more := len(at) - fewOn; more > 0 {
		items = append(items, fmt.Sprintf("%s more", nodesText(more)))
	}
	if len(items) == 0 {
		return "-"
	}
	return strings.Join(items, joint)
}

// writeRefusals writes, for each workload, why its first pod without a place has none.
func (s *simulation) writeRefusals(b *bufio.Writer, limit int) {
	shown, more, none := 0, 0, len(s.stage.Nodes()) == 0
	for _, r := range s.rounds {
		for _, t := range r.tasks {
			if !none && len(t.outcome.Refusals) == 0 && (t.unplaced() == 0 || len(s.without) == 0 || t.gang != nil) {
				continue
			}
			if shown++; shown > limit {
				more++
				continue
			}
			fmt.Fprintln(b)
			s.writeRefusal(b, t, limit)
		}
	}
	if more > 0 {
		fmt.Fprintf(b, "\n... and %d more workloads (--all shows them)\n", more)
	}
}

func (s *simulation) writeRefusal(b *bufio.Writer, t *task, limit int) {
	switch {
	case t.gang != nil:
		fmt.Fprintf(b, "The first pod of %s without a place beside the others of its gang:\n", t.workload)
	case t.countMax && t.placed() == 0:
		fmt.Fprintf(b, "%s fits nowhere:\n", t.workload)
	case t.countMax:
		fmt.Fprintf(b, "The next one of %s has no place:\n", t.workload)
	case t.wanted == 1:
		fmt.Fprintf(b, "%s has no place:\n", t.workload)
	default:
		fmt.Fprintf(b, "%d of %s %s no place:\n", t.unplaced(), t.workload, choose(t.unplaced(), "has", "have"))
	}
	switch {
	case len(s.stage.Nodes()) == 0:
		writeWrapped(b, "  ", "there are no nodes")
	case len(t.outcome.Refusals) == 0:
		writeWrapped(b, "  ", "no node is left")
	}
	for _, r := range t.outcome.Refusals[:min(limit, len(t.outcome.Refusals))] {
		writeWrapped(b, "  ", onWhich(r, limit > fewNodes)+": "+strings.Join(refusalTexts(r), "; "))
	}
	if more := len(t.outcome.Refusals) - limit; more > 0 {
		fmt.Fprintf(b, "  ... and %d other reasons (--all shows them)\n", more)
	}
}

// onWhich returns the number of nodes of a refusal, and their names if they are few or all is set.
func onWhich(r whatif.Refusal, all bool) string {
	if len(r.Nodes) == 1 {
		return "node " + r.Nodes[0]
	}
	if all || len(r.Nodes) <= fewOf {
		return nodesText(len(r.Nodes)) + " (" + strings.Join(r.Nodes, ", ") + ")"
	}
	return nodesText(len(r.Nodes))
}

// refusalTexts returns the reasons of a refusal in the words of explain, or the kubelet's error if there are none.
func refusalTexts(r whatif.Refusal) []string {
	var out []string
	for _, x := range r.Reasons {
		out = append(out, x.Text())
	}
	if len(out) == 0 {
		out = append(out, string(r.Error))
	}
	return out
}

// writeNodes writes the table of the nodes that changed: what is left on each node as a whole and on its NUMA nodes.
func (s *simulation) writeNodes(b *bufio.Writer, p *whatif.Plan, limit int) {
	changed := p.Changed()
	if len(changed) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhat is free on the nodes that change, before → after:\n\n")
	rows := [][]string{{"NODE", "PODS", "NUMA", "CPUS", "MEMORY AND DEVICES"}}
	for _, i := range changed[:min(limit, len(changed))] {
		rows = append(rows, nodeRows(p.Before()[i], p.Nodes()[i])...)
	}
	writeTable(b, rows)
	if more := len(changed) - limit; more > 0 {
		fmt.Fprintf(b, "... and on %d more (--all shows them)\n", more)
	}
}

// nodeRows returns a line for the node as a whole, as the scheduler counts it, and a line for every NUMA node.
func nodeRows(before, after whatif.Node) [][]string {
	var items []string
	kinds := []string{topo.Memory}
	if after.State != nil {
		kinds = after.State.Machine.Kinds()
		for _, r := range after.State.Machine.Resources() {
			kinds = append(kinds, r.Name)
		}
	}
	for _, k := range kinds {
		items = append(items, change(k, before.Left(k), after.Left(k)))
	}
	name := after.Name
	if after.State != nil && after.State.Quality == state.Estimated {
		name += " (coarse)"
	}
	out := [][]string{{name, arrow(fmt.Sprint(before.Used["pods"]), fmt.Sprint(after.Used["pods"])), "all",
		arrow(cores(before.Left("cpu")), cores(after.Left("cpu"))), strings.Join(items, joint)}}
	if after.State == nil {
		return append(out, []string{"", "", "?", "-", "its NUMA nodes are not known"})
	}
	for i, n := range after.State.Machine.NUMAs() {
		was, is := before.State.Usage, after.State.Usage
		cpus := "-"
		switch {
		case n.CPUs.Empty():
		case !after.State.Rules.CPU.Static:
			cpus = "shared"
		default:
			cpus = arrow(fmt.Sprint(n.CPUs.AndLen(was.FreeCPUs())), fmt.Sprint(n.CPUs.AndLen(is.FreeCPUs())))
		}
		out = append(out, []string{"", "", fmt.Sprint(n.ID), cpus, strings.Join(numaItems(was, is, i), joint)})
	}
	return out
}

// numaItems returns the free amounts of the NUMA node at position i, before and after, except for CPUs.
func numaItems(was, is *place.Usage, i int) (out []string) {
	n := is.Machine.NUMAs()[i]
	for _, k := range is.Kinds() {
		if n.Capacity(k) > 0 && is.Rules.Memory.Static {
			out = append(out, change(k, was.FreeMemory(i, k), is.FreeMemory(i, k)))
		}
	}
	for at, r := range is.Machine.Resources() {
		if slices.ContainsFunc(r.Devices, func(d topo.Device) bool { return d.NUMAs.Has(i) }) {
			out = append(out, change(r.Name, was.FreeDevicesOn(at, 1<<uint(i)), is.FreeDevicesOn(at, 1<<uint(i))))
		}
	}
	if len(out) == 0 {
		out = append(out, "-")
	}
	return out
}

// change returns an amount before and after, with its name, for example "192Gi → 96Gi memory".
func change(resource string, before, after int64) string {
	if before == after {
		return place.Quantity(resource, after)
	}
	was, _, _ := strings.Cut(place.Quantity(resource, before), " ")
	return was + " → " + place.Quantity(resource, after)
}

func arrow(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

// cores returns thousandths of a CPU as a number of CPUs.
func cores(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%.1f", float64(milli)/1000)
}

// writeMaps draws the nodes that change, before and after.
func (s *simulation) writeMaps(w io.Writer, f mapFlags) error {
	p := s.rounds[0].plan
	drawn := 0
	for _, i := range p.Changed() {
		if p.Nodes()[i].State == nil {
			continue
		}
		if drawn++; drawn > fewMaps && !f.all {
			_, err := fmt.Fprintln(w, "\nSay --all to see the maps of the other nodes.")
			return err
		}
		for _, x := range []struct {
			node whatif.Node
			when string
		}{{p.Before()[i], "before"}, {p.Nodes()[i], "after"}} {
			n := *x.node.State
			n.Name += ", " + x.when
			fmt.Fprintln(w)
			if err := draw.Map(raw(w), &n, f.options(raw(w))); err != nil {
				return err
			}
		}
		if err := writeNodeClaims(w, p.Nodes()[i].Name, claimsOn(s.stage)); err != nil {
			return err
		}
	}
	return nil
}
