package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/section"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// cell has the contenders' results on one cluster.
type cell struct {
	size    synthetic.Size
	results []rounds.Result
}

// result returns the result of a contender, or nil if it was not measured.
func (c cell) result(name string) *rounds.Result {
	for i := range c.results {
		if c.results[i].Contender == name {
			return &c.results[i]
		}
	}
	return nil
}

// turns returns the options with which contenders are measured on a cluster of this size.
func turns(size synthetic.Size) rounds.Options {
	return rounds.Options{Size: size, Seed: 1, Rounds: 15, Blocks: 2, Enough: 15 * time.Second, Slow: time.Second}
}

// contend measures the named contenders on clusters of the given sizes, one cell for each size. It builds the
// contenders' programs, and removes them afterwards.
func contend(ctx context.Context, names []string, sizes []synthetic.Size) (out []cell, err error) {
	dir, err := os.MkdirTemp("", "tenon-contenders-")
	if err != nil {
		return nil, fmt.Errorf("folder of programs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	say("  build the contenders, which takes minutes the first time")
	all, err := rounds.Contenders(ctx, dir)
	if err != nil {
		return nil, err
	}
	var chosen []rounds.Contender
	for _, name := range names {
		for _, c := range all {
			if c.Name == name {
				chosen = append(chosen, c)
			}
		}
	}
	for _, size := range sizes {
		say("  %d nodes, %d %% full", size.Nodes, size.Full)
		results, err := rounds.Measure(ctx, chosen, turns(size), os.Stderr)
		if err != nil {
			return nil, err
		}
		out = append(out, cell{size, results})
	}
	return out, nil
}

func pluginLayer(ctx context.Context, o options) (found, error) {
	var sizes []synthetic.Size
	for _, nodes := range []int{500, 5000, 15000} {
		for _, full := range []int{50, 95} {
			if nodes <= o.nodes {
				sizes = append(sizes, synthetic.Size{Nodes: nodes, Full: full})
			}
		}
	}
	cells, err := contend(ctx, []string{rounds.Plain, rounds.Tenon, rounds.PeerPlain, rounds.Peer}, sizes)
	if err != nil {
		return found{}, err
	}
	return found{page: performancePage, tables: []table{{"plugin", pluginTables(cells)}}}, nil
}

// pluginTables returns the ratios first, then the measurements.
func pluginTables(cells []cell) string {
	var b strings.Builder
	b.WriteString(section.Where() + "\n\n")
	b.WriteString("| nodes | full | Tenon / plain | Match / plain | Tenon adds | Match adds |\n" +
		"|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range cells {
		plain, tenon := c.result(rounds.Plain), c.result(rounds.Tenon)
		peerPlain, peer := c.result(rounds.PeerPlain), c.result(rounds.Peer)
		if plain == nil || tenon == nil || peerPlain == nil || peer == nil {
			continue
		}
		added, peerAdded := tenon.CPU-plain.CPU, peer.CPU-peerPlain.CPU
		fmt.Fprintf(&b, "| %d | %d %% | %.2f | %.1f | %+.0f us | %+.0f us |\n", c.size.Nodes, c.size.Full,
			tenon.CPU/plain.CPU, peer.CPU/peerPlain.CPU, added/1e3, peerAdded/1e3)
	}
	b.WriteString("\n| nodes | full | scheduler | CPU of a pod | allocated | allocations | filtered | refused |\n" +
		"|---:|---:|---|---:|---:|---:|---:|---:|\n")
	for _, c := range cells {
		for _, r := range c.results {
			fmt.Fprintf(&b, "| %d | %d %% | %s | %.0f us | %s | %.0f | %.0f | %d of %d |\n", c.size.Nodes, c.size.Full,
				brief(r.Contender),
				r.CPU/1e3, size(int64(r.Bytes)), r.Allocations, r.Evaluated, r.Refused, r.Placed+r.Refused)
		}
	}
	return b.String()
}

// brief returns a contender's name for a table.
func brief(contender string) string {
	if contender == rounds.Peer {
		return "Match"
	}
	return contender
}

// wholeLayer runs a separate program, because whole clusters need an API server, which this program does not link.
// That program prints and writes its results by itself.
func wholeLayer(ctx context.Context, o options) (found, error) {
	page := ""
	if o.docs {
		page = o.dir + "/" + performancePage
	}
	return found{}, command(ctx, "go", "run", "./test/bench/whole/run", "-page", page)
}
