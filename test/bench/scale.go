package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/test/bench/section"
)

// shownDemands are the clusters for which the page shows the load. Readers compute the load of other clusters from
// the sizes.
var shownDemands = [...]demand{{5000, 100}, {20000, 400}}

// scaleLayer measures what nodes write. Only the tables of its page are generated.
func scaleLayer(_ context.Context, o options) (found, error) {
	all, err := weigh(o.rounds)
	if err != nil {
		return found{}, err
	}
	return found{page: "scale.md", tables: append(sizeTables(all), table{"times", timeTable(all)})}, nil
}

// write puts new tables between the marks of a page.
func write(path string, tables []table) error {
	for _, t := range tables {
		if err := section.Write(path, t.name, t.text); err != nil {
			return err
		}
	}
	return nil
}

// table is a generated part of a page.
type table struct{ name, text string }

// sizeTables returns the tables that depend only on the code: every run gives the same.
func sizeTables(all []weight) (out []table) {
	out = append(out, table{"sizes", sizes(all)})
	var b strings.Builder
	for i, d := range shownDemands {
		if i > 0 {
			b.WriteString("\n")
		}
		d.table(&b, all)
	}
	return append(out, table{"load", b.String()})
}

func sizes(all []weight) string {
	var b strings.Builder
	b.WriteString(`| CPUs, NUMA nodes | pods | object | sent | in etcd | managedFields | event | event of metadata |
|---|---:|---|---:|---:|---:|---:|---:|
`)
	for _, w := range all {
		for _, o := range []struct {
			name string
			wire
		}{{"LayoutBase", w.base}, {"NodeLayout", w.change}, {"NodeResourceTopology", w.topology}} {
			fmt.Fprintf(&b, "| %d, %d | %d | %s | %d | %d | %d | %d | %d |\n", w.cpus(), w.numas, w.pods, o.name, o.apply,
				o.stored, o.managed, o.event, o.meta)
		}
	}
	return b.String()
}

func timeTable(all []weight) string {
	var b strings.Builder
	b.WriteString(section.Where() + "\n\n")
	b.WriteString("| CPUs, NUMA nodes | pods | agent: to JSON | scheduler: from JSON | " +
		"its CPUs at 200 events/s |\n|---|---:|---:|---:|---:|\n")
	for _, w := range all {
		l := shownDemands[0].load(w)
		fmt.Fprintf(&b, "| %d, %d | %d | %.0f us | %.0f us | %.2f |\n", w.cpus(), w.numas, w.pods, w.encode/1e3,
			w.decode/1e3, l.decoding)
	}
	return b.String()
}

// table writes a table of loads with one column for each weight, in which all nodes of the cluster have that weight.
func (d demand) table(b *strings.Builder, all []weight) {
	fmt.Fprintf(b, "%d nodes, %.0f pods/s start and as many end:\n\n| every node has", d.nodes, d.churn)
	var loads []load
	for _, w := range all {
		if w.pods > 0 {
			fmt.Fprintf(b, " | %d CPUs, %d pods", w.cpus(), w.pods)
			loads = append(loads, d.load(w))
		}
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---:", len(loads)) + "|\n")
	for _, r := range []struct {
		name string
		cell func(load) string
	}{
		{"writes of layouts, and as many of topologies", func(l load) string { return fmt.Sprintf("%.0f /s", l.writes) }},
		{"writes of bases", func(l load) string { return fmt.Sprintf("%.0f /s", l.bases) }},
		{"agents send", func(l load) string { return rate(l.sent) }},
		{"etcd writes: layouts and bases", func(l load) string { return rate(l.layouts) }},
		{"etcd writes: topologies", func(l load) string { return rate(l.topologies) }},
		{"one scheduler gets", func(l load) string { return rate(l.watcher) }},
		{"all agents get of what they published", func(l load) string { return rate(l.own) }},
		{"agents read layouts and bases from etcd", func(l load) string { return fmt.Sprintf("%.0f /s", l.reads) }},
		{"bytes of these", func(l load) string { return rate(l.read) }},
		{"in etcd, current", func(l load) string { return megabytes(l.objects) }},
		{"in etcd, with at most 10 minutes of history", func(l load) string { return megabytes(l.withHistory) }},
	} {
		fmt.Fprintf(b, "| %s", r.name)
		for _, l := range loads {
			fmt.Fprintf(b, " | %s", r.cell(l))
		}
		b.WriteString(" |\n")
	}
}

func rate(bytes float64) string { return fmt.Sprintf("%.1f MB/s", bytes/1e6) }

func megabytes(bytes float64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.0f MB", bytes/1e6)
	}
	return fmt.Sprintf("%.1f GB", bytes/1e9)
}
