package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/tenon-numa/tenon/test/bench/section"
)

const performancePage = "performance.md"

// page has all measurements of the core; tables.go takes them.
type page struct {
	one, growth []result
	passes      []pass
	memory      footprint
}

// coreLayer measures the core beside a plain loop.
func coreLayer(ctx context.Context, o options) (found, error) {
	var p page
	var err error
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"one node", func() error { p.one, err = oneNode(o.rounds); return err }},
		{"growth with NUMA nodes", func() error { p.growth, err = growth(o.rounds); return err }},
		{"clusters", func() error { p.passes, err = passes(o.nodes, o.rounds); return err }},
		{"memory", func() error { p.memory, err = memory(o.nodes); return err }},
	} {
		if ctx.Err() != nil {
			return found{}, context.Cause(ctx)
		}
		say("  %s", step.what)
		if err := step.do(); err != nil {
			return found{}, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return found{page: performancePage, tables: []table{{"core", p.text()}},
		charts: map[string]string{"performance.svg": drawGrowth(p.growth)}}, nil
}

// text returns the section "core" of the page as Markdown.
func (p *page) text() string {
	var b strings.Builder
	b.WriteString(section.Where() + "\n\n")
	p.writeOne(&b)
	p.writeGrowth(&b)
	p.writePasses(&b)
	p.writeMemory(&b)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (p *page) writeOne(b *strings.Builder) {
	b.WriteString(`### One node

A node of 8 NUMA nodes with 256 CPUs and 16 GPUs. *Again* is a question that was asked before of such a machine
(` + "`place.Question`" + `, as the index of the ledger and the scheduler ask), *once* is ` + "`place.Fits`" + `, *verdict* is
` + "`place.Place`" + ` with the ids of everything that the pod gets or with the reasons why it does not fit. All are
multiples of the plain loop.

| policy | the pod wants | fits | again | once | verdict | plain loop |
|---|---|---:|---:|---:|---:|---:|
`)
	for _, r := range p.one {
		fmt.Fprintf(b, "| %s | %s | %d %% | %.1f | %.1f | %.0f | %.0f ns |\n", r.policy, r.request, r.fits*100/states,
			r.again/r.plain, r.once/r.plain, r.verdict/r.plain, r.plain)
	}
	b.WriteString("\n")
}

func (p *page) writeGrowth(b *strings.Builder) {
	b.WriteString(`### Growth with NUMA nodes

Machines of 2 to 16 equal NUMA nodes with 16 CPUs each. The pod wants CPUs, memory, hugepages and GPUs of one
NUMA node, or so much that it takes two. Times are those of *again*, as multiples of the plain loop over as many
NUMA nodes. The exponent is that of the growth of the time itself, not of the multiples, from 2 to 16
NUMA nodes: 1 is linear, 2 quadratic.

![Time of a yes or no by the number of NUMA nodes](performance.svg)

| policy | the pod wants | 2 NUMA nodes | 4 | 8 | 16 | exponent |
|---|---|---:|---:|---:|---:|---:|
`)
	// Four results in a row belong to one policy and request, on 2, 4, 8 and 16 NUMA nodes.
	for i := 0; i < len(p.growth); i++ {
		r := p.growth[i]
		if r.numas > 16 {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", r.policy, r.request)
		first := r
		for k := range 4 {
			r = p.growth[i+k]
			fmt.Fprintf(b, " %.1f |", r.again/r.plain)
		}
		fmt.Fprintf(b, " %.1f |\n", math.Log2(r.again/first.again)/3)
		i += 3
	}
	b.WriteString("\nA machine of 36 NUMA nodes, two of which have CPUs and GPUs, and whose memory is not pinned:\n\n" +
		"| policy | again | once | verdict |\n|---|---:|---:|---:|\n")
	for _, r := range p.growth {
		if r.numas > 16 {
			fmt.Fprintf(b, "| %s | %.1f | %.1f | %.0f |\n", r.policy, r.again/r.plain, r.once/r.plain, r.verdict/r.plain)
		}
	}
	b.WriteString("\n")
}

func (p *page) writePasses(b *strings.Builder) {
	b.WriteString(`### Clusters

Where does a pod fit, in a cluster of equal nodes of 8 NUMA nodes from empty to full? *First* asks the
index of the ledger (` + "`ledger.Index`" + `) about a kind of pod for the first time. The next columns ask again,
after no node, one node, or one node in a hundred has changed. *Every node* asks each with ` + "`Node.Fits`" + `.
All are multiples of one plain loop over all nodes.

| nodes | every node | first | nothing changed | one changed | 1 % changed | plain loop | per node |
|---:|---:|---:|---:|---:|---:|---:|---:|
`)
	for _, x := range p.passes {
		fmt.Fprintf(b, "| %d | %.1f | %.1f | %.4f | %.3f | %.2f | %.0f us | %.0f ns |\n", x.nodes, x.nodewise/x.plain,
			x.first/x.plain,
			x.unchanged/x.plain, x.oneChanged/x.plain, x.someChanged/x.plain, x.plain, x.plain*1e3/float64(x.nodes))
	}
	b.WriteString("\n")
}

func (p *page) writeMemory(b *strings.Builder) {
	m := p.memory
	fmt.Fprintf(b, `### Memory

A book of %d nodes of 8 NUMA nodes with 256 CPUs and ten pods each, of ten kinds of machines:

| | |
|---|---:|
| all nodes together | %s |
| a node | %s |
| each pod on it | %s |
| a machine, which equal nodes share | %s |
| the index, for each kind of pod and 1,000 nodes | 125 bytes and a constant |

`, m.nodes, size(m.all), size(m.empty), size(m.perPod), size(m.machine))
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
