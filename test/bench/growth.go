package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/section"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// grower is a contender whose growth is drawn, with the CSS class of its colour.
type grower struct{ name, class string }

var growers = [...]grower{{rounds.Plain, "plain"}, {rounds.Tenon, "a"}, {rounds.Peer, "d"}}

// largest is the size of the largest cluster, in nodes. Only kube-scheduler and Tenon are measured on it, because
// NodeResourceTopologyMatch would take hours.
const largest = 100_000

// growthLayer measures clusters whose CPUs are half taken: first with more and more nodes, then with more and more
// NUMA nodes per machine.
func growthLayer(ctx context.Context, o options) (found, error) {
	if o.alone {
		return aloneLayer(ctx, o.nodes, o.full)
	}
	var sizes []synthetic.Size
	for _, n := range []int{100, 1000, 5000, 20000} {
		if n <= o.nodes {
			sizes = append(sizes, synthetic.Size{Nodes: n, Full: 50})
		}
	}
	byNodes := len(sizes)
	for _, n := range []int{2, 4, 8, 16, 36} {
		sizes = append(sizes, synthetic.Size{Nodes: min(1000, o.nodes), Full: 50, NUMAs: n})
	}
	var names []string
	for _, g := range growers {
		names = append(names, g.name)
	}
	cells, err := contend(ctx, names, sizes)
	if err != nil {
		return found{}, err
	}
	if o.nodes >= largest {
		huge, err := contend(ctx, []string{rounds.Plain, rounds.Tenon}, []synthetic.Size{{Nodes: largest, Full: 50}})
		if err != nil {
			return found{}, err
		}
		cells = slices.Insert(cells, byNodes, huge...)
		byNodes += len(huge)
	}
	nodes := plot{title: "nodes", unit: "nodes", cells: cells[:byNodes], x: func(s synthetic.Size) int { return s.Nodes }}
	numas := plot{title: "NUMA nodes of 1,000 nodes", unit: "NUMA nodes", cells: cells[byNodes:],
		x: func(s synthetic.Size) int { return s.NUMAs }}
	text := section.Where() + "\n\n" +
		"![CPU time of a pod by the number of nodes and of NUMA nodes](performance-growth.svg)\n\n" +
		nodes.table() + "\n" + numas.table()
	return found{page: performancePage, tables: []table{{"growth", text}},
		charts: map[string]string{"performance-growth.svg": drawPlots(nodes, numas)}}, nil
}

// aloneLayer measures one cluster, full to some percent of its CPUs, without NodeResourceTopologyMatch.
func aloneLayer(ctx context.Context, nodes, full int) (found, error) {
	cells, err := contend(ctx, []string{rounds.Plain, rounds.Tenon}, []synthetic.Size{{Nodes: nodes, Full: full}})
	if err != nil {
		return found{}, err
	}
	p := plot{title: "nodes", unit: "nodes", cells: cells, x: func(s synthetic.Size) int { return s.Nodes }}
	return found{page: performancePage, tables: []table{{"alone", section.Where() + "\n\n" + p.table()}}}, nil
}

// plot is one part of the chart and one table: how the contenders' CPU time per pod grows with one number of a
// cluster.
type plot struct {
	title, unit string
	cells       []cell                   // in ascending order of x
	x           func(synthetic.Size) int // the number that grows
}

// exponent returns the exponent of a contender's growth between its first and its last measurement: 1 is linear. It
// returns false if fewer than two clusters were measured beyond the warm-up.
func (p plot) exponent(name string) (float64, bool) {
	var xs, ys []float64
	for _, c := range p.cells {
		if r := c.result(name); r != nil && !r.Slow {
			xs, ys = append(xs, float64(p.x(c.size))), append(ys, r.CPU)
		}
	}
	if len(xs) < 2 {
		return 0, false
	}
	last := len(xs) - 1
	return math.Log(ys[last]/ys[0]) / math.Log(xs[last]/xs[0]), true
}

func (p plot) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s", p.unit)
	for _, g := range growers {
		fmt.Fprintf(&b, " | %s", brief(g.name))
	}
	b.WriteString(" | Tenon / plain | memory, plain | memory, Tenon |\n|---:" + strings.Repeat("|---:", len(growers)+3) +
		"|\n")
	for _, c := range p.cells {
		fmt.Fprintf(&b, "| %d", p.x(c.size))
		for _, g := range growers {
			r := c.result(g.name)
			switch {
			case r == nil:
				b.WriteString(" | ")
			case r.Slow:
				fmt.Fprintf(&b, " | %.1f s, not warm", r.CPU/1e9)
			default:
				fmt.Fprintf(&b, " | %.0f us", r.CPU/1e3)
			}
		}
		plain, tenon := c.result(rounds.Plain), c.result(rounds.Tenon)
		fmt.Fprintf(&b, " | %.2f | %s | %s |\n", tenon.CPU/plain.CPU, memories(plain), memories(tenon))
	}
	b.WriteString("| exponent")
	for _, g := range growers {
		if e, ok := p.exponent(g.name); ok {
			fmt.Fprintf(&b, " | %.2f", e)
		} else {
			b.WriteString(" | ")
		}
	}
	return b.String() + " | | | |\n"
}

// memories returns a contender's memory and its peak, as text in MiB.
func memories(r *rounds.Result) string { return fmt.Sprintf("%d, %d MiB", r.Memory>>20, r.Peak>>20) }

// curves returns the contenders' times in microseconds.
func (p plot) curves() (out []line) {
	for _, g := range growers {
		l := line{name: brief(g.name), class: g.class}
		for _, c := range p.cells {
			if r := c.result(g.name); r != nil && !r.Slow {
				l.sizes, l.times = append(l.sizes, p.x(c.size)), append(l.times, r.CPU/1e3)
			}
		}
		if len(l.sizes) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// drawPlots returns one SVG with the plots beside each other.
func drawPlots(plots ...plot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n",
		len(plots)*plotWidth+keyWidth, chartHeight, style)
	fmt.Fprintf(&b,
		"<text class=\"title\" x=\"%d\" y=\"22\">CPU time of a pod's scheduling cycle in us, half full</text>\n", left)
	for i, p := range plots {
		ls := p.curves()
		if len(ls) == 0 {
			continue
		}
		f := frameOf(ls, i*plotWidth+left, plotWidth-left-20)
		f.grid(&b)
		for _, c := range p.cells {
			x := p.x(c.size)
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", f.x(float64(x)),
				chartHeight-marginBottom+20, x)
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", f.from, chartHeight-10, p.title)
		f.draw(&b, ls)
	}
	if len(plots) > 0 {
		drawLegend(&b, plots[0].curves(), len(plots)*plotWidth+10)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// Sizes of the chart of growths, in pixels.
const plotWidth, keyWidth = 400, 180

// command runs another program with this program's output streams, and waits for its end.
func command(ctx context.Context, words ...string) error {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(slices.Clip(words), " "), err)
	}
	return nil
}
