package demo

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// gangMeans has the results of a plugin. The decimal fields are means over its rounds; gangs and tasks are the
// numbers of each round, and confirmed and wrong are sums over the rounds.
type gangMeans struct {
	rounds, gangs, tasks                                             int
	whole, inWhole, waiting, partial, gaveUp, refusals, strandedGPUs float64
	confirmed, wrong                                                 int
}

func meanGangs(x *document.DemoVolcano, plugin string) (m gangMeans) {
	for _, r := range x.Rounds {
		if r.Plugin != plugin {
			continue
		}
		m.rounds++
		m.gangs, m.tasks = r.Gangs, r.Tasks
		m.whole += float64(r.Whole)
		m.inWhole += float64(r.TasksOfWhole)
		m.waiting += float64(r.Waiting)
		m.partial += float64(r.Partial)
		m.gaveUp += float64(r.GaveUp)
		m.refusals += float64(r.Refusals())
		m.strandedGPUs += float64(r.StrandedGPUs)
		m.confirmed += r.Confirmed
		m.wrong += r.Wrong
	}
	average(m.rounds, &m.whole, &m.inWhole, &m.waiting, &m.partial, &m.gaveUp, &m.refusals, &m.strandedGPUs)
	return m
}

// volcanoText renders the act about Volcano.
func volcanoText(x *document.DemoVolcano) string {
	a, t := meanGangs(x, volcano.NumaAware), meanGangs(x, volcano.Tenon)
	var b strings.Builder
	fmt.Fprintf(&b, "Volcano: %d gangs of %d tasks at once on %d nodes, the same jobs in the same order. Means of %s.\n\n",
		t.gangs, t.tasks, x.Nodes, seeds(t.rounds))
	rows := []row{
		{"gangs that run as a whole", []string{tenth(a.whole), tenth(t.whole)}},
		{"tasks of these gangs", []string{tenth(a.inWhole), tenth(t.inWhole)}},
		{"gangs that wait, without any node", []string{tenth(a.waiting), tenth(t.waiting)}},
		{"gangs of which only some tasks have a node", []string{tenth(a.partial), tenth(t.partial)}},
		{"gangs given up after three restarts", []string{tenth(a.gaveUp), tenth(t.gaveUp)}},
		{"tasks refused by kubelets", []string{tenth(a.refusals), tenth(t.refusals)}},
		{"GPUs stranded: gangs want them, no whole gang has them", []string{tenth(a.strandedGPUs), tenth(t.strandedGPUs)}},
	}
	b.WriteString(table([]string{"with " + volcano.NumaAware, "with " + volcano.Tenon}, rows))
	b.WriteString("\nseed       gangs running            refusals       stranded GPUs\n" +
		"      numa-aware  tenon   numa-aware  tenon   numa-aware  tenon\n")
	for i := 0; i+1 < len(x.Rounds); i += 2 {
		a, t := x.Rounds[i], x.Rounds[i+1]
		fmt.Fprintf(&b, "%4d  %10d  %5d   %10d  %5d   %10d  %5d\n", t.Seed, a.Whole, t.Whole, a.Refusals(), t.Refusals(),
			a.StrandedGPUs, t.StrandedGPUs)
	}
	fmt.Fprintf(&b, "\nOf Tenon's predictions of what tasks hold, kubelets confirmed %d; %d were wrong.\n", t.confirmed,
		t.wrong)
	b.WriteString("Under numa-aware Tenon's agents publish each node's Numatopology, at every change.\n")
	return b.String()
}
