// Package wire has the messages between a program with a scheduler and the program that measures it: JSON, one line
// each, by standard input and output.
//
// Invariant: each round is answered by one outcome, in order. The package has no code, so that programs built with
// other versions of Kubernetes can import it, too.
package wire

import v1 "k8s.io/api/core/v1"

// Round requests nodes for some pods, one pod after the other. Afterwards all placed pods but the latest Keep are
// removed.
type Round struct {
	Pods []*v1.Pod `json:"pods"`
	Keep int       `json:"keep"`
	// Settle makes the program return unneeded memory after the round.
	Settle bool `json:"settle,omitempty"`
}

// Outcome is the result of a round, and its cost.
type Outcome struct {
	// CPU is the time of all CPUs for the program from the first pod's start to the last one's placement, in
	// nanoseconds.
	CPU int64 `json:"cpu"`
	// Wall is the elapsed time, in nanoseconds.
	Wall int64 `json:"wall"`
	// Bytes and Allocations were allocated meanwhile.
	Bytes       uint64 `json:"bytes"`
	Allocations uint64 `json:"allocations"`
	// Evaluated is the number of filtered nodes, for all pods together.
	Evaluated int     `json:"evaluated"`
	Places    []Place `json:"places"`
	// Memory is the memory of the program at the end, in bytes, Peak the most that it had.
	Memory int64 `json:"memory"`
	Peak   int64 `json:"peak"`
}

// Place is where a pod was placed. Node is "" if it fitted nowhere, and Why then has the reason.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why,omitempty"`
}
