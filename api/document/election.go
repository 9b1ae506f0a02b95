package document

import "time"

// Role is a scheduler's role in the election of one lease.
type Role string

// The roles.
const (
	Leads   Role = "leader"  // it holds the lease, and schedules
	Standby Role = "standby" // it waits for the lease, and schedules nothing
	Alone   Role = "alone"   // it has no lease, and schedules
)

// Election is one scheduler's state of the lease that chooses which of several schedulers leads.
type Election struct {
	Role Role `json:"role"`
	// Identity is the scheduler's own name in the lease: its host name (in a cluster, the name of its pod), an
	// underscore, and an id. It is empty if the scheduler is alone.
	Identity string `json:"identity,omitempty"`
	// Leader is the identity of the scheduler that holds the lease, or empty if none is known to hold it.
	Leader string `json:"leader,omitempty"`
	// Renewed is when the leader last renewed the lease, by the leader's clock.
	Renewed time.Time `json:"renewed,omitzero"`
}
