package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/core/state"
)

// Page is a part of the output of a command that is read at once. A page without a command continues the one before
// it.
type Page struct{ Command, Text string }

// Draw draws one node, at most width columns wide.
type Draw func(w io.Writer, n *state.Node, width int) error

// width bounds the columns of a line.
const width = 100

// valueWidth returns the columns of a value in a table that has some columns of values.
func valueWidth(columns int) int { return min(16, 60/columns) }

// Pages returns the results as text: first the results of all acts together, then a page or two for each act.
func (f *Found) Pages(draw Draw) ([]Page, error) {
	var texts []string
	if f.Story != nil || f.Busy != nil || f.Waiting != nil || f.Packing != nil {
		texts = append(texts, f.result())
	}
	if f.Story != nil {
		texts = append(texts, story(f.Story))
		if draw != nil {
			maps, err := f.maps(draw)
			if err != nil {
				return nil, err
			}
			texts = append(texts, maps)
		}
	}
	if f.Busy != nil {
		texts = append(texts, busy(f.Busy))
	}
	if f.Waiting != nil {
		texts = append(texts, waiting(f.Waiting))
	}
	if f.Packing != nil {
		texts = append(texts, packingText(f.Packing))
	}
	if f.Claims != nil {
		texts = append(texts, claimsText(f.Claims))
	}
	if f.Volcano != nil {
		texts = append(texts, volcanoText(f.Volcano))
	}
	var pages []Page
	for i, text := range texts {
		pages = append(pages, Page{Text: text})
		if i == 0 {
			pages[0].Command = "tenon-lab demo"
		}
	}
	return pages, nil
}

// row is one line of a table: a label, and a value for each column. A row without values is the head of a section.
type row struct {
	label  string
	values []string
}

