package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Workload is one workload of a test case.
type Workload struct {
	// Topic is the folder of the test case below upstream's scheduler_perf, or NUMA for this package's own.
	Topic string
	// Case and Name are upstream's names of the test case and its workload.
	Case, Name string
	// Set replaces parameters of the workload.
	Set map[string]int
	// Short workloads are measured if the command names none.
	Short bool
}

// NUMA is the topic of the workloads in the folder numa: nodes with layouts, half full.
const NUMA = "numa"

// sizeParams sets the parameters that most workloads have.
func sizeParams(nodes, pods int) map[string]int {
	return map[string]int{"initNodes": nodes, "measurePods": pods}
}

// Workloads are the workloads that [Choose] selects from. The sizes are such that a run takes at most some minutes on
// two CPUs.
var Workloads = []Workload{
	{Topic: "misc", Case: "SchedulingBasic", Name: "500Nodes", Set: sizeParams(1000, 2000), Short: true},
	{Topic: "misc", Case: "SchedulingBasic", Name: "5000Nodes_10000Pods"},
	{Topic: "misc", Case: "SchedulingDaemonset", Name: "15000Nodes", Set: sizeParams(1000, 3000)},
	{Topic: "misc", Case: "SchedulingWithMixedChurn", Name: "1000Nodes", Set: sizeParams(1000, 2000), Short: true},
	{Topic: "misc", Case: "SchedulingDeletedPodsWithFinalizers", Name: "1000Node_1000DeletingPods"},
	{Topic: "affinity", Case: "SchedulingPodAntiAffinity", Name: "500Nodes", Set: sizeParams(2000, 1500)},
	{Topic: "affinity", Case: "SchedulingPodAffinity", Name: "500Nodes", Short: true},
	{Topic: "affinity", Case: "SchedulingPreferredPodAffinity", Name: "500Nodes", Set: sizeParams(500, 2000)},
	{Topic: "affinity", Case: "SchedulingNodeAffinity", Name: "500Nodes", Set: sizeParams(1000, 3000)},
	{Topic: "affinity", Case: "MixedSchedulingBasePod", Name: "500Nodes", Set: sizeParams(500, 2000)},
	{Topic: "topology_spreading", Case: "TopologySpreading", Name: "500Nodes", Set: sizeParams(1000, 2000),
		Short: true},
	{Topic: "topology_spreading", Case: "PreferredTopologySpreading", Name: "500Nodes", Set: sizeParams(1000, 2000)},
	{Topic: "volumes", Case: "SchedulingCSIPVs", Name: "500Nodes"},
	{Topic: "default_preemption", Case: "PreemptionBasic", Name: "1000Nodes"},
	{Topic: "default_preemption", Case: "PreemptionBasic", Name: "1000Nodes_AsyncAPICallsEnabled"},
	{Topic: "default_preemption", Case: "PreemptionAsync", Name: "500Nodes", Short: true,
		Set: map[string]int{"initNodes": 500, "initPods": 2000, "measurePods": 1500}},
	{Topic: "default_preemption", Case: "Unschedulable", Name: "500Nodes/10Init/1kPods", Set: sizeParams(500, 2000)},
	{Topic: "dra", Case: "SchedulingWithResourceClaimTemplate", Name: "2000pods_200nodes", Short: true},
	{Topic: "dra", Case: "SchedulingWithResourceClaim", Name: "2000pods_200nodes"},
	{Topic: "dra/extendedresource", Case: "ExtendedResource", Name: "Implicit_25classes_2000pods_200nodes"},
	{Topic: "podgroup/basicscheduling", Case: "BasicScheduling", Name: "100Nodes_10Groups",
		Set: map[string]int{"initNodes": 1000, "initPodGroups": 700}},
	{Topic: "podgroup/gangscheduling", Case: "GangScheduling", Name: "100Nodes_10Gangs",
		Set: map[string]int{"initNodes": 1000, "initPodGroups": 700}, Short: true},
	{Topic: "workload_preemption", Case: "GangPreemptionBasic",
		Name: "100Nodes_10PreemptorGangs_10Pods_Evicting_1000InitPods"},
	{Topic: "event_handling", Case: "EventHandlingPodDelete", Name: "50Nodes_500Pods"},
	{Topic: "batching", Case: "ResourceSaturation", Name: "20000Nodes_20000Pods_100BatchSize",
		Set: sizeParams(3000, 3000)},
	{Topic: NUMA, Case: "NUMAGuaranteed", Name: "500Nodes", Short: true},
	{Topic: NUMA, Case: "NUMAGuaranteed", Name: "1000Nodes"},
	{Topic: NUMA, Case: "NUMAMixed", Name: "500Nodes"},
	{Topic: NUMA, Case: "NUMAMixed", Name: "1000Nodes"},
	{Topic: NUMA, Case: "NUMAShared", Name: "1000Nodes"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "100Nodes_Of8"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "100Nodes_Of64"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "1000Nodes_Of8"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "1000Nodes_Of64"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "5000Nodes_Of8"},
	{Topic: NUMA, Case: "NUMAGangs", Name: "5000Nodes_Of64"},
}

// size returns the size of the workload: its name, or the parameters that replace the workload's own.
func (w Workload) size() string {
	if len(w.Set) == 0 {
		return w.Name
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(w.Set)) {
		out = append(out, fmt.Sprintf("%s=%d", k, w.Set[k]))
	}
	return strings.Join(out, " ")
}

// folder returns a name for a folder of the workload.
func (w Workload) folder() string {
	return strings.NewReplacer("/", "-", " ", "-", "=", "-").Replace(w.Topic + " " + w.String())
}

func (w Workload) String() string { return w.Case + " " + w.size() }

// Choose returns the workloads that words name: "short", "all", a topic, a test case of the list, or
// TOPIC:CASE:WORKLOAD for any workload of upstream.
func Choose(words []string) (out []Workload, err error) {
	for _, word := range words {
		if parts := strings.Split(word, ":"); len(parts) == 3 {
			out = append(out, Workload{Topic: parts[0], Case: parts[1], Name: parts[2]})
			continue
		}
		before := len(out)
		for _, w := range Workloads {
			if word == "all" || word == w.Topic || word == w.Case || word == "short" && w.Short {
				out = append(out, w)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("no workload %q: want short, all, a topic, a test case, or TOPIC:CASE:WORKLOAD", word)
		}
	}
	return out, nil
}
