package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/state"
)

// Page is one screen of the demonstration, with the command that shows it.
type Page struct{ Command, Text string }

// Draw draws one node, at most width columns wide.
type Draw func(w io.Writer, n *state.Node, width int) error

// width bounds the columns of a line.
const width = 100

// Pages returns the results as text: first the results of all acts together, then a page for each act.
func (f *Found) Pages(draw Draw) ([]Page, error) {
	var pages []Page
	if f.Story != nil || f.Busy != nil || f.Waiting != nil || f.Packing != nil {
		pages = append(pages, Page{"tenon-lab demo", f.result()})
	}
	if f.Story != nil {
		maps, err := f.maps(draw)
		if err != nil {
			return nil, err
		}
		pages = append(pages, Page{"tenon-lab demo --act a", story(f.Story) + maps})
	}
	if f.Busy != nil {
		pages = append(pages, Page{"tenon-lab demo --act b", busy(f.Busy)})
	}
	if f.Waiting != nil {
		pages = append(pages, Page{"tenon-lab demo --act c", waiting(f.Waiting)})
	}
	if f.Packing != nil {
		pages = append(pages, Page{"tenon-lab demo --act d", packingText(f.Packing)})
	}
	if f.Volcano != nil {
		pages = append(pages, Page{"tenon-lab demo --volcano", volcanoText(f.Volcano)})
	}
	return pages, nil
}

// row is one line of a table: a label, and the values for the two schedulers or plugins that the table compares.
type row struct{ label, left, right string }

func table(rows []row) string { return tableOf("default scheduler", "Tenon", rows) }

