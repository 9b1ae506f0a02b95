package cli

import (
	"bufio"
	"fmt"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file makes room for the usual workload.

// usual is the usual workload, and how much of it fits before and after a plan.
type usual struct {
	mix  *score.Mix
	goal defrag.Usual
	fits []defrag.Fit // by shape
}

// usualDocument is a usual shape: how many more pods of it fit on all nodes, before and after the moves.
type usualDocument struct {
	Shape  string `json:"shape"` // as "top --shape" takes it; "+" joins containers
	Before int    `json:"before"`
	After  int    `json:"after"`

	text string
}

// findUsual finds the plan after which most of the usual workload fits. least has how many pods of some shapes fitted
// at first, if a part of a plan is left.
func (d *defragmentation) findUsual(least map[string]int, step func() error) (err error) {
	var shares []score.Share
	for _, p := range d.stage.Usual() {
		shares = append(shares, score.Share{Pod: p, Weight: 1})
	}
	d.usual = &usual{mix: score.NewMix(shares), goal: defrag.Usual{Closed: d.field.Closed}}
	d.problem.Rules.Strategy.Mix = d.usual.mix // a node is chosen for what the place takes from the usual workload
	worths := d.usual.mix.Worths()
	for i, s := range d.usual.mix.Shares() {
		next := defrag.Shape{Want: whatif.OfShape(s.Pod), Worth: worths[i]}
		if n, known := least[document.Shape(s.Pod)]; known {
			next.Least = &n
		}
		d.usual.goal.Shapes = append(d.usual.goal.Shapes, next)
	}
	d.result, d.usual.fits, err = defrag.FindUsual(d.problem, d.usual.goal, step)
	return err
}

// documents returns the shapes with what fits.
func (u *usual) documents() (out []usualDocument) {
	for i, f := range u.fits {
		p := u.mix.Shares()[i].Pod
		out = append(out, usualDocument{document.Shape(p), f.Before, f.After, requestText(p)})
	}
	return out
}

// writeUsual writes a plan for the usual workload.
func (d *defragmentation) writeUsual(b *bufio.Writer, limit int) {
	if len(d.result.Plan.Moves) > 0 {
		d.writeMoves(b, limit)
		d.usual.write(b)
		fmt.Fprintln(b)
		writeWrapped(b, "", d.proof())
		d.writeNodes(b, limit)
		return
	}
	out := "Nothing has to move. " + d.moreText()
	if len(d.usual.fits) == 0 {
		out = "Nothing has to move: no pod here needs alignment, so there are no usual shapes."
	}
	writeWrapped(b, "", out)
	d.usual.write(b)
}

// moreText returns what is certain about other choices.
func (d *defragmentation) moreText() string {
	switch {
	case d.cheapest() && len(d.result.Plan.Moves) == 0:
		return fmt.Sprintf("No choice of at most %s makes room for more pods.", podsText(d.problem.Most))
	case d.cheapest():
		return fmt.Sprintf("No other choice of at most %s brings more, or as much for less.", podsText(d.problem.Most))
	case d.result.Spent:
		return "The search ended at its bound: another choice may bring more."
	}
	return "Another choice may bring more: not all were tried."
}

// write writes how many more pods of the usual shapes fit.
func (u *usual) write(b *bufio.Writer) {
	if len(u.fits) == 0 {
		return
	}
	fmt.Fprintln(b)
	rows := [][]string{{"MORE PODS OF", "FIT"}}
	for _, x := range u.documents() {
		fit := fmt.Sprint(x.Before)
		if x.After != x.Before {
			fit += fmt.Sprintf(" → %d", x.After)
		}
		rows = append(rows, []string{x.text, fit})
	}
	writeTable(b, rows)
}

// placedElsewhere returns why a place that is kept for a successor is not the one of the plan; "" if it is, if none is
// kept yet, and for other goals.
func (d *defragmentation) placedElsewhere(moving *Moving) string {
	p := d.result.Plan
	if d.usual == nil {
		return ""
	}
	uids := d.evicted(p)
	booked := moving.Booked(d.kept, uids)
	for i, m := range p.Moves {
		to := d.problem.Nodes[m.To.Node].Name
		if on := booked[uids[i]]; on != "" && on != to {
			return fmt.Sprintf("a place for the successor of pod %s is kept on node %s, and by now node %s is better: plan "+
				"again", d.problem.Movers[m.Mover].Pod, on, to)
		}
	}
	return ""
}
