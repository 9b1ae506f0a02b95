package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
)

// packingMachines is the number of simulated machines.
const packingMachines = 2000

// packingSchedulers are the compared schedulers: their names in core/sim, and their names in the output.
var packingSchedulers = []struct{ name, shown string }{{"blind", byDefault}, {"Tenon", byTenon}}

// packing plays the act about many machines, as a simulation. Jobs of one to eight GPUs arrive until all GPUs are
// requested, and none of them ends.
func packing(ctx context.Context, seed uint64, progress func(string)) (*document.DemoPacking, error) {
	text, _ := sim.Text("gpu")
	script, err := sim.Parse("gpu", strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	trace, err := script.Trace(packingMachines, seed)
	if err != nil {
		return nil, err
	}
	out := &document.DemoPacking{Source: script.Source, Machines: trace.Machines(), Seed: seed}
	contenders := sim.Contenders()
	for _, c := range packingSchedulers {
		at := slices.IndexFunc(contenders, func(k sim.Contender) bool { return k.Name == c.name })
		if at < 0 {
			return nil, fmt.Errorf("simulate: no scheduler %q", c.name)
		}
		t, err := sim.Run(trace, contenders[at], sim.Options{Seed: seed, Stay: true,
			Progress: func(int, int) error { return ctx.Err() }})
		if err != nil {
			return nil, err
		}
		progress(fmt.Sprintf("%d simulated machines, %s scheduler: %d pods before the first one waits", out.Machines,
			c.shown, t.First))
		out.Asked = t.Pods
		out.Schedulers = append(out.Schedulers, document.DemoContender{Name: c.shown, First: t.First, Placed: t.Placed,
			Refused: t.Refused, GPUs: t.Capacity, IdleGPUs: t.Wanted})
	}
	return out, nil
}
