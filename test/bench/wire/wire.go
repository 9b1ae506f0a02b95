// Package wire is what a program with a scheduler and the one that measures it say to each other: JSON, a
// line each, by standard input and output.
//
// Invariant: a round is answered by one outcome, in order. The package refuses nothing: it has no code, so
// that programs built of other versions of Kubernetes can have it too.
package wire

import v1 "k8s.io/api/core/v1"

// Round asks for nodes for some pods, one pod after the other. Afterwards all pods but the latest Keep that have
// been placed are taken away.
type Round struct {
	Pods []*v1.Pod `json:"pods"`
	Keep int       `json:"keep"`
	// Settle has the program give back what memory it does not need, after the round.
	Settle bool `json:"settle,omitempty"`
}

// Outcome is how a round came out, and what it took.
type Outcome struct {
	// CPU is the time that all CPUs spent for the program from the first pod's turn to the last one's place,
	// in nanoseconds.
	CPU int64 `json:"cpu"`
	// Wall is how long that was, in nanoseconds.
	Wall int64 `json:"wall"`
	// Bytes and Allocations are what was allocated meanwhile.
	Bytes       uint64 `json:"bytes"`
	Allocations uint64 `json:"allocations"`
	// Evaluated are the nodes that were filtered, for all pods together.
	Evaluated int     `json:"evaluated"`
	Places    []Place `json:"places"`
	// Memory is what the program has of the computer's memory at the end, in bytes, Peak the most that it had.
	Memory int64 `json:"memory"`
	Peak   int64 `json:"peak"`
}

// Place is where a pod was placed; Node is "" where it found none, and Why then says why.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why,omitempty"`
}
