package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/sim"
)

// This file writes a comparison as a short Markdown table for readers who do not know it. Every row has a sentence
// on which numbers are good.

// summarized returns the contenders of the short table in its order: Tenon, how much of that is its score, what people
// run now, and who else judges NUMA nodes.
func summarized() []string {
	return []string{sim.Tenon, sim.TenonMost, sim.KubeMost, sim.KubeLeast, sim.MatchMost, sim.Match}
}

// summaryRow is a row of the short table. If value is nil, the row is the head of a section.
type summaryRow struct {
	label, meaning string
	value          func(sim.Column) string
}

// summaryRows returns the rows of the short table.
func summaryRows(c *sim.Comparison) []summaryRow {
	unit := scarceUnit(c)
	stays := func(of func(sim.Tally) int) func(sim.Column) string {
		return func(k sim.Column) string { return stay(of)(c, k) }
	}
	comes := func(of func(sim.Tally) int) func(sim.Column) string {
		return func(k sim.Column) string { return churn(of)(c, k) }
	}
	rows := []summaryRow{
		{"No pod ends", fmt.Sprintf("%d pods arrive, for a quarter more %s than there are", c.Asked, unit), nil},
		{"placed before the first pod waits", "how much fits before somebody notices; more is better",
			stays(func(t sim.Tally) int { return t.First })},
		{unit + " in use in the end", "the pods want more than there is; more is better",
			func(k sim.Column) string { return percent(k.Stay.Given, k.Stay.Capacity) + " %" }},
		{unit + " idle while pods wait for as many", "free, but not where a waiting pod can use them; less is better",
			stays(func(t sim.Tally) int { return int(t.Wanted) })},
		{"pods placed in the end", "no ranking: a large pod that waits leaves room for several small ones",
			stays(func(t sim.Tally) int { return t.Placed })},
	}
	if large, ok := largest(c); ok {
		rows = append(rows, summaryRow{fmt.Sprintf("of these, pods of %d %s", c.Requests[large], unit),
			fmt.Sprintf("the large ones, of %s that arrived; more is better", mean(c.Arrived[large], c.Runs)),
			func(k sim.Column) string { return mean(k.Placed[large], c.Runs) }})
	}
	return append(rows,
		summaryRow{"Pods come and go", fmt.Sprintf("%d pods", c.Pods), nil},
		summaryRow{"refusals by kubelets", "the pod was bound, and had to be created again; less is better",
			comes(func(t sim.Tally) int { return t.Refused })},
		summaryRow{"pods that waited", "for room, or after a refusal; less is better",
			comes(func(t sim.Tally) int { return t.Pods - t.AtOnce })},
		summaryRow{"mean wait, s", "over all pods, from arrival to a node; less is better",
			func(k sim.Column) string { return meanWait(c, k) }})
}

// largest returns the index of the shape that requests most devices of the scarce resource. ok is false if that
// resource is CPUs.
func largest(c *sim.Comparison) (shape int, ok bool) {
	if c.Scarce == "cpu" || len(c.Requests) == 0 {
		return 0, false
	}
	for i, n := range c.Requests {
		if n > c.Requests[shape] {
			shape = i
		}
	}
	return shape, true
}

// summarize writes the short table.
func summarize(w io.Writer, c *sim.Comparison) error {
	var columns []sim.Column
	heads := fmt.Sprintf("| %s, seed %d |", machinesText(c.Machines), c.Seed)
	for _, name := range summarized() {
		at := slices.IndexFunc(c.Columns, func(k sim.Column) bool { return k.Contender == name })
		if at < 0 {
			return fmt.Errorf("summarize trace %s: it was not run with %s", c.Trace, name)
		}
		columns = append(columns, c.Columns[at])
		heads += " " + strings.NewReplacer(" ", "<br>", "ceTopo", "ce<br>Topo").Replace(name) + " |"
	}
	var b strings.Builder
	b.WriteString(heads + "\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	for _, r := range summaryRows(c) {
		if r.value == nil {
			fmt.Fprintf(&b, "| **%s**: %s |%s\n", r.label, r.meaning, strings.Repeat(" |", len(columns)))
			continue
		}
		fmt.Fprintf(&b, "| %s<br>*%s* |", r.label, r.meaning)
		for _, k := range columns {
			b.WriteString(" " + r.value(k) + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
