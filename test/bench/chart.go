package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
)

// line is one curve of a chart: a time for each size. The chart decides the units of both.
type line struct {
	name  string
	class string // CSS class, for the colour
	sizes []int
	times []float64
}

// Sizes of the chart, in pixels.
const (
	chartWidth, chartHeight = 860, 420
	left, right             = 60, 300
	marginTop, marginBottom = 40, 50
)

const style = `text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.guide { stroke: #8c959f; stroke-dasharray: 2 4 }
path { fill: none; stroke-width: 2 }
.plain { stroke: #6e7781 } .a { stroke: #1a7f37 } .b { stroke: #0969da } .c { stroke: #8250df } .d { stroke: #bc4c00 } .e { stroke: #bf3989 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } }
`

// lines returns one curve for each policy and request, with the times of the prepared question ("again"), and the
// curve of the plain loop. The unit of all times is the first result's plain loop. Machines of more than 16 NUMA
// nodes are left out.
func lines(all []result) (out []line) {
	base := all[0].plain
	classes := []string{"a", "b", "c", "d", "e"}
	loop := line{name: "plain loop", class: "plain"}
	for _, r := range all {
		if r.numas > 16 {
			continue
		}
		if r.policy == place.SingleNUMA.String() {
			loop.sizes, loop.times = append(loop.sizes, r.numas), append(loop.times, r.plain/base)
		}
		name := r.policy + ", " + r.request
		i := slices.IndexFunc(out, func(l line) bool { return l.name == name })
		if i < 0 {
			i = len(out)
			out = append(out, line{name: name, class: classes[i%len(classes)]})
		}
		out[i].sizes, out[i].times = append(out[i].sizes, r.numas), append(out[i].times, r.again/base)
	}
	return append(out, loop)
}

// frame is where curves are drawn. Both axes are logarithmic, so that linear growth has the same slope everywhere.
// smallest and largest are the sizes at the left and the right edge. low and high are the base-2 logarithms of the
// times at the lower and the upper edge.
type frame struct {
	from, width                  int // pixels: the left edge, and the width
	smallest, largest, low, high float64
}

func frameOf(ls []line, from, width int) frame {
	f := frame{from: from, width: width, smallest: math.Inf(1), low: math.Inf(1), high: math.Inf(-1)}
	for _, l := range ls {
		for k, t := range l.times {
			f.smallest, f.largest = min(f.smallest, float64(l.sizes[k])), max(f.largest, float64(l.sizes[k]))
			f.low, f.high = min(f.low, math.Log2(t)), max(f.high, math.Log2(t))
		}
	}
	f.low, f.high = math.Floor(f.low), math.Ceil(f.high)
	f.high = max(f.high, f.low+1)
	return f
}

func (f frame) x(size float64) float64 {
	if f.largest <= f.smallest {
		return float64(f.from)
	}
	return float64(f.from) + math.Log2(size/f.smallest)/math.Log2(f.largest/f.smallest)*float64(f.width)
}

func (f frame) y(t float64) float64 {
	return chartHeight - marginBottom - (math.Log2(t)-f.low)/(f.high-f.low)*(chartHeight-marginTop-marginBottom)
}

func (f frame) grid(b *strings.Builder) {
	for e := f.low; e <= f.high; e++ {
		t := math.Exp2(e)
		fmt.Fprintf(b, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "+
			"text-anchor=\"end\">%g</text>\n",
			f.from, f.y(t), f.from+f.width, f.y(t), f.from-8, f.y(t)+4, t)
	}
}

func (f frame) draw(b *strings.Builder, ls []line) {
	for _, l := range ls {
		var path strings.Builder
		for k, t := range l.times {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: " L"}[k == 0],
				f.x(float64(l.sizes[k])), f.y(t))
		}
		fmt.Fprintf(b, "<path class=\"%s\" d=\"%s\"/>\n", l.class, path.String())
	}
}

// drawLegend draws the legend.
func drawLegend(b *strings.Builder, ls []line, from int) {
	for i, l := range ls {
		at := marginTop + 20 + 24*i
		fmt.Fprintf(b, "<path class=\"%s\" d=\"M%d %d h20\"/><text x=\"%d\" y=\"%d\">%s</text>\n", l.class, from, at-4,
			from+28, at, l.name)
	}
}

// drawGrowth draws how the times of the core's answers grow with NUMA nodes.
func drawGrowth(all []result) string {
	ls := lines(all)
	f := frameOf(ls, left, chartWidth-left-right)
	f.low = min(f.low, 0)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n",
		chartWidth, chartHeight, style)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"22\">Time of a yes or no, as a multiple of a plain loop over "+
		"two NUMA nodes</text>\n", left)
	f.grid(&b)
	for _, n := range []int{2, 4, 8, 16} {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d NUMA nodes</text>\n", f.x(float64(n)),
			chartHeight-marginBottom+20, n)
	}
	if top := math.Exp2(f.high); top > 8 {
		fmt.Fprintf(&b,
			"<line class=\"guide\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/><text x=\"%.1f\" y=\"%.1f\">linear</text>\n",
			f.x(2), f.y(top/8), f.x(16), f.y(top), f.x(2)+4, f.y(top/8)-14)
	}
	f.draw(&b, ls)
	drawLegend(&b, ls, chartWidth-right+24)
	b.WriteString("</svg>\n")
	return b.String()
}