// table returns a table that has a column for each of some schedulers or plugins.
func table(names []string, rows []row) string {
	var b strings.Builder
	wide := valueWidth(len(names))
	line := func(r row) {
		text := fmt.Sprintf("%-*s", width-wide*len(names), r.label)
		for _, v := range r.values {
			text += fmt.Sprintf("%*s", wide, v)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	var heads [2][]string
	for _, name := range names {
		above, below := heading(name)
		heads[0], heads[1] = append(heads[0], above), append(heads[1], below)
	}
	line(row{values: heads[0]})
	line(row{values: heads[1]})
	b.WriteString(strings.Repeat("─", width) + "\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// heading returns a name in two lines; the first may be empty.
func heading(name string) (above, below string) {
	if name == sim.Match {
		return "NodeResource-", "TopologyMatch"
	}
	above, below, ok := strings.Cut(name, " ")
	if !ok {
		return "", name
	}
	return above, below
}

// schedulerNames returns the names of the contenders on kubelets.
func schedulerNames() (out []string) {
	for _, s := range schedulers() {
		out = append(out, s.name)
	}
	return out
}

// each returns a value for every contender on kubelets.
func each(of func(scheduler string) string) (out []string) {
	for _, name := range schedulerNames() {
		out = append(out, of(name))
	}
	return out
}

// result returns a table with one or a few rows for each act.
func (f *Found) result() string {
	var rows []row
	if s := f.Story; s != nil {
		rows = append(rows, row{fmt.Sprintf("a  %d pods, one after the other: running", len(s.Pods)),
			each(func(name string) string { return fmt.Sprint(countRunning(s, name)) })})
	}
	if b := f.Busy; b != nil {
		t := mean(b, sim.Tenon)
		rows = append(rows,
			row{fmt.Sprintf("b  %d pods at once, mean of %s: running", t.asked, seeds(t.rounds)),
				each(func(name string) string { return tenth(mean(b, name).running) })},
			row{"   refusals by kubelets", each(func(name string) string { return tenth(mean(b, name).refusals) })},
			row{"   last pod bound after", each(func(name string) string { return tenth(mean(b, name).last) + " s" })})
	}
	if w := f.Waiting; w != nil {
		rows = append(rows, row{"c  a pod that waits runs, after room was made",
			[]string{"-", "-", fmt.Sprintf("%.1f s", w.Seconds)}})
	}
	if p := f.Packing; p != nil {
		of := func(value func(document.DemoContender) string) []string {
			return each(func(name string) string { return value(contenderOf(p, name)) })
		}
		rows = append(rows,
			row{fmt.Sprintf("d  %d machines simulated, jobs end: refusals", p.Machines),
				of(func(c document.DemoContender) string { return fmt.Sprint(c.RefusedLater) })},
			row{"   mean wait of a job", of(func(c document.DemoContender) string { return tenth(c.MeanWait) + " s" })},
			row{"   GPUs idle while jobs wait, where none ends",
				of(func(c document.DemoContender) string { return fmt.Sprint(c.IdleGPUs) })})
	}
	text := table(schedulerNames(), rows)
	return text + "\n" + wrap("kube-scheduler's default score is LeastAllocated: the emptiest node. MostAllocated is "+
		"the fullest, to pack nodes. Both count the amounts of whole nodes.", 0)
}

// countRunning counts the pods of the story that run under a scheduler.
func countRunning(s *document.DemoStory, scheduler string) (count int) {
	for _, p := range s.Pods {
		if p.Under(scheduler).Running {
			count++
		}
	}
	return count
}

// story renders the act about single pods.
func story(s *document.DemoStory) string {
	var b strings.Builder
	b.WriteString("a. Three pods on nodes with other pods, which were bound by hand so that they leave gaps.\n" +
		"Every node that kube-scheduler chose has room for the pod, counted as a whole.\n\n")
	var rows []row
	for _, p := range s.Pods {
		rows = append(rows, row{p.Name + "  " + p.Wants, each(func(name string) string { return short(p.Under(name)) })})
	}
	b.WriteString(table(schedulerNames(), rows))
	b.WriteString("\nWhat the kubelets said:\n")
	for _, p := range s.Pods {
		b.WriteString(refusals(p))
	}
	b.WriteString("\nWhat the pods hold under Tenon:\n")
	for _, p := range s.Pods {
		if f := p.Under(sim.Tenon); f.Running {
			b.WriteString(wrap(fmt.Sprintf("%s on %s: %s", p.Name, f.Node, f.Holds), 2))
		}
	}
	return b.String()
}

// refusals returns what kubelets said to a pod. What they said the same way under several schedulers is there once.
func refusals(p document.DemoPod) string {
	var b strings.Builder
	said := map[string]bool{}
	for _, f := range p.Fates {
		line := fmt.Sprintf("  %s on %s, %s: %s\n", p.Name, f.Node, times(f.Refusals), f.Reason)
		if f.Refusals == 0 || said[line] {
			continue
		}
		said[line] = true
		b.WriteString(line + wrap(f.Message, 4))
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
	const half = (width - 2) / 2
	var sides [2][]string
	first := f.Story.Pods[0]
	for i, side := range []struct {
		node *state.Node
		head string
	}{
		{f.Died, fmt.Sprintf("kube-scheduler: %s %s here", first.Name, gave(first.Under(sim.KubeLeast)))},
		{f.Ran, fmt.Sprintf("Tenon: %s runs here", first.Name)},
	} {
		var b strings.Builder
		if err := draw(&b, side.node, half); err != nil {
			return "", err
		}
		sides[i] = append([]string{side.head, ""}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	}
	return beside(sides[0], sides[1], half), nil
}

func gave(f document.DemoFate) string {
	if f.Running {
		return "runs"
	}
	return "was refused " + times(max(1, f.Refusals))
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
	average(m.rounds, &m.running, &m.refusals, &m.gaveUp, &m.pending, &m.last, &m.gpus, &m.functions)
	return m
}

// average makes means of sums over rounds.
func average(rounds int, sums ...*float64) {
	for _, x := range sums {
		*x /= float64(max(1, rounds))
	}
}

// rowOf returns a function that makes a row of means: a label, and a value of the means of each contender.
func rowOf[M any](mean func(scheduler string) M) func(label string, value func(M) float64) row {
	return func(label string, value func(M) float64) row {
		return row{label, each(func(name string) string { return tenth(value(mean(name))) })}
	}
}

func tenth(x float64) string { return fmt.Sprintf("%.1f", x) }

func seeds(n int) string {
	if n == 1 {
		return "1 seed"
	}
	return fmt.Sprintf("%d seeds", n)
}

// busy renders the act about a busy cluster.
func busy(x *document.DemoBusy) string {
	t := mean(x, sim.Tenon)
	var b strings.Builder
	fmt.Fprintf(&b, "b. A busy cluster: %d pods at once on %d nodes, the same pods in the same order. Means of %s.\n\n",
		t.asked, x.Nodes, seeds(t.rounds))
	of := rowOf(func(scheduler string) means { return mean(x, scheduler) })
	b.WriteString(table(schedulerNames(), []row{
		of("pods running", func(m means) float64 { return m.running }),
		of("refusals by kubelets", func(m means) float64 { return m.refusals }),
		of(fmt.Sprintf("pods refused %d times and given up", tries), func(m means) float64 { return m.gaveUp }),
		of("pods pending", func(m means) float64 { return m.pending }),
		of("GPUs idle that pods want", func(m means) float64 { return m.gpus }),
		of("network functions idle that pods want", func(m means) float64 { return m.functions }),
		of("seconds until the last pod was bound", func(m means) float64 { return m.last }),
	}))
	const note = "All %d pods fit together, if each goes to the right node. A pod that a kubelet refused is created " +
		"again, until it was refused %d times, so one pod can count as several refusals. Tenon binds the pods of one " +
		"node one after the other, so that its predictions hold: its last pod may be bound later."
	b.WriteString("\n" + wrap(fmt.Sprintf(note, t.asked, tries), 0))
	b.WriteString("\n" + seedsTable(x))
	fmt.Fprintf(&b, "\nTenon predicted what %d pods hold; for %d of them the kubelets did otherwise.\n", t.predicted,
		t.wrong)
	return b.String()
}

// seedsTable has a line for every seed, so that the luckiest one is not shown alone.
func seedsTable(x *document.DemoBusy) string {
	var b strings.Builder
	b.WriteString("seed           running                refusals            last bound, s\n" +
		"        Least   Most  Tenon     Least   Most  Tenon     Least   Most  Tenon\n")
	step := len(schedulers())
	for i := 0; i+step <= len(x.Rounds); i += step {
		rounds := x.Rounds[i : i+step]
		running, refused, last := "", "", ""
		for _, r := range rounds {
			running += fmt.Sprintf("%7d", r.Running)
			refused += fmt.Sprintf("%7d", r.Refusals())
			last += fmt.Sprintf("%7.1f", r.LastBound)
		}
		fmt.Fprintf(&b, "%4d  %s   %s   %s\n", rounds[0].Seed, running, refused, last)
	}
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
