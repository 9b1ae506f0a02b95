package ledger_test

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Book two pods on one node before the node has reported either. The second is placed beside the prediction for the
// first. A third pod does not fit, and is not booked.
func ExampleBook_Reserve() {
	m, err := topo.ParseMachine(`
		numa 0 cpus 0-7 memory 32Gi
		numa 1 cpus 8-15 memory 32Gi
	`)
	if err != nil {
		panic(err)
	}
	book := ledger.New()
	book.Report("node-a", state.Layout{Machine: m, Rules: place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)},
	}})

	pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "main", MilliCPU: 6000}}}
	for _, name := range []string{"first", "second", "third"} {
		id := state.PodID{UID: "uid-" + name, Namespace: "default", Name: name}
		verdict, _ := book.Reserve("node-a", id, pod, place.Demand{})
		fmt.Println(name, verdict.Text(m))
	}
	for _, entry := range book.Snapshot().Node("node-a").Entries {
		fmt.Println("booked:", entry.Pod.Name, entry.Holdings[0].CPUs)
	}
	// Output:
	// first fits: main: CPUs 1-6
	// second fits: main: CPUs 9-14
	// third does not fit (TopologyAffinityError): cannot align container "main" (wants 6 cpu; node has 2 free)
	// booked: first 1-6
	// booked: second 9-14
}
