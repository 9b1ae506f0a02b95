package gangs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

var depth = flag.Int("gangs.depth", 5, "how many steps of members of a gang are followed, in any order")

// play is a gang of four pods that needs two, on nodes of their own. On node n1, its pod waits for the turn of another
// pod until that one is admitted. What is reserved, comes, ends and is admitted happens in any order, also between the
// two things that a batch asks: whether enough have nodes, and for its turns.
type play struct {
	t       *testing.T
	book    *ledger.Book
	gangs   *Gangs
	pods    [4]member
	going   chan struct{} // the batch that asks goes on
	asking  atomic.Int32  // batches that wait for that
	blocked bool          // the other pod on node n1 is not admitted
	gaveUp  chan string   // UIDs
	trace   []string
}

const needed = 2

// member is a pod of the gang. It is assumed from its reservation until its attempt fails. bound is set once it may be
// bound. cancel ends its context.
type member struct {
	assumed, came, bound bool
	tries                int
	cancel               context.CancelCauseFunc
	result               chan error
}

func uidOf(i int) string { return fmt.Sprint("member", i) }

func (p *play) Enough(counts func(uid string) bool) error {
	n := 0
	for i := range p.pods {
		if p.pods[i].assumed && counts(uidOf(i)) {
			n++
		}
	}
	if n < needed {
		return errors.New("too few have nodes")
	}
	return nil
}

func (p *play) GiveUp(uid string, _ error) { p.gaveUp <- uid }

// Turns is the ledger's, and waits before.
func (p *play) Turns(members []ledger.Member, insist bool) (ledger.Refusal, *ledger.Wait, error) {
	p.asking.Add(1)
	<-p.going
	return p.book.Turns(members, insist)
}

func (p *play) reserve(i int) {
	reserve(p.t, p.book, fmt.Sprint("n", i), uidOf(i), 3, place.Demand{Policy: place.SingleNUMA})
	p.pods[i] = member{assumed: true, tries: p.pods[i].tries + 1}
	p.gangs.Reserved("default/g", Member{Member: ledger.Member{UID: uidOf(i)}, Booked: true}, p, time.Minute)
}

// come has a member wait in PreBind.
func (p *play) come(i int) {
	ctx, cancel := context.WithCancelCause(p.t.Context())
	x := &p.pods[i]
	x.came, x.cancel, x.result = true, cancel, make(chan error, 1)
	go func() {
		_, err := p.gangs.Await(ctx, p, uidOf(i), time.Minute)
		x.result <- err
	}()
}

// fail ends the attempt of a member.
func (p *play) fail(i int) {
	p.pods[i].assumed, p.pods[i].came, p.pods[i].bound = false, false, false
	p.gangs.Lost(uidOf(i))
	p.book.Unreserve(uidOf(i))
}

// settle takes what the members learned. No member may be bound if too few are.
func (p *play) settle() {
	synctest.Wait()
	for len(p.gaveUp) > 0 {
		uid := <-p.gaveUp
		for i := range p.pods {
			if uidOf(i) == uid && p.pods[i].assumed && !p.pods[i].came {
				p.fail(i)
			}
		}
	}
	fresh := false
	for i := range p.pods {
		x := &p.pods[i]
		if !x.came || x.bound {
			continue
		}
		select {
		case err := <-x.result:
			if x.cancel(nil); err != nil {
				p.fail(i)
				continue
			}
			x.bound, fresh = true, true
		default:
		}
	}
	synctest.Wait()
	n := 0
	for i := range p.pods {
		if p.pods[i].bound {
			n++
		}
	}
	if fresh && n < needed {
		p.t.Fatalf("after %s, %d of the gang may be bound, and it needs %d", strings.Join(p.trace, ", "), n, needed)
	}
}

// steps returns what may happen next.
func (p *play) steps() (out []string) {
	for i := range p.pods {
		switch x := &p.pods[i]; {
		case x.bound:
		case !x.assumed && x.tries < 2 && (i == 0 || p.pods[i-1].tries > 0):
			out = append(out, fmt.Sprint("reserve ", i))
		case x.assumed && !x.came:
			out = append(out, fmt.Sprint("come ", i), fmt.Sprint("lose ", i))
		case x.came:
			out = append(out, fmt.Sprint("lose ", i))
		}
	}
	if p.blocked {
		out = append(out, "admit")
	}
	if p.asking.Load() > 0 {
		out = append(out, "go on")
	}
	return append(out, "time is over")
}

func (p *play) do(step string) {
	p.trace = append(p.trace, step)
	i := int(step[len(step)-1] - '0')
	switch strings.TrimRight(step, " 0123456789") {
	case "reserve":
		p.reserve(i)
	case "come":
		p.come(i)
	case "lose":
		if p.pods[i].came {
			p.pods[i].cancel(errors.New("the pod is deleted"))
		} else {
			p.fail(i)
		}
	case "admit":
		p.book.Admitted("1")
		p.blocked = false
	case "go on":
		p.asking.Add(-1)
		p.going <- struct{}{}
	case "time is over":
		time.Sleep(time.Minute)
	}
	p.settle()
}

// finish has everything go on, and checks that no member waits for ever and that nothing is left.
func (p *play) finish() {
	for p.asking.Load() > 0 || slices.ContainsFunc(p.pods[:], func(x member) bool { return x.assumed && !x.bound }) {
		switch steps := p.steps(); {
		case p.asking.Load() > 0:
			p.do("go on")
		case slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "come") }):
			p.do(steps[slices.IndexFunc(steps, func(s string) bool { return strings.HasPrefix(s, "come") })])
		case p.trace[len(p.trace)-1] == "time is over":
			p.t.Fatalf("after %s, a member still waits", strings.Join(p.trace, ", "))
		default:
			p.do("time is over")
		}
	}
	nothingLeft(p.t, p.gangs)
}

// follow plays some steps, and returns what may happen next.
func follow(t *testing.T, steps []string) (next []string) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{t: t, book: booked(t, 3, "n0", "n1", "n2", "n3"), gangs: &Gangs{}, going: make(chan struct{}),
			blocked: true, gaveUp: make(chan string, 100)}
		if _, wait, err := p.book.Turn("1", 0); wait != nil || err != nil {
			t.Fatal(wait, err)
		}
		for _, s := range steps {
			p.do(s)
		}
		next = p.steps()
		p.finish()
	})
	return next
}

// Every interleaving of what happens to the members of a gang: no member may be bound if fewer than the gang needs are,
// and none waits for ever.
func TestEveryInterleavingOfAGang(t *testing.T) {
	plays := 0
	var try func(steps []string)
	try = func(steps []string) {
		plays++
		next := follow(t, steps)
		if t.Failed() || len(steps) == *depth {
			return
		}
		for _, s := range next {
			try(append(slices.Clone(steps), s))
		}
	}
	try(nil)
	t.Logf("%d interleavings", plays)
}
