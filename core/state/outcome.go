package state

import "github.com/tenon-numa/tenon/core/place"

// Result is whether a prediction was right.
type Result string

const (
	// Confirmed means that the node gave what was predicted.
	Confirmed Result = "confirmed"
	// Wrong means that the node gave something else.
	Wrong Result = "wrong"
	// Rejected means that the node refused a pod that was predicted to fit.
	Rejected Result = "rejected"
)

// Outcome has the result of one prediction.
type Outcome struct {
	Node      string
	Pod       PodID
	Result    Result
	Predicted []place.Holding
	Seen      []place.Holding     // what the node gave; empty if it refused the pod or reports no holdings
	Error     place.RefusalReason // set if the result is Rejected
	Foreign   bool                // another scheduler bound the pod
}
