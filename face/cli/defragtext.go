package cli

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/draw"
)

// This file is the output of defrag; docs/reference/kubectl-tenon.md has the JSON.

type defragDocument struct {
	Kind string `json:"kind"` // "Defragmentation"
	// Found: all pods get room. Then Moves are the pods to evict, in the order in which their successors get places; there
	// are none if the room is there already.
	Found bool `json:"found"`
	// Asked is the question, as flags of the command; "defrag apply" asks it again.
	Asked []string       `json:"asked"`
	Moves []moveDocument `json:"moves"`
	// Placed are the pods that get room, with their places.
	Placed []placementDocument `json:"placed"`
	Empty  []string            `json:"empty,omitempty"` // nodes
	Cost   int64               `json:"cost"`
	// Cheapest: no other choice of pods costs less; without a plan, there is none. GaveUp: the search reached its bound.
	Cheapest bool `json:"cheapest"`
	GaveUp   bool `json:"gaveUp,omitempty"`
	// Fixed counts the pods on nodes that may not move.
	Fixed []fixedDocument `json:"fixed"`
	// Refusals are why the first pod without room has none now.
	Refusals []refusalDocument `json:"refusals"`
	Nodes    []changeDocument  `json:"nodes"` // the nodes that change
	// NotJudged are objects, and requirements of the pods that get room, which are not judged.
	NotJudged []string `json:"notJudged,omitempty"`
	// BudgetsUnread: disruption budgets are not known, and may forbid the evictions.
	BudgetsUnread bool               `json:"budgetsUnread,omitempty"`
	NotKnown      []document.Problem `json:"notKnown"` // nodes whose NUMA nodes are not known
	// Partial is as in PodExplanation.
	Partial string `json:"partial,omitempty"`
	// InSteps: disruption budgets do not allow all evictions at the same time.
	InSteps bool `json:"inSteps,omitempty"`
	// Forced: the scheduler by itself would not place all these pods, which have places only on the nodes of the plan.
	Forced bool `json:"forced,omitempty"`
	// Stuck are pods that have to move and may not. Beyond is how many pods have to move, if they are more than may.
	Stuck  []stuckDocument `json:"stuck,omitempty"`
	Beyond int             `json:"beyond,omitempty"`
	// Aligned are pods that were to be aligned, and are.
	Aligned []string `json:"aligned,omitempty"`
	// Without are the pods that get no room, if as many as possible were to.
	Without []string `json:"without,omitempty"`
	// Usual are the shapes that the cluster usually runs, if room is made for them.
	Usual []usualDocument `json:"usual,omitempty"`
	// Waiting counts other pods that wait, for which no room is kept, and Ending pods that are being deleted and count as
	// gone.
	Waiting int `json:"waiting"`
	Ending  int `json:"ending,omitempty"`
}

