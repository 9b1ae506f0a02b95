package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/face/chart"
)

// Columns of the table; their sum is at most textWidth.
const (
	compareLabel  = 28
	compareColumn = 9
)

// compareRow is one line of the table. If value is nil, the line is the head of a section.
type compareRow struct {
	label string
	value func(*sim.Comparison, sim.Column) string
}

// scarceUnit returns the word for units of the resource that decides the results.
func scarceUnit(c *sim.Comparison) string {
	if c.Scarce == "cpu" {
		return "CPUs"
	}
	return "GPUs"
}

// compareRows returns the lines of the table in their order.
func compareRows(c *sim.Comparison) []compareRow {
	unit := scarceUnit(c)
	rows := []compareRow{
		{fmt.Sprintf("nobody departs, %d pods", c.Asked), nil},
		{"placed till one waits", stay(func(t sim.Tally) int { return t.First })},
		{"placed, all tried", stay(func(t sim.Tally) int { return t.Placed })},
		{unit + " given, %", func(_ *sim.Comparison, k sim.Column) string { return percent(k.Stay.Given, k.Stay.Capacity) }},
		{unit + " stranded", stay(func(t sim.Tally) int { return int(t.Stranded) })},
		{unit + " idle while pods wait", stay(func(t sim.Tally) int { return int(t.Wanted) })},
		{"refusals by kubelets", stay(func(t sim.Tally) int { return t.Refused })},
		{fmt.Sprintf("pods come and go, %d pods", c.Pods), nil},
		{"pods that waited", churn(func(t sim.Tally) int { return t.Pods - t.AtOnce })},
		{"mean wait, s", meanWait},
		{"longest wait, s", func(_ *sim.Comparison, k sim.Column) string {
			if k.Churn.Stopped {
				return "-"
			}
			return fmt.Sprint(k.Churn.Longest)
		}},
		{"never placed", churn(func(t sim.Tally) int { return t.Pods - t.Placed })},
		{"refusals by kubelets", churn(func(t sim.Tally) int { return t.Refused })},
		{"NUMA nodes per pod", func(_ *sim.Comparison, k sim.Column) string {
			return hundredths(100*k.Churn.NUMAs, int64(k.Churn.OnNUMAs))
		}},
		{"mean distance", func(_ *sim.Comparison, k sim.Column) string {
			return hundredths(k.Churn.Distance, int64(k.Churn.OnNUMAs))
		}},
	}
	if c.Moves > 0 {
		rows = append(rows, compareRow{"pods moved", churn(func(t sim.Tally) int { return t.Moved })},
			compareRow{"moves a day", func(_ *sim.Comparison, k sim.Column) string {
				return ratio(int64(k.Churn.Moved)*24*60*60, k.Churn.Seconds)
			}})
	}
	if c.Cases > 0 {
		rows = append(rows, compareRow{fmt.Sprintf("%d small cases, %d pods", c.Cases, c.Optimum), nil},
			compareRow{"placed, % of the optimum", func(c *sim.Comparison, k sim.Column) string {
				return hundredths(100*100*int64(k.Optimum), int64(c.Optimum))
			}})
	}
	return rows
}

// stay and churn return functions that write a count as a mean over the runs. stay reads the part of the comparison
// in which no pod ends, churn the part in which pods come and go.
func stay(of func(sim.Tally) int) func(*sim.Comparison, sim.Column) string {
	return func(c *sim.Comparison, k sim.Column) string { return mean(of(k.Stay), c.Runs) }
}

func churn(of func(sim.Tally) int) func(*sim.Comparison, sim.Column) string {
	return func(c *sim.Comparison, k sim.Column) string {
		if k.Churn.Stopped {
			return "-"
		}
		return mean(of(k.Churn), c.Runs)
	}
}

// meanWait returns the mean wait of pods that come and go, in seconds.
func meanWait(_ *sim.Comparison, k sim.Column) string {
	if k.Churn.Stopped {
		return "-"
	}
	return ratio(k.Churn.Wait, int64(k.Churn.Pods))
}

// mean returns sum/runs as text, without a fraction unless rounding would make 0 of a positive sum.
func mean(sum, runs int) string {
	if sum > 0 && sum < runs {
		return ratio(int64(sum), int64(runs))
	}
	return fmt.Sprint((sum + runs/2) / runs)
}

