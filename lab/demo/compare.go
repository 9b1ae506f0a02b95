package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/lab"
)

// line is one row of the comparison.
type line struct {
	label  string
	values []string
}

// compare writes the rounds side by side.
func compare(w io.Writer, nodes []lab.Node, rounds []round) error {
	reasons := map[string]bool{}
	for _, r := range rounds {
		for why := range r.refused {
			reasons[why] = true
		}
	}
	row := func(label string, value func(round) any) line {
		l := line{label: label}
		for _, r := range rounds {
			l.values = append(l.values, fmt.Sprint(value(r)))
		}
		return l
	}
	rows := []line{
		row("", func(r round) any { return r.name }),
		row("pods asked for", func(r round) any { return r.asked }),
		row("pods running", func(r round) any { return r.running }),
		row("refusals by the kubelet", func(r round) any { return r.refusals() }),
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		rows = append(rows, row("  "+why, func(r round) any { return r.refused[why] }))
	}
	rows = append(rows,
		row(fmt.Sprintf("pods refused %d times, given up", tries), func(r round) any { return r.gaveUp }),
		row("pods pending", func(r round) any { return r.pending }),
		row("GPUs idle that waiting pods want", func(r round) any { return r.idleGPUs }),
		row("CPUs idle that waiting pods want", func(r round) any { return r.idleCPUs }),
		row("seconds until the last pod was bound", func(r round) any { return fmt.Sprintf("%.1f", r.took.Seconds()) }),
	)
	var b strings.Builder
	fmt.Fprintf(&b, "%d machines, real kubelet managers, the same pods in the same order\n\n", len(nodes))
	table(&b, rows)
	for _, r := range rounds {
		if r.predicted > 0 {
			fmt.Fprintf(&b, "\n%s predicted the holdings of %d pods; the kubelets did otherwise for %d.\n", r.name,
				r.predicted, r.wrong)
		}
		if r.firstPending != "" && r.predicted > 0 {
			fmt.Fprintf(&b, "\nWhy pod %s waits:\n%s", r.firstPending, wrap(r.firstReason))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func table(b *strings.Builder, rows []line) {
	label, width := 0, 0
	for _, r := range rows {
		label = max(label, len(r.label))
		for _, v := range r.values {
			width = max(width, len(v))
		}
	}
	for i, r := range rows {
		fmt.Fprintf(b, "%-*s", label, r.label)
		for _, v := range r.values {
			fmt.Fprintf(b, "   %*s", width, v)
		}
		b.WriteByte('\n')
		if i == 0 {
			b.WriteString(strings.Repeat("─", label+len(r.values)*(width+3)) + "\n")
		}
	}
}

// wrap breaks a text into lines of at most 98 columns, indented by two.
func wrap(s string) string {
	var b strings.Builder
	at := 0
	for _, w := range strings.Fields(s) {
		switch {
		case at == 0:
			b.WriteString("  ")
			at = 2
		case at+1+len(w) > 98:
			b.WriteString("\n  ")
			at = 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += len(w)
	}
	b.WriteByte('\n')
	return b.String()
}