// tableOf returns a table whose value columns have the given heads.
func tableOf(left, right string, rows []row) string {
	var b strings.Builder
	line := func(r row) { fmt.Fprintf(&b, "%-56s %18s %18s\n", r.label, r.left, r.right) }
	line(row{"", left, right})
	b.WriteString(strings.Repeat("─", 94) + "\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// result returns a table with one or a few rows for each act.
func (f *Found) result() string {
	var rows []row
	if s := f.Story; s != nil {
		blind, tenon := countRunning(s)
		total := len(s.Pods)
		rows = append(rows, row{fmt.Sprintf("a  %d pods, one after the other: running", total), fmt.Sprint(blind),
			fmt.Sprint(tenon)})
	}
	if b := f.Busy; b != nil {
		d, t := mean(b, byDefault), mean(b, byTenon)
		rows = append(rows,
			row{fmt.Sprintf("b  %d pods at once, mean of %s: running", d.asked, seeds(d.rounds)), tenth(d.running),
				tenth(t.running)},
			row{"   refused by kubelets", tenth(d.refusals), tenth(t.refusals)},
			row{"   last pod bound after", tenth(d.last) + " s", tenth(t.last) + " s"})
	}
	if w := f.Waiting; w != nil {
		rows = append(rows, row{"c  a pod that waits runs, after room was made", "-", fmt.Sprintf("%.1f s", w.Seconds)})
	}
	if p := f.Packing; p != nil {
		d, t := p.Schedulers[0], p.Schedulers[1]
		rows = append(rows, row{fmt.Sprintf("d  %d machines simulated: GPUs idle while pods wait", p.Machines),
			fmt.Sprint(d.IdleGPUs), fmt.Sprint(t.IdleGPUs)})
	}
	return table(rows)
}

// countRunning counts the pods of the story that run under each scheduler.
func countRunning(s *document.DemoStory) (blind, tenon int) {
	for _, p := range s.Pods {
		if p.Default.Running {
			blind++
		}
		if p.Tenon.Running {
			tenon++
		}
	}
	return blind, tenon
}

// story renders the act about single pods.
func story(s *document.DemoStory) string {
	var b strings.Builder
	b.WriteString("a. Three pods. Every node that the default scheduler chose has room for them, counted as a whole.\n\n")
	var rows []row
	for _, p := range s.Pods {
		rows = append(rows, row{p.Name + "  " + p.Wants, short(p.Default), short(p.Tenon)})
	}
	b.WriteString(table(rows))
	b.WriteString("\nWhat the kubelets said:\n")
	for _, p := range s.Pods {
		if p.Default.Refusals > 0 {
			fmt.Fprintf(&b, "  %s on %s, %s: %s\n", p.Name, p.Default.Node, times(p.Default.Refusals), p.Default.Reason)
			b.WriteString(wrap(p.Default.Message, 4))
		}
	}
	b.WriteString("\nWhat the pods hold under Tenon:\n")
	for _, p := range s.Pods {
		if p.Tenon.Running {
			b.WriteString(wrap(fmt.Sprintf("%s on %s: %s", p.Name, p.Tenon.Node, p.Tenon.Holds), 2))
		}
	}
	return b.String()
}

// short returns a fate as a few words for one cell of a table.
func short(f document.DemoFate) string {
	switch {
	case f.Running:
		return "runs on " + f.Node
	case f.Refusals > 0:
		return fmt.Sprintf("refused %s", times(f.Refusals))
	}
	return "waits"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// maps draws the two nodes of the first pod beside each other.
func (f *Found) maps(draw Draw) (string, error) {
	if draw == nil {
		return "", nil
	}
	const half = (width - 2) / 2
	var sides [2][]string
	first := f.Story.Pods[0]
	for i, side := range []struct {
		node *state.Node
		head string
	}{
		{f.Died, fmt.Sprintf("Default: %s %s %s here", first.Name, gave(first.Default),
			times(max(1, first.Default.Refusals)))},
		{f.Ran, fmt.Sprintf("Tenon: %s runs here", first.Name)},
	} {
		var b strings.Builder
		if err := draw(&b, side.node, half); err != nil {
			return "", err
		}
		sides[i] = append([]string{side.head, ""}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	}
	return "\n" + beside(sides[0], sides[1], half), nil
}

func gave(f document.DemoFate) string {
	if f.Running {
		return "runs"
	}
	return "was refused"
}

// beside puts two columns of lines next to each other; the left one gets width columns.
func beside(left, right []string, width int) string {
	var b strings.Builder
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		line := l + strings.Repeat(" ", max(0, width-columns(l))+2) + r
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// columns counts the columns that a line takes on a terminal, where colour codes take none.
func columns(line string) int {
	n := 0
	for rest := line; rest != ""; {
		if strings.HasPrefix(rest, "\x1b[") {
			if end := strings.IndexByte(rest, 'm'); end >= 0 {
				rest = rest[end+1:]
				continue
			}
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		n++
	}
	return n
}

// means has the results of a scheduler. The decimal fields are means over its rounds; asked is the number of pods of
// each round, and predicted and wrong are sums over the rounds.
type means struct {
	rounds, asked                                             int
	running, refusals, gaveUp, pending, last, gpus, functions float64
	predicted, wrong                                          int
}

func mean(b *document.DemoBusy, scheduler string) (m means) {
	for _, r := range b.Rounds {
		if r.Scheduler != scheduler {
			continue
		}
		m.rounds++
		m.asked = r.Asked
		m.running += float64(r.Running)
		m.refusals += float64(r.Refusals())
		m.gaveUp += float64(r.GaveUp)
		m.pending += float64(r.Pending)
		m.last += r.LastBound
		m.gpus += float64(r.IdleGPUs)
		m.functions += float64(r.IdleFunctions)
		m.predicted += r.Predicted
		m.wrong += r.Wrong
	}
	for _, x := range []*float64{&m.running, &m.refusals, &m.gaveUp, &m.pending, &m.last, &m.gpus, &m.functions} {
		*x /= float64(max(1, m.rounds))
	}
	return m
}

func tenth(x float64) string { return fmt.Sprintf("%.1f", x) }

func seeds(n int) string {
	if n == 1 {
		return "1 seed"
	}
	return fmt.Sprintf("%d seeds", n)
}

// playBusy renders the act about a busy cluster.
func busy(x *document.DemoBusy) string {
	d, t := mean(x, byDefault), mean(x, byTenon)
	var b strings.Builder
	fmt.Fprintf(&b, "b. A busy cluster: %d pods at once on %d nodes, the same pods in the same order. Means of %s.\n\n",
		d.asked, x.Nodes, seeds(d.rounds))
	b.WriteString(table([]row{
		{"pods running", tenth(d.running), tenth(t.running)},
		{"refusals by kubelets", tenth(d.refusals), tenth(t.refusals)},
		{fmt.Sprintf("pods refused %d times and given up", tries), tenth(d.gaveUp), tenth(t.gaveUp)},
		{"pods pending", tenth(d.pending), tenth(t.pending)},
		{"GPUs idle that pods want", tenth(d.gpus), tenth(t.gpus)},
		{"network functions idle that pods want", tenth(d.functions), tenth(t.functions)},
		{"seconds until the last pod was bound", tenth(d.last), tenth(t.last)},
	}))
	b.WriteString("\nseed      running          refusals       last bound, s\n" +
		"      default  Tenon   default  Tenon   default  Tenon\n")
	for i := 0; i+1 < len(x.Rounds); i += 2 {
		d, t := x.Rounds[i], x.Rounds[i+1]
		fmt.Fprintf(&b, "%4d  %7d  %5d   %7d  %5d   %7.1f  %5.1f\n", d.Seed, d.Running, t.Running, d.Refusals(), t.Refusals(),
			d.LastBound, t.LastBound)
	}
	fmt.Fprintf(&b, "\nTenon predicted what %d pods hold; for %d of them the kubelets did otherwise.\n", t.predicted,
		t.wrong)
	return b.String()
}

// waiting renders the act about a pod that waits.
func waiting(w *document.DemoWaiting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "c. Why does %s wait?\n\n$ kubectl tenon explain pod %s\n%s\n", w.Pod, w.Pod,
		strings.TrimRight(w.Why, "\n"))
	fmt.Fprintf(&b, "\n$ kubectl delete pod %s    # on %s, so that the room is in one place\n", w.Ends, w.Node)
	fmt.Fprintf(&b, "%s runs %.1f s later.\n", w.Pod, w.Seconds)
	fmt.Fprintf(&b, "\n$ kubectl tenon explain pod %s\n%s\n", w.Pod, strings.TrimRight(w.After, "\n"))
	return b.String()
}

// packingText renders the act about many machines.
func packingText(p *document.DemoPacking) string {
	d, t := p.Schedulers[0], p.Schedulers[1]
	number := func(n int) string { return fmt.Sprint(n) }
	var b strings.Builder
	fmt.Fprintf(&b, "d. %d simulated machines with %d GPUs, %d pods that stay (seed %d).\n\n", p.Machines, t.GPUs,
		p.Asked, p.Seed)
	b.WriteString(table([]row{
		{"pods placed before the first one waits", number(d.First), number(t.First)},
		{"pods placed in the end", number(d.Placed), number(t.Placed)},
		{"refusals by kubelets", number(d.Refused), number(t.Refused)},
		{"GPUs idle while pods wait for as many", fmt.Sprint(d.IdleGPUs), fmt.Sprint(t.IdleGPUs)},
	}))
	b.WriteString("\nPods placed before the first one waits:\n")
	longest := max(d.First, t.First, 1)
	for _, s := range p.Schedulers {
		fmt.Fprintf(&b, "  %-8s %s %d\n", s.Name, strings.Repeat("█", max(1, s.First*70/longest)), s.First)
	}
	b.WriteString("\n")
	b.WriteString(wrap("Machines and pods: "+p.Source+".", 0))
	return b.String()
}

// wrap breaks a text into lines of at most width columns. The first is indented by indent spaces, the others by two
// more.
func wrap(s string, indent int) string {
	var b strings.Builder
	at := 0
	for _, w := range strings.Fields(s) {
		n := utf8.RuneCountInString(w)
		switch {
		case at == 0:
			b.WriteString(strings.Repeat(" ", indent))
			at = indent
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent+2))
			at = indent + 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += n
	}
	b.WriteByte('\n')
	return b.String()
}
