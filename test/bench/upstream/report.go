package upstream

import (
	"fmt"
	"slices"
	"strings"
)

// Report returns the tables of a measurement: the ratios of each subject to the first one, by workload.
func Report(results []Result, subjects []Subject) string {
	var b strings.Builder
	first := subjects[0]
	fmt.Fprintf(&b, "| test case | workload | %s pods/s |", first)
	for _, s := range subjects[1:] {
		fmt.Fprintf(&b, " %s pods/s | ratio | CPU | decision | own | gauges |", s)
	}
	b.WriteString(" upstream's CI wants |\n|---|---|---:|" +
		strings.Repeat("---:|---:|---:|---:|---:|---:|", len(subjects)-1) + "---:|\n")
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %.0f |", r.Workload.Case, r.Workload.size(), mean(each(r.Runs[first], pace)))
		for _, s := range subjects[1:] {
			fmt.Fprintf(&b, " %.0f | %s | %s | %s | %.1f %% | %.1f %% |",
				mean(each(r.Runs[s], pace)), r.ratioRange(s, first, pace),
				r.medianRatio(s, first, cost), r.medianRatio(s, first, decision), 100*mean(each(r.Runs[s], share)),
				100*mean(each(r.Runs[s], reading)))
		}
		fmt.Fprintf(&b, " %s |\n", r.Threshold.text(r.Workload))
	}
	b.WriteString(refusals(results, subjects))
	return b.String()
}

// text returns the threshold, and the workload that has it if that is not w itself.
func (t Threshold) text(w Workload) string {
	switch {
	case t.Rate == 0:
		return "-"
	case t.Of == w.Name && len(w.Set) == 0:
		return fmt.Sprintf("%.0f", t.Rate)
	}
	return fmt.Sprintf("%.0f at %s", t.Rate, t.Of)
}

// refusals returns a table of the pods that kubelets refused, if any workload has nodes with layouts.
func refusals(results []Result, subjects []Subject) string {
	var b strings.Builder
	for _, r := range results {
		if r.Workload.Topic != NUMA || r.Err != nil {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| test case | workload |")
			for _, s := range subjects {
				fmt.Fprintf(&b, " %s |", s)
			}
			b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(subjects)) + "\n")
		}
		fmt.Fprintf(&b, "| %s | %s |", r.Workload.Case, r.Workload.size())
		for _, s := range subjects {
			var refused, pods int
			for _, x := range r.Runs[s] {
				refused, pods = refused+x.Refused, pods+x.Pods
			}
			fmt.Fprintf(&b, " %d of %d |", refused, pods)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// These functions return the figures of a run that are compared: pods per second, CPU seconds, seconds of a decision,
// and the shares of the CPU profile in Tenon's code without and with only the computation of metrics.
func pace(r Run) float64     { return r.Rate }
func cost(r Run) float64     { return r.CPU.Seconds() }
func decision(r Run) float64 { return r.Decision.Seconds() }
func share(r Run) float64    { return r.Own - r.Gauges }
func reading(r Run) float64  { return r.Gauges }

func each(runs []Run, figure func(Run) float64) (out []float64) {
	for _, r := range runs {
		out = append(out, figure(r))
	}
	return out
}

// ratios divides a figure of each run of the first subject by the figure of the second subject's run in the same
// round. It returns the ratios in ascending order. Rounds in which one of the figures is 0 have no ratio.
func (r Result) ratios(s, to Subject, figure func(Run) float64) (out []float64) {
	for i := range min(len(r.Runs[s]), len(r.Runs[to])) {
		if a, b := figure(r.Runs[s][i]), figure(r.Runs[to][i]); a > 0 && b > 0 {
			out = append(out, a/b)
		}
	}
	slices.Sort(out)
	return out
}

// medianRatio returns the median ratio, or "-" if there is none.
func (r Result) medianRatio(s, to Subject, figure func(Run) float64) string {
	all := r.ratios(s, to, figure)
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", median(all))
}

// ratioRange returns the median ratio, and the least and the largest.
func (r Result) ratioRange(s, to Subject, figure func(Run) float64) string {
	all := r.ratios(s, to, figure)
	if len(all) < 2 {
		return r.medianRatio(s, to, figure)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(all), all[0], all[len(all)-1])
}

// median returns the median of sorted numbers. There is at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// mean returns the arithmetic mean of numbers; 0 of none.
func mean(all []float64) (sum float64) {
	for _, x := range all {
		sum += x / float64(len(all))
	}
	return sum
}
