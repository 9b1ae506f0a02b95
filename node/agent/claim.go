package agent

import (
	"crypto/rand"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// claim settles which of several agents writes a layout, without any writes that only say "still here".
// An agent that was replaced never writes again, so its successor need not claim anything. Where an agent
// does see another one write, the one with the earlier claim stands by: it reads on, and writes again only
// after what is published has been wrong for a while, because then the other is gone, or is an agent of
// another machine, and people must look.
type claim struct {
	me     v1alpha1.Agent
	met    bool            // whether a layout was read before
	rival  *v1alpha1.Agent // to whom this agent gives way
	wrong  time.Time       // since when the rival's layout is wrong; zero while it is right
	bearer time.Duration   // how long a wrong layout is borne
	again  time.Time       // when a claim for the future may be answered again
}

// bearing is how long a wrong layout of a rival is borne at first; it doubles with every takeover, so that
// agents of two machines do not contend for one layout all the time.
const (
	bearing     = time.Minute
	mostBearing = time.Hour
)

func newClaim() *claim {
	// The server keeps microseconds.
	since := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	return &claim{me: v1alpha1.Agent{ID: rand.Text(), Since: since}, bearer: bearing}
}

// maxAhead is how far in the future another agent's claim may lie: agents of one node have one clock, which may
// have been set back since. No agent claims anything for later than that.
const maxAhead = 10 * time.Minute

// read is told who wrote the layout that was read, and whether it was written since this agent last read
// or wrote it. It reports whether this agent must write to say that it is the one who does. A claim for the
// future is nobody's: an agent that gave way to it would do so for as long.
func (c *claim) read(by v1alpha1.Agent, fresh bool, now time.Time) (assert bool) {
	first := !c.met
	c.met = true
	switch {
	case by.Since.After(now.Add(maxAhead)):
		c.rival, c.wrong = nil, time.Time{}
		if assert = !now.Before(c.again); assert {
			c.again = now.Add(bearing)
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

// may reports whether this agent may write at now, given whether what is published is right.
func (c *claim) may(now time.Time, right bool) error {
	switch {
	case c.rival == nil:
		return nil
	case right:
		c.wrong = time.Time{}
	case c.wrong.IsZero():
		c.wrong = now
	case now.Sub(c.wrong) >= c.bearer:
		c.me.Since = metav1.NewMicroTime(now.Truncate(time.Microsecond))
		c.rival, c.wrong, c.bearer = nil, time.Time{}, min(mostBearing, 2*c.bearer)
		return nil
	}
	return fmt.Errorf("layout is written by another agent, %s, which claimed it at %s, after this one: standing by",
		c.rival.ID, c.rival.Since.UTC().Format(time.RFC3339))
}
