package agent

import (
	"crypto/rand"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// claim decides which of several agents writes a layout, without writes that only renew a claim. An agent that was
// replaced never writes again, so its successor need not claim anything. If an agent sees another one write, the
// agent with the earlier claim stands by. It goes on observing, and writes again only after the layout has been wrong
// for a while. In that case the other agent is gone, or runs on another machine, and an administrator must look.
type claim struct {
	me       v1alpha1.Agent
	readOnce bool
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

// maxAhead is how far in the future another agent's claim may be. Agents of one node share a clock, which may have been
// set back since. No agent makes claims for the future.
const maxAhead = 10 * time.Minute

// read records by, the writer of the layout that this agent has just read, and returns true if this agent must write to
// assert its own claim. fresh is true if the layout was written since this agent last read or wrote it. This agent does
// not stand by for a claim that is more than maxAhead in the future: otherwise a forger could make it stand by until
// then. It answers such a claim with a write, at most once per firstPatience.
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

// mayWrite returns an error while this agent stands by. right is true if the layout equals what this agent would write.
// When the rival's layout has been wrong for the patience, mayWrite claims the layout at now for this agent, and
// returns nil.
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
