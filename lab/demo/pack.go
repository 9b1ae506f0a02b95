package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
)

// packingMachines is the number of simulated machines: as many as "kubectl tenon compare --trace gpu" has, so that both
// give the same numbers.
const packingMachines = 400

// packing plays the act about many machines, as a simulation: jobs of one to eight GPUs arrive. In one
// run none of them ends, and they request more GPUs than there are; in the other they come and go.
func packing(ctx context.Context, seed uint64, machines int, progress func(string)) (*document.DemoPacking, error) {
	text, _ := sim.Text("gpu")
	script, err := sim.Parse("gpu", strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	progress(fmt.Sprintf("%d simulated machines under four schedulers", machines))
	found, err := sim.Compare(script, sim.Settings{Machines: machines, Seed: seed, Runs: 1,
		Only:     simulated(),
		Progress: func(sim.Progress) error { return ctx.Err() }})
	if err != nil {
		return nil, err
	}
	out := &document.DemoPacking{Source: found.Source, Machines: found.Machines, Seed: seed, Asked: found.Asked,
		ComeAndGo: found.Pods}
	for i, n := range found.Requests {
		out.Sizes = append(out.Sizes, document.DemoSize{GPUs: n, Arrived: found.Arrived[i]})
	}
	for _, c := range found.Columns {
		out.GPUs = c.Stay.Capacity
		out.Schedulers = append(out.Schedulers, document.DemoContender{Name: c.Contender,
			First: c.Stay.First, Placed: c.Stay.Placed, BySize: c.Placed, GivenGPUs: c.Stay.Given, IdleGPUs: c.Stay.Wanted,
			Refused: c.Stay.Refused, RefusedLater: c.Churn.Refused, Waited: c.Churn.Pods - c.Churn.AtOnce,
			MeanWait: float64(c.Churn.Wait) / float64(max(1, c.Churn.Pods))})
	}
	order := simulated()
	slices.SortFunc(out.Schedulers, func(a, b document.DemoContender) int {
		return slices.Index(order, a.Name) - slices.Index(order, b.Name)
	})
	return out, nil
}

// simulated returns the schedulers that are simulated, in the order of the output.
func simulated() []string { return []string{sim.KubeLeast, sim.KubeMost, sim.Match, sim.Tenon} }