type stuckDocument struct {
	document.Pod
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

type moveDocument struct {
	document.Pod
	From     string            `json:"from"`
	To       placementDocument `json:"to"`
	Priority int32             `json:"priority"`
	Cost     int64             `json:"cost"`
	// Gang is equal for pods that leave at the same time.
	Gang string `json:"gang,omitempty"`
}

type fixedDocument struct {
	Reason string `json:"reason"`
	Pods   int    `json:"pods"`
}

func (d *defragmentation) document() defragDocument {
	out := defragDocument{Kind: "Defragmentation", Found: d.result.Plan != nil, Moves: []moveDocument{}, Empty: d.empty,
		Asked: append([]string{}, d.asked...), Placed: []placementDocument{}, Cheapest: d.cheapest(), GaveUp: d.result.Spent,
		Fixed: append([]fixedDocument{}, d.fixed()...), Nodes: []changeDocument{},
		BudgetsUnread: d.field.Unread, NotJudged: d.unjudged(),
		Refusals: document.Each(d.result.Now.Refusals, func(r whatif.Refusal) refusalDocument {
			return refusalDocument{r.Nodes, bar(r), string(r.Error), document.Each(r.Reasons, document.ReasonOf)}
		}), NotKnown: append([]document.Problem{}, d.problems...), Partial: d.partial,
		Waiting: d.others(), Ending: d.ending, Without: d.without, Aligned: d.aligned}
	for _, x := range d.stuck {
		out.Stuck = append(out.Stuck, stuckDocument{document.PodOf(x.Pod), d.problem.Nodes[x.Node].Name, x.Why})
	}
	if d.result.Beyond {
		out.Beyond = d.result.Have
	}
	if d.usual != nil {
		out.Usual = d.usual.documents()
	}
	p := d.result.Plan
	if p == nil {
		return out
	}
	out.Cost, out.Forced, out.InSteps = p.Cost.Weight, p.Forced, d.inSteps()
	for _, m := range p.Moves {
		x := &d.problem.Movers[m.Mover]
		out.Moves = append(out.Moves, moveDocument{document.PodOf(x.Pod), d.problem.Nodes[x.Node].Name,
			placementOn(p.After[m.To.Node], m.To), x.Priority, x.Weight, d.gangOf(x)})
	}
	out.Placed = document.Each(p.Placed, func(x whatif.Placement) placementDocument {
		return placementOn(p.After[x.Node], x)
	})
	for _, i := range d.changed() {
		out.Nodes = append(out.Nodes, changed(d.problem.Nodes[i], p.After[i]))
	}
	return out
}

// cheapest reports whether it is certain that no other choice costs less. Where pods mean something to each other, a
// choice may have been missed that only looks impossible beside the pods that move.
func (d *defragmentation) cheapest() bool {
	none := d.usual == nil && d.result.Plan != nil && len(d.result.Plan.Moves) == 0
	return len(d.stuck) > 0 || none || d.result.Cheapest && !d.field.Related && d.partial == ""
}

// changed returns the positions of the nodes that change.
func (d *defragmentation) changed() (out []int) {
	changes := map[int]bool{}
	for _, m := range d.result.Plan.Moves {
		changes[d.problem.Movers[m.Mover].Node], changes[m.To.Node] = true, true
	}
	for _, x := range d.result.Plan.Placed {
		changes[x.Node] = true
	}
	for i := range d.problem.Nodes {
		if changes[i] {
			out = append(out, i)
		}
	}
	return out
}

// write writes the result as text.
func (d *defragmentation) write(w io.Writer, f defragFlags) error {
	limit := fewNodes
	if f.drawing.all {
		limit = maxSimulated
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "On %s (%s), %s allowed to move:\n\n", nodesText(len(d.problem.Nodes)), d.source,
		choose(len(d.problem.Movers), "1 pod is", fmt.Sprintf("%d pods are", len(d.problem.Movers))))
	switch p := d.result.Plan; {
	case len(d.stuck) > 0:
		d.writeStuck(b, limit)
	case p == nil:
		d.writeNone(b, limit)
	case d.usual != nil:
		d.writeUsual(b, limit)
	case len(p.Moves) == 0:
		fmt.Fprintln(b, "Nothing has to move.")
		d.writePlaced(b, limit)
		if p.Forced {
			fmt.Fprintln(b)
			writeWrapped(b, "", forced)
		}
	default:
		d.writeMoves(b, limit)
		d.writePlaced(b, limit)
		fmt.Fprintln(b)
		writeWrapped(b, "", d.proof())
		d.writeNodes(b, limit)
	}
	d.writeFixed(b, limit)
	if n := len(d.aligned); n > 0 {
		fmt.Fprintln(b)
		writeWrapped(b, "", firstOf(d.aligned, limit, "")+choose(n, " is", " are")+" aligned already.")
	}
	if d.ending > 0 {
		fmt.Fprintf(b, "\n%s being deleted, and counted as gone here.\n", choose(d.ending, "1 pod is",
			fmt.Sprintf("%d pods are", d.ending)))
	}
	if d.result.Plan != nil && len(d.without) > 0 {
		fmt.Fprintln(b)
		writeWrapped(b, "", "No room was found for "+firstOf(d.without, limit, "")+".")
	}
	if n := d.others(); n > 0 {
		fmt.Fprintf(b, "\n%s for a node, and no room is kept for %s.\n", choose(n, "1 other pod waits",
			fmt.Sprintf("%d other pods wait", n)), choose(n, "it", "them"))
	}
	if d.partial != "" {
		fmt.Fprintln(b)
		writeWrapped(b, "", "Not everything was read: "+d.partial+".")
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if f.maps && d.result.Plan != nil {
		return d.writeMaps(w, f.drawing)
	}
	return nil
}

// writeMoves writes the table of moves.
func (d *defragmentation) writeMoves(b *bufio.Writer, limit int) {
	p := d.result.Plan
	rows := [][]string{{"MOVE", "POD", "PRIORITY", "COST", "FROM", "TO"}}
	for i, m := range p.Moves[:min(limit, len(p.Moves))] {
		x := &d.problem.Movers[m.Mover]
		rows = append(rows, []string{fmt.Sprint(i + 1), x.Pod.String(), fmt.Sprint(x.Priority), fmt.Sprint(x.Weight),
			d.problem.Nodes[x.Node].Name, seatText(p.After[m.To.Node], m.To)})
	}
	writeTable(b, rows)
	if more := len(p.Moves) - limit; more > 0 {
		fmt.Fprintf(b, "... and %d more (--all shows them)\n", more)
	}
}

// writePlaced writes which pods have room.
func (d *defragmentation) writePlaced(b *bufio.Writer, limit int) {
	p := d.result.Plan
	if len(p.Placed) == 0 {
		return
	}
	fmt.Fprintln(b)
	rows := [][]string{{"GETS ROOM", "ON"}}
	for _, x := range p.Placed[:min(limit, len(p.Placed))] {
		rows = append(rows, []string{x.Pod.String(), seatText(p.After[x.Node], x)})
	}
	writeTable(b, rows)
	if more := len(p.Placed) - limit; more > 0 {
		fmt.Fprintf(b, "... and %d more (--all shows them)\n", more)
	}
}

// seatText returns a node and the NUMA nodes of a place.
func seatText(n whatif.Node, x whatif.Placement) string {
	if n.State == nil || len(x.Holdings) == 0 {
		return n.Name
	}
	on := string(document.Spread(n.State.Machine, x.Holdings))
	if on == "" {
		return n.Name
	}
	return n.Name + ", NUMA " + on
}

// forced is about a plan that the scheduler by itself would not make.
const forced = "All fit only on these nodes: the scheduler by itself would choose other nodes for some, and then " +
	"others have no place. Cordon the other nodes meanwhile, or select the nodes."

// proof returns what is certain about a plan.
func (d *defragmentation) proof() string {
	out := "No other choice of pods costs less."
	switch {
	case d.usual != nil:
		out = d.moreText() + " Each shape is counted by itself."
	case d.cheapest():
	case d.result.Spent:
		out = "The search ended at its bound: another choice may cost less."
	default:
		out = "Another choice may cost less: not all were tried."
	}
	if d.field.Unread {
		out += " Disruption budgets are not known, and may forbid these evictions."
	}
	if d.result.Plan.Forced {
		out += " " + forced
	}
	out += d.gangsText()
	if d.inSteps() {
		out += " Disruption budgets allow fewer evictions at a time: one after the other."
	}
	return out + " Nothing has been evicted."
}

// gangOf names the gang of a pod that moves only with the others; "" for other pods.
func (d *defragmentation) gangOf(m *defrag.Mover) string {
	if m.Gang == 0 || !d.problem.Gangs[m.Gang-1].Whole {
		return ""
	}
	return d.problem.Gangs[m.Gang-1].Name
}

// gangsText names the gangs that move as a whole; "" if there are none.
func (d *defragmentation) gangsText() string {
	var all []string
	for _, m := range d.result.Plan.Moves {
		if g := d.gangOf(&d.problem.Movers[m.Mover]); g != "" && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf(" The pods of %s leave at the same time.", choose(len(all), "PodGroup "+all[0],
		"each of the PodGroups "+strings.Join(all, ", ")))
}

// inSteps reports whether disruption budgets do not allow all evictions of the plan at the same time.
func (d *defragmentation) inSteps() bool {
	used := map[int]int{}
	for _, m := range d.result.Plan.Moves {
		for _, b := range d.problem.Movers[m.Mover].Budgets {
			if used[b]++; used[b] > d.field.Budgets[b] {
				return true
			}
		}
	}
	return false
}

// writeNone writes that there is no plan, and why the first pod has no room now.
func (d *defragmentation) writeNone(b *bufio.Writer, limit int) {
	if d.result.Beyond {
		out := fmt.Sprintf("%s would have to move, and --most is %d.", podsText(d.result.Have), d.problem.Most)
		if d.result.Have <= d.problem.Most {
			out = podsText(d.result.Have) + " would have to move at the same time, and their disruption budgets, or a " +
				"PodGroup that has to keep its nodes' label, allow fewer."
		}
		writeWrapped(b, "", out)
		return
	}
	out := "No choice of these pods makes room"
	if !d.cheapest() {
		out = "No choice of these pods was found that makes room"
	}
	out += fmt.Sprintf(", with at most %d moves (--most) and a new place for each.", d.problem.Most)
	if d.result.Spent {
		out += " The search ended at its bound."
	}
	writeWrapped(b, "", out)
	if len(d.result.Now.Refusals) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s has no room now:\n", d.result.Without)
	for _, r := range d.result.Now.Refusals[:min(limit, len(d.result.Now.Refusals))] {
		writeWrapped(b, "  ", onWhich(r, limit > fewNodes)+": "+strings.Join(refusalTexts(r), "; "))
	}
	if more := len(d.result.Now.Refusals) - limit; more > 0 {
		fmt.Fprintf(b, "  ... and %d other reasons (--all shows them)\n", more)
	}
}

// writeStuck writes which pods keep a node from being empty.
func (d *defragmentation) writeStuck(b *bufio.Writer, limit int) {
	fmt.Fprintln(b, "Not all pods that have to move are allowed to:")
	for _, x := range d.stuck[:min(limit, len(d.stuck))] {
		writeWrapped(b, "  ", fmt.Sprintf("%s stays on %s: it %s", x.Pod, d.problem.Nodes[x.Node].Name, x.Why))
	}
	if more := len(d.stuck) - limit; more > 0 {
		fmt.Fprintf(b, "  ... and %d more (--all shows them)\n", more)
	}
}

// writeFixed writes how many pods may not move, and why.
func (d *defragmentation) writeFixed(b *bufio.Writer, limit int) {
	all := d.fixed()
	if len(all) == 0 || len(d.stuck) > 0 || d.result.Plan != nil && len(d.result.Plan.Moves) == 0 {
		return
	}
	fmt.Fprintf(b, "\nPods that are not allowed to move:\n")
	for _, x := range all[:min(limit, len(all))] {
		writeWrapped(b, "  ", fmt.Sprintf("%d: each %s", x.Pods, printable.Text(x.Reason)))
	}
}

// writeNodes writes what is free on the nodes that change.
func (d *defragmentation) writeNodes(b *bufio.Writer, limit int) {
	all := d.changed()
	fmt.Fprintf(b, "\nWhat is free on the nodes that change, before → after:\n\n")
	rows := [][]string{{"NODE", "PODS", "NUMA", "CPUS", "MEMORY AND DEVICES"}}
	for _, i := range all[:min(limit, len(all))] {
		rows = append(rows, nodeRows(d.problem.Nodes[i], d.result.Plan.After[i])...)
	}
	writeTable(b, rows)
	if more := len(all) - limit; more > 0 {
		fmt.Fprintf(b, "... and on %d more (--all shows them)\n", more)
	}
}

// writeMaps draws the nodes that change, before and after.
func (d *defragmentation) writeMaps(w io.Writer, f mapFlags) error {
	drawn := 0
	for _, i := range d.changed() {
		before, after := d.problem.Nodes[i].State, d.result.Plan.After[i].State
		if before == nil || after == nil {
			continue
		}
		if drawn++; drawn > fewMaps && !f.all {
			_, err := fmt.Fprintln(w, "\nSay --all to see the maps of the other nodes.")
			return err
		}
		was, is := *before, *after
		was.Name += ", before"
		is.Name += ", after"
		fmt.Fprintln(w)
		if err := draw.Map(raw(w), &was, f.options(raw(w))); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := draw.Map(raw(w), &is, f.options(raw(w))); err != nil {
			return err
		}
	}
	return nil
}
