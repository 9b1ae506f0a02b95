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
	// CPU is the program's CPU time from the start of the first pod's cycle to the placement of the last pod, in
	// nanoseconds.
	CPU int64 `json:"cpu"`
	// Wall is the elapsed time of the same interval, in nanoseconds.
	Wall int64 `json:"wall"`
	// Bytes and Allocations count what was allocated in this interval.
	Bytes       uint64 `json:"bytes"`
	Allocations uint64 `json:"allocations"`
	// Evaluated is the number of filtered nodes, for all pods together.
	Evaluated int     `json:"evaluated"`
	Places    []Place `json:"places"`
	// Memory is the resident memory of the program at the end, and Peak the most that it ever had, both in bytes.
	Memory int64 `json:"memory"`
	Peak   int64 `json:"peak"`
}

// Place is where a pod was placed. Node is "" if it fitted nowhere, and Why then has the reason.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why,omitempty"`
}
