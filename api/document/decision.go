package document

import "time"

// PodDecisions is what a scheduler remembers of a pod: the newest decision first.
type PodDecisions struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Decisions []Decision `json:"decisions"`
}

// Decision is one attempt to schedule a pod.
type Decision struct {
	UID  string    `json:"uid"`
	Time time.Time `json:"time"`
	// Turned is when the pod was allowed to be bound: what the scheduler received later did not count.
	Turned time.Time `json:"turned,omitzero"`
	Stage  Stage     `json:"stage"`
	// Why says what went wrong apart from the verdicts of nodes.
	Why string `json:"why,omitempty"`
	// Node is the node that was chosen, Predicted what the pod was to hold there, and Seen what the node gave.
	Node      string      `json:"node,omitempty"`
	Predicted []Container `json:"predicted,omitempty"`
	Seen      []Container `json:"seen,omitempty"`
	// Nodes are verdicts, by name of the node; MoreNodes is set where other nodes were asked, too.
	Nodes     []Verdict `json:"nodes,omitempty"`
	MoreNodes bool      `json:"moreNodes,omitempty"`
}

// Stage says how far a pod got.
type Stage string

// The stages. From Judged and Released a pod is tried again.
const (
	Judged   Stage = "judged"   // nodes were asked; none was chosen
	Reserved Stage = "reserved" // a node was chosen, and what the pod will hold is reserved
	Turned   Stage = "turned"   // it had its turn and may be bound
	Bound    Stage = "bound"    // it is bound; the node has not reported it yet
	Released Stage = "released" // it was not bound after all

	// What the node did then; these are the results of the ledger.
	Confirmed Stage = "confirmed" // it gave what was predicted
	Wrong     Stage = "wrong"     // it gave something else
	Rejected  Stage = "rejected"  // it refused the pod
)

// Share is a shape of pods and its part in what the cluster usually runs.
type Share struct {
	Percent int64 `json:"percent"` // of the pods that count
	// Containers are what each container asks for, init containers first.
	Containers []string `json:"containers"`
}
