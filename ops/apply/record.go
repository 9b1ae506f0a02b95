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

// Annotation of a Node says that its kubelet is being changed, by which plan, and how far. Its value is a [Record].
const Annotation = "tenon.sh/kubelet-change"

// Step is a step of the change of one node.
type Step string

// The steps of a change, in order, and the one that takes it back.
const (
	Cordon   Step = "cordon"   // no new pods
	Evict    Step = "evict"    // the pods go, as PodDisruptionBudgets allow
	Change   Step = "change"   // the node stops its kubelet, removes state files, writes the configuration, starts
	Verify   Step = "verify"   // kubelet and agent report the new configuration
	Keep     Step = "keep"     // the node keeps it; without that it restores the old one by itself
	Uncordon Step = "uncordon" // new pods may come
	Undo     Step = "undo"     // the node restores the old configuration
)

// known reports whether a record may have the step.
func (s Step) known() bool {
	return slices.Contains([]Step{Cordon, Evict, Change, Verify, Keep, Uncordon, Undo}, s)
}

// The ends of a change; records have neither.
const (
	Done     Step = "done"     // with the new configuration
	Restored Step = "restored" // with the old one
)

// Record is how far the change of a node is. A step is recorded before it begins, and each can be done again, so a
// change that was interrupted goes on with the step of its record.
type Record struct {
	// Plan identifies the node's part of the plan.
	Plan string `json:"plan"`
	Step Step   `json:"step"`
	// Stays: the node was cordoned before, and remains so.
	Stays bool `json:"stays,omitempty"`
	// Why is why the change is taken back: the step that failed, and how many pods remained. Who may read nodes reads it,
	// so it names no pod and has nothing of a log.
	Why string `json:"why,omitempty"`
	// detail is the error itself, for who applies the plan. It is in no annotation: "" after an interruption.
	detail string
}

// Reason returns why the change is taken back, for who applies the plan; "" if it is not.
func (r Record) Reason() string { return cmp.Or(r.detail, r.Why) }

// remaining is the error of an eviction after which pods remain on a node.
type remaining struct {
	error
	pods int
}

func (r remaining) Unwrap() error { return r.error }

// withhold returns what a record says of an error of a step.
func withhold(step Step, err error) string {
	if left := (remaining{}); errors.As(err, &left) {
		return fmt.Sprintf("step %s failed: pods that remained: %d", step, left.pods)
	}
	return fmt.Sprintf("step %s failed", step)
}

// identity identifies what a plan does to a node.
func identity(n document.KubeletPlanNode) string {
	data, err := json.Marshal([]any{n.Name, n.DropIn, n.StateFiles})
	if err != nil { // strings always encode
		data = []byte(n.Name + n.DropIn)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// next returns the record after a step that ended with an error or without. more is false where the change is at its
// end, or cannot go on: then the node keeps its record.
func (r Record) next(failed error) (_ Record, more bool) {
	if failed != nil {
		was := r.Step
		switch r.Step {
		case Cordon, Evict:
			r.Step = Uncordon // nothing was changed yet
		case Change, Verify:
			r.Step = Undo
		default:
			return r, false
		}
		r.Why, r.detail = withhold(was, failed), failed.Error()
		return r, true
	}
	after := map[Step]Step{Cordon: Evict, Evict: Change, Change: Verify, Verify: Keep, Keep: Uncordon, Undo: Uncordon}
	to, more := after[r.Step]
	if more {
		r.Step = to
	}
	return r, more
}

// resumed returns the record with which an interrupted change goes on. While it was interrupted the node may have
// restored its configuration, so what the node does is done again; where it has changed, that does nothing.
func (r Record) resumed() Record {
	if r.Step == Verify || r.Step == Keep {
		r.Step = Change
	}
	return r
}
