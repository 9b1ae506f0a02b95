package document

import "github.com/tenon-numa/tenon/core/summary"

// Sentence is the one sentence about a pod that waits. The scheduler's event begins with the same text.
type Sentence struct {
	// Kind is fits, chosen, not-tried, not-now, changed (a change of the pod or of a node is needed), never, wrong-name
	// or not-known.
	Kind string `json:"kind"`
	// Text is the sentence without its period.
	Text string `json:"text"`
	// Remedy is what to do, without a period; "" if nothing is known.
	Remedy string `json:"remedy,omitempty"`
}

// SentenceOf converts a summary.
func SentenceOf(s summary.Summary) Sentence { return Sentence{string(s.Kind), s.Text, s.Remedy} }