// ratio returns sum/count with one decimal place. If count is 0, it divides by 1.
func ratio(sum, count int64) string {
	tenths := (10*sum + count/2) / max(1, count)
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

// hundredths returns sum/count with two decimal places, where sum is in hundredths; "-" if count is 0.
func hundredths(sum, count int64) string {
	if count == 0 {
		return "-"
	}
	return fmt.Sprintf("%d.%02d", sum/count/100, sum/count%100)
}

func percent(part, whole int64) string { return ratio(100*part, whole) }

func machinesText(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

// writeComparison writes one trace as a table.
func writeComparison(w io.Writer, c *sim.Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, seed %d", c.Trace, machinesText(c.Machines), c.Seed)
	if c.Runs > 1 {
		fmt.Fprintf(&b, " to %d, means", c.Seed+uint64(c.Runs)-1)
	}
	b.WriteString("\n\n")
	writeHeads(&b, c.Columns)
	b.WriteString(strings.Repeat("─", compareLabel+compareColumn*len(c.Columns)) + "\n")
	for _, r := range compareRows(c) {
		if r.value == nil {
			b.WriteString(r.label + "\n")
			continue
		}
		fmt.Fprintf(&b, "%-*s", compareLabel, "  "+r.label)
		for _, k := range c.Columns {
			fmt.Fprintf(&b, "%*s", compareColumn, r.value(c, k))
		}
		b.WriteByte('\n')
	}
	for _, k := range c.Columns {
		if k.Churn.Stopped {
			fmt.Fprintf(&b, "%s: stopped after %d refusals, while pods came and went.\n", k.Contender, sim.MaxRefused)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHeads writes the heads of the columns, whose last lines stand beside each other.
func writeHeads(b *strings.Builder, columns []sim.Column) {
	height := 0
	for _, k := range columns {
		height = max(height, 1+strings.Count(k.Head, "\n"))
	}
	for line := range height {
		text := strings.Repeat(" ", compareLabel)
		for _, k := range columns {
			words := strings.Split(k.Head, "\n")
			word := ""
			if at := line - (height - len(words)); at >= 0 {
				word = words[at]
			}
			text += fmt.Sprintf("%*s", compareColumn, word)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// drawComparisons draws three rows of the tables as charts, one line of charts for each trace.
func drawComparisons(w io.Writer, found []*sim.Comparison) error {
	var rows []chart.Row
	for _, c := range found {
		refused := func(k sim.Column) int { return k.Stay.Refused + k.Churn.Refused }
		rows = append(rows, chart.Row{Title: c.Trace + ", " + machinesText(c.Machines), Panels: []chart.Panel{
			panel(c, "placed till one waits", "more is better", func(k sim.Column) (float64, string) {
				return float64(k.Stay.First), mean(k.Stay.First, c.Runs)
			}),
			panel(c, "mean wait, s, with departures", "less is better", func(k sim.Column) (float64, string) {
				if k.Churn.Stopped {
					return 0, "was stopped"
				}
				return float64(k.Churn.Wait), meanWait(c, k)
			}),
			panel(c, "refusals by kubelets", "less is better", func(k sim.Column) (float64, string) {
				if k.Churn.Stopped {
					return float64(refused(k)), "stopped"
				}
				return float64(refused(k)), mean(refused(k), c.Runs)
			}),
		}})
	}
	return chart.Write(w, "Tenon and other schedulers on the same machines, pods and seeds", rows)
}

func panel(c *sim.Comparison, title, note string, value func(sim.Column) (float64, string)) chart.Panel {
	p := chart.Panel{Title: title, Note: note}
	for i, k := range c.Columns {
		v, text := value(k)
		label := strings.ReplaceAll(k.Head, "\n", " ")
		p.Bars = append(p.Bars, chart.Bar{Label: label, Value: v, Text: text, Strong: i == 0})
	}
	return p
}

// comparisonsDocument is what compare writes with "-o json" and "-o yaml". Sums are over all runs.
type comparisonsDocument struct {
	Kind        string               `json:"kind"` // "Comparisons"
	Comparisons []comparisonDocument `json:"comparisons"`
}

type comparisonDocument struct {
	Trace    string           `json:"trace"`
	Source   string           `json:"source,omitempty"`
	Machines int              `json:"machines"`
	Seed     uint64           `json:"seed"`
	Runs     int              `json:"runs"`
	Scarce   string           `json:"scarce"` // the resource whose amounts are printed
	Cases    int              `json:"cases"`  // small cases that were solved exactly
	Optimum  int              `json:"optimum"`
	Arrived  map[string]int   `json:"arrivedByShape"` // where no pod departs
	Columns  []columnDocument `json:"columns"`
}

type columnDocument struct {
	Contender string        `json:"contender"`
	Stay      tallyDocument `json:"stay"`  // no pod departs
	Churn     tallyDocument `json:"churn"` // pods come and go
	// Placed counts, by the names of shapes, the pods that were placed where no pod departs.
	Placed  map[string]int `json:"placedByShape"`
	Optimum int            `json:"optimum"`
}

type tallyDocument struct {
	Pods               int   `json:"pods"`
	PlacedBeforeAWait  int   `json:"placedBeforeAWait"`
	Placed             int   `json:"placed"`
	PlacedAtOnce       int   `json:"placedAtOnce"`
	Refused            int   `json:"refused"`
	Stopped            bool  `json:"stopped,omitempty"` // after too many refusals
	WaitSeconds        int64 `json:"waitSeconds"`
	LongestWaitSeconds int64 `json:"longestWaitSeconds"`
	Aligned            int   `json:"aligned"`
	NUMAs              int64 `json:"numas"`
	DistanceHundredths int64 `json:"distanceHundredths"`
	Capacity           int64 `json:"capacity"`
	Given              int64 `json:"given"`
	Stranded           int64 `json:"stranded"`
	Wanted             int64 `json:"wanted"`
}

func comparisonsOf(found []*sim.Comparison) comparisonsDocument {
	out := comparisonsDocument{Kind: "Comparisons", Comparisons: []comparisonDocument{}}
	for _, c := range found {
		d := comparisonDocument{c.Trace, c.Source, c.Machines, c.Seed, c.Runs, c.Scarce, c.Cases, c.Optimum,
			byShape(c.Shapes, c.Arrived), nil}
		for _, k := range c.Columns {
			d.Columns = append(d.Columns, columnDocument{k.Contender, tallyOf(k.Stay), tallyOf(k.Churn),
				byShape(c.Shapes, k.Placed), k.Optimum})
		}
		out.Comparisons = append(out.Comparisons, d)
	}
	return out
}

// byShape returns counts by the names of shapes.
func byShape(shapes []sim.Shape, counts []int) map[string]int {
	out := map[string]int{}
	for i, n := range counts {
		out[shapes[i].Name] += n
	}
	return out
}

func tallyOf(t sim.Tally) tallyDocument {
	return tallyDocument{t.Pods, t.First, t.Placed, t.AtOnce, t.Refused, t.Stopped, t.Wait, t.Longest,
		t.OnNUMAs, t.NUMAs, t.Distance, t.Capacity, t.Given, t.Stranded, t.Wanted}
}
