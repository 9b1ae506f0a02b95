package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

func sample(size synthetic.Size, plain, tenon, peerPlain, peer float64) cell {
	c := cell{size: size}
	for i, cpu := range []float64{plain, tenon, peerPlain, peer} {
		c.results = append(c.results, rounds.Result{Contender: []string{rounds.Plain, rounds.Tenon, rounds.PeerPlain,
			rounds.Peer}[i],
			CPU: cpu * 1e3, Bytes: 123456, Allocations: 7890, Evaluated: 400, Placed: 238, Refused: 2, Memory: 1 << 30,
			Peak: 1 << 31})
	}
	return c
}

// Figures beside each other have the printed ratios, so that readers can check them.
func TestRatiosAreThoseOfTheFigures(t *testing.T) {
	text := pluginTables([]cell{
		sample(synthetic.Size{Nodes: 5000, Full: 50}, 2000, 2100, 1900, 41900),
		sample(synthetic.Size{Nodes: 15000, Full: 95}, 4000, 3000, 3900, 123900),
	})
	for _, want := range []string{
		"| 5000 | 50 % | 1.05 | 22.1 | +100 us | +40000 us |",
		"| 15000 | 95 % | 0.75 | 31.8 | -1000 us | +120000 us |",
		"| 15000 | 95 % | Match | 123900 us | 120.6 KiB | 7890 | 400 | 2 of 240 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if len(strings.TrimSpace(line)) > 100 && strings.HasPrefix(line, "|") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// A contender whose time grows like its cluster has the exponent 1; one that was too slow to be measured has a time,
// and is not drawn.
func TestGrowthIsReported(t *testing.T) {
	p := plot{title: "nodes", unit: "nodes", x: func(s synthetic.Size) int { return s.Nodes }}
	for _, n := range []int{100, 1000, 20000} {
		p.cells = append(p.cells, sample(synthetic.Size{Nodes: n}, float64(n), float64(10*n), 1, 50))
	}
	last := p.cells[2].result(rounds.Peer)
	last.Slow, last.CPU = true, 2.5e9
	text := p.table()
	for _, want := range []string{"| exponent | 1.00 | 1.00 | 0.00 |", "| 2.5 s, not warm |",
		"| 10.00 | 1024, 2048 MiB | 1024, 2048 MiB |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	file := filepath.Join(t.TempDir(), "growth.svg")
	if err := os.WriteFile(file, []byte(drawPlots(p, p)), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := paths(t, file); n != 9 {
		t.Errorf("the chart has %d paths, want three curves twice, and three keys", n)
	}
}
