// Package place computes what a Kubernetes node does with a pod: the CPUs, memory blocks and devices that each
// container gets, or why the kubelet refuses the pod.
//
// The kubelet is deterministic, so its answer can be computed instead of guessed. [Place] takes a [Usage], which is a
// machine with its kubelet's rules and all holdings on it, and a [Pod]. It returns a [Verdict]:
//
//	machine, err := topo.ParseMachine("numa 0 cpus 0-7 memory 32Gi\nnuma 1 cpus 8-15 memory 32Gi\n")
//	node := place.NewUsage(machine, place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}})
//	verdict := place.Place(node, pod)           // pod by package api/pod, or by hand
//	fmt.Println(verdict.Text(machine))          // what each container gets, or why the pod does not fit
//	node = node.Hold(verdict.Holdings...)       // the node once the pod runs there
//
// To ask only whether a pod fits, use [Fits], or a [Question] for many nodes. To apply what a pod itself demands of
// its placement ([Demand]), pass the verdict to [Judge]. Kinds and codes have Kubernetes' names where Kubernetes has
// one.
//
// # Units and names
//
// CPU requests are thousandths of a CPU, memory is bytes, devices are pieces. A NUMA node has an id, which may be any
// number (0, 8, 250), and a position among the NUMA nodes of its machine. [topo.Mask], and every int that selects a
// NUMA node in a method of Usage, is a position. [topo.Machine.IDs] and the Text methods turn positions into ids.
//
// # Contracts
//
// The same arguments give the same result, on every machine and in every run. No function changes or keeps an
// argument, with two exceptions: a Usage keeps its Machine and its Rules, and a Question keeps its Pod. The caller
// must not change these any more. A Usage never changes, so any number of goroutines may use it; a Question belongs
// to one goroutine.
//
// Arguments must be valid: [Pod.Validate], [Rules.Validate] and [Demand.Validate] check that. Values of packages
// api/pod and api/v1alpha1 are valid. "Does not fit" is a verdict with reasons, never an error, and a [Reason] is data:
// its Text is for people. The work of one verdict is bounded; beyond the bound the pod is refused as [TooComplex].
//
// The package has no access to clusters, clocks, files or logs.
//
// # Where the rules come from
//
// The package models the contract of the kubelet's topology, CPU, memory and device managers (pkg/kubelet/cm of the
// releases from [OldestRelease] to [NewestRelease]). It contains none of their code. A topology policy is a row of a
// table; a resource has a hint set, the NUMA masks that can serve it. Comments name the file of the kubelet behind each
// rule. The differential test in lab/kubelet runs the kubelet's own managers beside this package, on random machines,
// configurations and pods, and compares every id. docs/design/kubelet.md describes the rules.
//
// # Stability
//
// The exported names of module core and of module api/pod follow semantic versions from v0.1.0: while the major version
// is 0, an incompatible change raises the minor version and is listed in the change log. These may change in any
// version: the wording of Text and String, the result of [Pod.Shape], which is for comparison within one process, and
// package scenario. Codes of reasons, hazards and refusals are stable; programs must expect new ones. A verdict changes
// only where the kubelet turns out to decide otherwise.
package place
