package agent

import (
	"crypto/rand"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// claim decides which of several agents writes the layout of a node. An agent claims the layout when it starts, and
// the layout names its writer and the time of the writer's claim. There are no writes that only renew a claim,
// because an agent usually ends before its successor starts, and the successor simply writes.
//
// If two agents run, the agent with the earlier claim stands by: it goes on observing, but writes only after the
// other agent's layout has been wrong for a while. Then the other agent has ended, or it runs on another machine
// under the same node name, which an administrator has to correct.
type claim struct {
	me       v1alpha1.Agent  // this agent, and when it claimed the layout
	readOnce bool            // read was called before
	rival    *v1alpha1.Agent // the agent that this one stands by for, or nil
	wrong    time.Time       // when the rival's layout became wrong; zero while it is right
	patience time.Duration   // how long the agent leaves a rival's wrong layout unchanged
	// nextAnswer is the earliest time at which this agent writes again to answer a claim dated in the future.
	nextAnswer time.Time
}

// The patience doubles with every takeover, so that agents of two machines do not write one layout all the time. The
// longest patience also bounds how long a forged layout stays if its author, who has stolen a token, claims it again
// and again.
const (
	firstPatience = time.Minute
	lastPatience  = 10 * time.Minute
)

func newClaim() *claim {
	// The API server keeps microseconds.
	since := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	return &claim{me: v1alpha1.Agent{ID: rand.Text(), Since: since}, patience: firstPatience}
}

// maxAhead is how far in the future another agent's claim may be. Agents of one node share a clock, which may have
// been set back since the claim. No agent claims a time in the future.
const maxAhead = 10 * time.Minute

// read records the agent that wrote the layout which this agent has just read. fresh is true if the layout was
// written after this agent last read or wrote it. read returns true if this agent must write to assert its claim: an
// agent with an earlier claim has written meanwhile, or a claim is more than maxAhead in the future. This agent does
// not stand by for such a future claim, because a forger could keep it from writing until then. It answers future
// claims with at most one write per firstPatience.
func (c *claim) read(by v1alpha1.Agent, fresh bool, now time.Time) (assert bool) {
	first := !c.readOnce
	c.readOnce = true
	switch {
	case by.Since.After(now.Add(maxAhead)):
		c.rival, c.wrong = nil, time.Time{}
		if assert = !now.Before(c.nextAnswer); assert {
			c.nextAnswer = now.Add(firstPatience)
		}
		return assert
	case by.ID == "" || by.ID == c.me.ID:
		c.rival, c.wrong = nil, time.Time{}
	case c.me.Before(by):
		if c.rival == nil || c.rival.ID != by.ID {
			c.rival, c.wrong = &by, time.Time{}
		}
	case !first && fresh:
		return true
	}
	return false
}

// mayWrite returns nil if this agent may write, and an error while it stands by. right is true if the layout equals
// what this agent would write. Once the rival's layout has been wrong for the patience, mayWrite claims the layout
// for this agent at the time now, and returns nil.
func (c *claim) mayWrite(now time.Time, right bool) error {
	switch {
	case c.rival == nil:
		return nil
	case right:
		c.wrong = time.Time{}
	case c.wrong.IsZero():
		c.wrong = now
	case now.Sub(c.wrong) >= c.patience:
		c.me.Since = metav1.NewMicroTime(now.Truncate(time.Microsecond))
		c.rival, c.wrong, c.patience = nil, time.Time{}, min(lastPatience, 2*c.patience)
		return nil
	}
	return fmt.Errorf("layout is written by another agent, %s, which claimed it at %s, after this one: standing by",
		c.rival.ID, c.rival.Since.UTC().Format(time.RFC3339))
}
