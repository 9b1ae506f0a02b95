package document

import "time"

// PodDecisions are a scheduler's kept decisions on a pod, newest first.
type PodDecisions struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Decisions []Decision `json:"decisions"`
}

// Decision is one attempt to schedule a pod.
type Decision struct {
	UID  string    `json:"uid"`
	Time time.Time `json:"time"`
	// Turned is when the pod got its turn to be bound. What the scheduler received later has no effect on the decision.
	Turned time.Time `json:"turned,omitzero"`
	Stage  Stage     `json:"stage"`
	// Why is what went wrong, if the reason is not a verdict of a node.
	Why string `json:"why,omitempty"`
	// Node is the chosen node, Predicted what the pod was to hold there, and Seen what the node gave.
	Node      string      `json:"node,omitempty"`
	Predicted []Container `json:"predicted,omitempty"`
	Seen      []Container `json:"seen,omitempty"`
	// Nodes are verdicts, by name of the node; MoreNodes is set if other nodes were judged, too.
	Nodes     []Verdict `json:"nodes,omitempty"`
	MoreNodes bool      `json:"moreNodes,omitempty"`
}

// Stage is how far a pod got.
type Stage string

// The stages. After Judged and Released, the scheduler tries the pod again.
const (
	Judged   Stage = "judged"   // nodes were judged; none was chosen
	Reserved Stage = "reserved" // a node was chosen, and the pod's holdings are reserved
	Turned   Stage = "turned"   // it had its turn and may be bound
	Bound    Stage = "bound"    // it is bound; the node has not reported it yet
	Released Stage = "released" // it was not bound after all

	// Results of the ledger: what the node did.
	Confirmed Stage = "confirmed" // the node gave what was predicted
	Wrong     Stage = "wrong"     // the node gave something else
	Rejected  Stage = "rejected"  // the kubelet rejected the pod
)

// Share is a shape of pods and its share of the workload profile.
type Share struct {
	Percent int64 `json:"percent"` // of the pods that count
	// Containers are the requests of each container, init containers first.
	Containers []string `json:"containers"`
}
