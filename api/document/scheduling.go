package document

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/printable"
)

// Scheduling is the API server's data about the scheduling of a pod that has no node.
type Scheduling struct {
	// Scheduler is spec.schedulerName.
	Scheduler string          `json:"scheduler"`
	State     SchedulingState `json:"state"`
	// Seen are the names of the schedulers that have bound or refused a pod which still exists.
	Seen []string `json:"seen"`
	// Gates are the scheduling gates of a gated pod.
	Gates []string `json:"gates,omitempty"`
	// Lease is set for the state unseen, if a kube-scheduler holds this lease. That kube-scheduler may have a profile
	// with the scheduler's name.
	Lease string `json:"lease,omitempty"`
	// Node is the chosen node.
	Node string `json:"node,omitempty"`
	// Since is when the scheduler first refused the pod, and Tried when it last did; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	Tried time.Time `json:"tried,omitzero"`
	// Message is the scheduler's last message.
	Message string `json:"message,omitempty"`
}

// SchedulingState is how far the scheduling of a pod without a node has come.
type SchedulingState string

// The states of a pod without a node.
const (
	Deleted  SchedulingState = "deleted"  // it is being deleted: no scheduler places it
	Gated    SchedulingState = "gated"    // its scheduling gates keep it from every scheduler
	Unseen   SchedulingState = "unseen"   // no pod, event or lease shows that its scheduler exists
	Untried  SchedulingState = "untried"  // its scheduler has left traces, but none of this pod
	Refused  SchedulingState = "refused"  // no node accepted it; it is tried again when something changes
	Chosen   SchedulingState = "chosen"   // a node was chosen: it waits for its turn, or for victims to end
	NotKnown SchedulingState = "notKnown" // the events cannot be read
)

// maxName bounds the bytes of a scheduler's name in a text. Kubernetes lets a pod name a scheduler of any length.
const maxName = 63

// Text returns one or two sentences on what the pod waits for, apart from what nodes lack.
func (s Scheduling) Text() string {
	name := printable.Clip(s.Scheduler, maxName)
	switch s.State {
	case Deleted:
		return "It is being deleted: no scheduler places it."
	case Gated:
		gates := "gate "
		if len(s.Gates) > 1 {
			gates = "gates "
		}
		return "It waits for " + gates + strings.Join(s.Gates, ", ") + ": no scheduler tries it before " +
			"spec.schedulingGates is empty."
	case Unseen:
		text := fmt.Sprintf("No scheduler named %q has been seen: "+
			"there is no event of one, and no pod that it bound or refused.", name)
		if s.Lease != "" {
			text += fmt.Sprintf(" A kube-scheduler leads (lease %s); whether it has a profile of that name is not known.",
				s.Lease)
		}
		return text
	case Untried:
		return fmt.Sprintf("Scheduler %s has not tried it yet.", name)
	case Chosen:
		return fmt.Sprintf("Scheduler %s has chosen node %s: the pod waits there for its turn, or for victims to end.",
			name, s.Node)
	case Refused:
		text := "Scheduler " + name + " has found no node for it"
		if !s.Since.IsZero() {
			text += " since " + s.Since.UTC().Format(time.RFC3339)
		}
		if !s.Tried.IsZero() {
			text += ", and tried it last at " + s.Tried.UTC().Format(time.RFC3339)
		}
		return text + ". It backs off, and tries again when something has changed."
	}
	return "Its scheduler is " + name + "."
}

// Remedy returns what to do if waiting does not help, or "".
func (s Scheduling) Remedy() string {
	switch s.State {
	case Deleted:
		return "if it stays, see what its finalizers wait for (metadata.finalizers)"
	case Gated:
		return "remove the gates, or look at the controller that should"
	case Unseen:
		if len(s.Seen) == 0 {
			return "start a scheduler of that name"
		}
		return "create the pod anew with one of these as spec.schedulerName, or start a scheduler of that name: " +
			strings.Join(s.Seen, ", ")
	case Untried:
		return "if it lasts, look at the log and the leader of that scheduler"
	}
	return ""
}
