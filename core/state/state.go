// Package state has the values by which packages describe nodes and pods to each other: the identity of a pod
// ([PodID]), what it holds ([Entry]), what a node reports ([Layout]), in which states the node may be ([Node]), why
// predictions for it may be wrong ([Inexact]), and whether they were right ([Outcome]). One function decides whether a
// pod fits on a node, for all callers: [Node.Place].
//
// Invariant: these values are plain data with methods that only read. No value has a lock or changes after it was
// published. So every package may use them, and only the few that follow a cluster through time need package ledger,
// which computes them.
//
// The package stores nothing, follows no events, and refuses no report: whether a report can be true is decided where
// it is read (api/v1alpha1, cluster/kube). What a report of amounts means is decided in package estimate.
package state

import "github.com/tenon-numa/tenon/core/place"

// PodID names a pod. Pods are equal if their UIDs are; namespace and name are for people.
type PodID struct {
	UID, Namespace, Name string
}

// String returns "namespace/name".
func (p PodID) String() string { return p.Namespace + "/" + p.Name }

// Source is where holdings come from.
type Source int

const (
	// Predicted holdings were computed for a pod that the node has not reported yet.
	Predicted Source = iota
	// Observed holdings were reported by the node.
	Observed
	// Counted holdings are in the amounts that an estimated node reports. Which pod has them was computed, and the
	// amounts agree with that. The entry without a UID has the holdings of unknown pods.
	Counted
)

// Entry is one pod on a node, with what it holds.
type Entry struct {
	Pod      PodID
	Source   Source
	Holdings []place.Holding
}

// Holdings returns the holdings of all pods, in the order of the entries.
func Holdings(entries []Entry) (out []place.Holding) {
	for _, e := range entries {
		out = append(out, e.Holdings...)
	}
	return out
}

// Quality is how precise a node's reports are.
type Quality int

const (
	// Exact means that the node reports which pod holds which CPU, memory block and device.
	Exact Quality = iota
	// Estimated means that the node reports how much of each NUMA node is held; ids are made up.
	Estimated
)

// String returns "exact" or "coarse".
func (q Quality) String() string { return [...]string{"exact", "coarse"}[q] }
