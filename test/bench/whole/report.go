package whole

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report returns rounds as Markdown, for each cluster size: the raw figures, and ratios to the first contender.
func Report(rounds []Round) string {
	var b strings.Builder
	for _, n := range sizes(rounds) {
		ofSize := slices.DeleteFunc(slices.Clone(rounds), func(r Round) bool { return r.Nodes != n })
		fmt.Fprintf(&b, "%d nodes, %d pods:\n\n", n, ofSize[0].Pods)
		b.WriteString(figures(ofSize))
		b.WriteString(ratios(ofSize))
		b.WriteString(efforts(ofSize))
		b.WriteString(causes(ofSize))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func sizes(rounds []Round) (out []int) {
	for _, r := range rounds {
		if !slices.Contains(out, r.Nodes) {
			out = append(out, r.Nodes)
		}
	}
	return out
}

func figures(rounds []Round) string {
	var b strings.Builder
	b.WriteString("| scheduler | bound | pods/s | 10-90 % | on nodes | told | CPU s | memory | start | refused |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range rounds {
		cut := ""
		if r.Cut > 0 {
			cut = " (cut)"
		}
		start := seconds(r.Start, 1)
		if r.Start > 0 {
			start += " s"
		}
		fmt.Fprintf(&b, "| %s | %d%s | %s | %s | %s | %s | %s | %d MiB | %s | %d |\n", r.Contender, r.Bound, cut,
			rate(r.Rate), rate(r.Slope),
			rate(r.Ran), rate(r.Told), seconds(r.CPU, 2), r.Peak>>20, start, r.Refused())
	}
	return b.String() + "\n"
}

// ratios returns a table of the best figure of each contender, over all its rounds, as a multiple of the best figure
// of the first contender.
func ratios(rounds []Round) string {
	type best struct {
		rate, slope, ran, told float64
		cpu                    time.Duration
		peak                   int64
	}
	all := map[string]best{}
	var names []string
	for _, r := range rounds {
		x, ok := all[r.Contender]
		if !ok {
			names = append(names, r.Contender)
		}
		all[r.Contender] = best{max(x.rate, r.Rate), max(x.slope, r.Slope), max(x.ran, r.Ran), max(x.told, r.Told),
			smaller(x.cpu, r.CPU), smaller(x.peak, r.Peak)}
	}
	if len(names) < 2 {
		return ""
	}
	first := all[names[0]]
	var b strings.Builder
	fmt.Fprintf(&b, "| best, as multiples of %s | pods/s | 10-90 %% | on nodes | told | CPU | memory |\n"+
		"|---|---:|---:|---:|---:|---:|---:|\n", names[0])
	for _, name := range names[1:] {
		x := all[name]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, times(x.rate, first.rate),
			times(x.slope, first.slope),
			times(x.ran, first.ran), times(x.told, first.told), times(x.cpu.Seconds(), first.cpu.Seconds()),
			times(float64(x.peak), float64(first.peak)))
	}
	return b.String() + "\n"
}

// efforts returns a table of what rounds cost until the last node has published, for each 1,000 pods. It has the rounds
// in which all pods were bound, and is empty if there are none.
func efforts(rounds []Round) string {
	var b strings.Builder
	for _, r := range rounds {
		if w := r.Whole; w != (Spent{}) {
			n := time.Duration(r.Pods)
			of := func(d time.Duration) string { return seconds(d*1000/n, 2) }
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d | %.1f MB |\n", r.Contender,
				of(w.Scheduler+w.Plane+w.Nodes), of(w.Scheduler), of(w.Plane), of(w.Nodes),
				r.Written.Layouts*1000/int64(n), float64(r.Written.Bytes)/1000/float64(n))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	const head = "| 1,000 pods, until all nodes have published | CPU s | scheduler | control plane | nodes | layouts | " +
		"bytes |"
	return head + "\n|---|---:|---:|---:|---:|---:|---:|\n" + b.String() + "\n"
}

// smaller returns the lesser of two figures. A figure of 0 is missing; if both are, smaller returns 0.
func smaller[T time.Duration | int64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// times returns the ratio of the first figure to the second, or "-" if one is missing. A ratio below 0.1 has two
// digits.
func times(x, of float64) string {
	switch {
	case x <= 0 || of <= 0:
		return "-"
	case x/of < 0.1:
		return strconv.FormatFloat(x/of, 'g', 2, 64)
	}
	return fmt.Sprintf("%.2f", x/of)
}

// causes lists which rounds were cut, why kubelets refused pods, and why others wait.
func causes(rounds []Round) string {
	var lines []string
	seen := map[string]bool{}
	add := func(line string) {
		if !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	for _, r := range rounds {
		if r.Cut > 0 {
			add(fmt.Sprintf("- %s: cut after %.0f s, with %d of %d pods bound", r.Contender, r.Cut.Seconds(), r.Bound, r.Pods))
		}
		for _, why := range slices.Sorted(maps.Keys(r.Judged.Refused)) {
			add(fmt.Sprintf("- %s: %d pods are refused with `%s`", r.Contender, r.Judged.Refused[why], why))
		}
		for i, w := range r.Waiting {
			if i == 3 {
				break
			}
			add(fmt.Sprintf("- %s: %d pods wait: %s", r.Contender, w.Pods, w.Text))
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(word(a), word(b)) })
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n\n"
}

func word(line string) string { name, _, _ := strings.Cut(line, ":"); return name }
