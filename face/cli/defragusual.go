package cli

import (
	"bufio"
	"fmt"
	"slices"

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

// findUsual finds the plan after which most of the usual workload fits.
func (d *defragmentation) findUsual(step func() error) (err error) {
	var shares []score.Share
	for _, p := range d.stage.Usual() {
		shares = append(shares, score.Share{Pod: p, Weight: 1})
	}
	d.usual = &usual{mix: score.NewMix(shares), goal: defrag.Usual{Closed: d.field.Closed}}
	d.problem.Rules.Strategy.Mix = d.usual.mix // a node is chosen for what the place takes from the usual workload
	worths := d.usual.mix.Worths()
	for i, s := range d.usual.mix.Shares() {
		d.usual.goal.Shapes = append(d.usual.goal.Shapes, defrag.Shape{Want: whatif.OfShape(s.Pod), Worth: worths[i]})
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

// lessFits returns why the places that are kept for successors are not good enough: with them, fewer pods of a usual
// shape would fit than now, or no more of any. It returns "" before places are kept, and for other goals.
func (d *defragmentation) lessFits(moving *Moving) string {
	p := d.result.Plan
	if d.usual == nil || len(p.Moves) == 0 {
		return ""
	}
	uids := d.evicted(p)
	booked := moving.Booked(d.kept, uids)
	at := map[int]int{}
	for i, m := range p.Moves {
		at[m.Mover] = slices.IndexFunc(d.problem.Nodes, func(n whatif.Node) bool { return n.Name == booked[uids[i]] })
		if at[m.Mover] < 0 {
			return "" // not all are kept yet
		}
	}
	fits, ok, err := defrag.FitsOn(d.problem, d.usual.goal, at, func() error { return nil })
	if err != nil || !ok {
		return "the successors would not fit where the scheduler keeps places for them: plan again"
	}
	more := false
	for i, f := range fits {
		if f.After < f.Before {
			return fmt.Sprintf("with the places that the scheduler keeps for the successors, %d more pods of %s would fit, and "+
				"%d fit now: plan again", f.After, requestText(d.usual.mix.Shares()[i].Pod), f.Before)
		}
		more = more || f.After > f.Before
	}
	if !more {
		return "with the places that the scheduler keeps for the successors, no more pods of the usual shapes would fit " +
			"than now: plan again"
	}
	return ""
}
