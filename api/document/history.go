package document

import "time"

// PodHistory has the decisions of schedulers and kubelets on a pod, newest first.
type PodHistory struct {
	Kind      string `json:"kind"` // "PodHistory"
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is the source of the decisions: "events", which API servers keep for an hour unless configured otherwise.
	Source string `json:"source"`
	// Problem is why the decisions could not be read, or empty.
	Problem   string         `json:"problem,omitempty"`
	Decisions []PastDecision `json:"decisions"`
}

// PastDecision is a decision that was made once or several times with the same result.
type PastDecision struct {
	UID     string  `json:"uid"` // of the pod: others may have had its name before
	Outcome Outcome `json:"outcome"`
	// First and Time are when the decision was made first and last, and Count how often.
	First time.Time `json:"first"`
	Time  time.Time `json:"time"`
	Count int32     `json:"count"`
	// By is the scheduler or kubelet; Reason and Message are its texts.
	By      string `json:"by"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Summary is the sentence in the message of a tenon-scheduler about a pod that no node took; see Sentence.
	Summary string `json:"summary,omitempty"`
	Warning bool   `json:"warning,omitempty"`
}

// Outcome is the outcome of a decision on a pod.
type Outcome string

// The outcomes.
const (
	OutcomeRefused    Outcome = "refused"    // no node was found
	OutcomeScheduled  Outcome = "scheduled"  // it was bound to a node
	OutcomePreempted  Outcome = "preempted"  // it was evicted for another pod
	OutcomeRejected   Outcome = "rejected"   // the kubelet did not admit it
	OutcomeMisaligned Outcome = "misaligned" // it holds parts of more NUMA nodes than necessary
	OutcomeOther      Outcome = "other"
)
