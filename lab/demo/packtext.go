package demo

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
)

// contenderOf returns the results of a simulated scheduler; empty ones if it did not play.
func contenderOf(p *document.DemoPacking, name string) document.DemoContender {
	for _, c := range p.Schedulers {
		if c.Name == name {
			return c
		}
	}
	return document.DemoContender{Name: name, BySize: make([]int, len(p.Sizes))}
}

// packingText renders the act about many machines.
func packingText(p *document.DemoPacking) string {
	of := func(label string, value func(document.DemoContender) string) row {
		r := row{label: label}
		for _, name := range simulated() {
			r.values = append(r.values, value(contenderOf(p, name)))
		}
		return r
	}
	count := func(label string, value func(document.DemoContender) int) row {
		return of(label, func(c document.DemoContender) string { return fmt.Sprint(value(c)) })
	}
	rows := []row{
		{label: fmt.Sprintf("No job ends; %d jobs, for more GPUs than there are.", p.Asked)},
		count("  placed before the first one waits", func(c document.DemoContender) int { return c.First }),
		of("  GPUs in use in the end, %", func(c document.DemoContender) string {
			return tenth(100 * float64(c.GivenGPUs) / float64(max(1, p.GPUs)))
		}),
		count("  GPUs idle while jobs wait for as many", func(c document.DemoContender) int { return int(c.IdleGPUs) }),
		count("  refusals by kubelets", func(c document.DemoContender) int { return c.Refused }),
		count("  jobs placed in the end", func(c document.DemoContender) int { return c.Placed }),
	}
	for i, size := range p.Sizes {
		rows = append(rows, count(fmt.Sprintf("    of %s, of %d jobs", gpus(size.GPUs), size.Arrived),
			func(c document.DemoContender) int { return c.BySize[i] }))
	}
	rows = append(rows, row{label: fmt.Sprintf("Jobs come and go; %d jobs.", p.ComeAndGo)},
		count("  refusals by kubelets", func(c document.DemoContender) int { return c.RefusedLater }),
		count("  jobs that waited", func(c document.DemoContender) int { return c.Waited }),
		of("  mean wait of all jobs, s", func(c document.DemoContender) string { return tenth(c.MeanWait) }))
	var b strings.Builder
	fmt.Fprintf(&b, "d. %d simulated machines of two sockets with four GPUs each, seed %d.\n\n", p.Machines, p.Seed)
	b.WriteString(table(simulated(), rows))
	b.WriteString("\n")
	for _, text := range explanations(p) {
		b.WriteString(wrap("- "+text, 0))
	}
	return b.String()
}

func gpus(n int64) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// explanations returns what the numbers mean, as sentences. Each is there only if the numbers show it.
func explanations(p *document.DemoPacking) (out []string) {
	tenon := contenderOf(p, sim.Tenon)
	for _, c := range p.Schedulers {
		if text := surplus(p, c, tenon); text != "" {
			out = append(out, text)
			break
		}
	}
	refused, refusedLater := 0, 0
	for _, c := range p.Schedulers {
		refused, refusedLater = refused+c.Refused, refusedLater+c.RefusedLater
	}
	if refused == 0 && refusedLater > 0 {
		out = append(out, "While no job ends, no kubelet refuses one: it takes the first NUMA node with room, so what is "+
			"free lies together. Jobs that end leave gaps on both sockets, and then the sum of a node says too much.")
	}
	match, kube, most := contenderOf(p, sim.Match), contenderOf(p, sim.KubeLeast), contenderOf(p, sim.KubeMost)
	if most.GivenGPUs == tenon.GivenGPUs && most.RefusedLater > 0 {
		out = append(out, "kube-scheduler MostAllocated puts as many GPUs to use as Tenon while no job ends. Later it "+
			"prefers full machines, which have the gaps, and its jobs are refused and wait.")
	}
	if match.GivenGPUs == kube.GivenGPUs {
		out = append(out, "NodeResourceTopologyMatch is a model of scheduler-plugins' plugin. Its filter passes every pod "+
			"on machines with the policy restricted, as here: under single-numa-node no job of 8 GPUs could run.")
	}
	return append(out, "\"kubectl tenon compare --trace gpu\" prints these numbers and more. Jobs: "+p.Source+".")
}

// surplus explains why more jobs are placed in the end under c than under Tenon, and on fewer GPUs. It returns "" if
// that is not so, or if it is not large jobs that c lets wait.
func surplus(p *document.DemoPacking, c, tenon document.DemoContender) string {
	large := len(p.Sizes) - 1
	if c.Placed <= tenon.Placed || c.GivenGPUs >= tenon.GivenGPUs || large < 0 || c.BySize[large] >= tenon.BySize[large] {
		return ""
	}
	return fmt.Sprintf("More jobs in the end are not more work: %s places %d more than Tenon, on %d fewer GPUs. There "+
		"%d more jobs of %s wait, and each leaves room for several small ones.", c.Name, c.Placed-tenon.Placed,
		tenon.GivenGPUs-c.GivenGPUs, tenon.BySize[large]-c.BySize[large], gpus(p.Sizes[large].GPUs))
}
