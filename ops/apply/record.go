package apply

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
)

// Annotation marks a Node whose kubelet is being changed. Its value is a [Record] with the plan and the progress.
const Annotation = "tenon.sh/kubelet-change"

// Step is a step of the change of one node.
type Step string

// The steps of a change in their order, and last the step that undoes it.
const (
	Cordon   Step = "cordon"   // the Node becomes unschedulable
	Evict    Step = "evict"    // the pods go, as PodDisruptionBudgets allow
	Change   Step = "change"   // the node stops its kubelet, removes state files, writes the configuration, starts
	Verify   Step = "verify"   // kubelet and agent report the new configuration
	Keep     Step = "keep"     // the node keeps the configuration; without this order it restores the old one
	Uncordon Step = "uncordon" // the Node becomes schedulable
	Undo     Step = "undo"     // the node restores the old configuration
)

// known reports whether a record may have the step.
func (s Step) known() bool {
	return slices.Contains([]Step{Cordon, Evict, Change, Verify, Keep, Uncordon, Undo}, s)
}

// The results of a change. They are no steps, so no record has them.
const (
	Done     Step = "done"     // the node has the new configuration
	Restored Step = "restored" // the node has the old configuration again
)

// Record is the progress of a node's change. A step is recorded before it begins and can be repeated. So an
// interrupted change continues with the step of its record.
type Record struct {
	// Plan identifies the node's part of the plan.
	Plan string `json:"plan"`
	Step Step   `json:"step"`
	// Stays is set if the node was cordoned before the change. It then remains cordoned.
	Stays bool `json:"stays,omitempty"`
	// Why is the reason for undoing the change: the step that failed, and the number of remaining pods. Everybody who
	// may read nodes can read it, so it names no pod and quotes no log.
	Why string `json:"why,omitempty"`
	// detail is the full error, for the administrator who applies the plan. It is not written to the annotation, so
	// it is "" after an interruption.
	detail string
}

// Reason returns the reason for undoing the change, for the administrator; "" if the change is not undone.
func (r Record) Reason() string { return cmp.Or(r.detail, r.Why) }

// remainingError is the error of an eviction after which pods remain on a node.
type remainingError struct {
	error
	pods int
}

func (r remainingError) Unwrap() error { return r.error }

// publicReason returns a text about a step's error that everybody may read; see Record.Why.
func publicReason(step Step, err error) string {
	if rest := (remainingError{}); errors.As(err, &rest) {
		return fmt.Sprintf("step %s failed: pods that remained: %d", step, rest.pods)
	}
	return fmt.Sprintf("step %s failed", step)
}

// identity returns 16 hexadecimal digits that identify a node's part of a plan: its name, drop-in file and state
// files.
func identity(n document.KubeletPlanNode) string {
	data, err := json.Marshal([]any{n.Name, n.DropIn, n.StateFiles})
	if err != nil { // strings always encode
		data = []byte(n.Name + n.DropIn)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// next returns the record after the step r.Step. failed is the error of the step; nil if it succeeded. more is false
// if the change is complete, or if it cannot continue; if it cannot continue, the node keeps its record.
func (r Record) next(failed error) (_ Record, more bool) {
	if failed != nil {
		was := r.Step
		switch r.Step {
		case Cordon, Evict:
			r.Step = Uncordon // the node is still unchanged
		case Change, Verify:
			r.Step = Undo
		default:
			return r, false
		}
		r.Why, r.detail = publicReason(was, failed), failed.Error()
		return r, true
	}
	after := map[Step]Step{Cordon: Evict, Evict: Change, Change: Verify, Verify: Keep, Keep: Uncordon, Undo: Uncordon}
	to, more := after[r.Step]
	if more {
		r.Step = to
	}
	return r, more
}

// resumed returns the record with which an interrupted change continues. The node may have restored its old
// configuration meanwhile, so Verify and Keep go back to Change, which may be repeated.
func (r Record) resumed() Record {
	if r.Step == Verify || r.Step == Keep {
		r.Step = Change
	}
	return r
}
