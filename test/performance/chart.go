package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
)

// line is one curve of the chart: a time for each number of numas, as a multiple of the first time of the
// plain loop.
type line struct {
	name  string
	class string
	numas []int
	times []float64
}

// Sizes of the chart, in pixels.
const (
	chartWidth, chartHeight = 860, 420
	left, right             = 60, 300
	above, below            = 40, 50
)

const style = `text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.guide { stroke: #8c959f; stroke-dasharray: 2 4 }
path { fill: none; stroke-width: 2 }
.plain { stroke: #6e7781 } .a { stroke: #1a7f37 } .b { stroke: #0969da } .c { stroke: #8250df } .d { stroke: #bc4c00 } .e { stroke: #bf3989 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } }
`

// lines are the curves of the growth of answers that are asked again.
func lines(all []result) (out []line) {
	base := all[0].plain
	classes := []string{"a", "b", "c", "d", "e"}
	loop := line{name: "plain loop", class: "plain"}
	for _, r := range all {
		if r.numas > 16 {
			continue
		}
		if r.policy == place.SingleNUMA.String() {
			loop.numas, loop.times = append(loop.numas, r.numas), append(loop.times, r.plain/base)
		}
		name := r.policy + ", " + r.request
		i := slices.IndexFunc(out, func(l line) bool { return l.name == name })
		if i < 0 {
			i = len(out)
			out = append(out, line{name: name, class: classes[i%len(classes)]})
		}
		out[i].numas, out[i].times = append(out[i].numas, r.numas), append(out[i].times, r.again/base)
	}
	return append(out, loop)
}

// drawGrowth draws both axes by doublings: what grows like the number of numas rises as steeply as the
// guide does.
func drawGrowth(all []result) string {
	ls := lines(all)
	low, high := 0.0, 0.0
	for _, l := range ls {
		for _, t := range l.times {
			low, high = min(low, math.Log2(t)), max(high, math.Log2(t))
		}
	}
	low, high = math.Floor(low), math.Ceil(high)
	x := func(numas float64) float64 {
		return left + (math.Log2(numas)-1)/3*(chartWidth-left-right)
	}
	y := func(t float64) float64 {
		return chartHeight - below - (math.Log2(t)-low)/(high-low)*(chartHeight-above-below)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n", chartWidth, chartHeight, style)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"22\">Time of a yes or no, as a multiple of a plain loop over two numas</text>\n", left)
	for e := low; e <= high; e++ {
		t := math.Exp2(e)
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			left, y(t), chartWidth-right, y(t), left-8, y(t)+4, t)
	}
	for _, n := range []int{2, 4, 8, 16} {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d numas</text>\n", x(float64(n)), chartHeight-below+20, n)
	}
	if top := math.Exp2(high); top > 8 {
		fmt.Fprintf(&b, "<line class=\"guide\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/><text x=\"%.1f\" y=\"%.1f\">linear</text>\n",
			x(2), y(top/8), x(16), y(top), x(2)+4, y(top/8)-14)
	}
	for i, l := range ls {
		var path strings.Builder
		for k, t := range l.times {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: " L"}[k == 0], x(float64(l.numas[k])), y(t))
		}
		at := above + 20 + 24*i
		fmt.Fprintf(&b, "<path class=\"%s\" d=\"%s\"/>\n", l.class, path.String())
		fmt.Fprintf(&b, "<path class=\"%s\" d=\"M%d %d h20\"/><text x=\"%d\" y=\"%d\">%s</text>\n", l.class, chartWidth-right+24, at-4, chartWidth-right+52, at, l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
