// Package gangs lets the members of a gang take their turns together, so that a gang does not start in part.
//
// kube-scheduler reserves the members of a gang one after the other, and then binds each of them in a goroutine of its
// own. Nothing there keeps one member from being bound while another one waits for its turn, or has lost its place. So
// the members that are reserved and not yet bound form a batch: each waits in PreBind until all have come there, and
// then all have their turns, or none.
//
// Invariant: no member of a batch has its turn before all members of the batch have come, enough of the gang have
// nodes, and the ledger gives the batch its turns in one step. If a batch fails, each of its members learns that. The
// package makes no booking and ends none, and knows nothing of pods that belong to no gang.
package gangs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
)

// Book gives turns. [ledger.Book] implements it.
type Book interface {
	Turns(members []ledger.Member) (ledger.Refusal, *ledger.Wait, error)
}

// Gangs has the batches of a scheduler. The zero value is empty. Its methods may be called by any goroutine.
type Gangs struct {
	mu sync.Mutex
	// open has, by gang, the batch that takes further members. of has the batch of each member by UID.
	open map[string]*batch
	of   map[string]*batch
}

// batch are members that take their turns together.
type batch struct {
	gang string
	// enough returns an error if too few members of the gang have nodes.
	enough  func() error
	members map[string]Member
	arrived map[string]bool
	asks    string // the UID of the member whose goroutine asks for the turns; "" if none does
	changed chan struct{}
	done    bool
	failed  error
}

// Member is a pod of a gang that has been reserved. Booked is false if the ledger has no booking for it, because it
// holds nothing exclusively: it takes no turn, and waits for the other members all the same.
type Member struct {
	ledger.Member
	Booked bool
}

// maxMembers bounds the members that take their turns in one step: the ledger looks at all of them meanwhile, and other
// pods of their nodes wait. A larger batch takes its turns one by one.
const maxMembers = 256

// Wait is what a batch waited for.
type Wait struct {
	// Why is why the ledger let the batch wait last; "" if the batch only waited for members.
	Why state.WaitReason
	// Node is where the first of its members in line had to wait.
	Node string
}

// Reserved adds a member that has been reserved, and will be bound or given up. enough is called before the members
// take their turns, and returns an error if too few members of the gang have nodes for the gang to start.
func (g *Gangs) Reserved(gang string, m Member, enough func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open, g.of = map[string]*batch{}, map[string]*batch{}
	}
	b := g.open[gang]
	if b == nil {
		b = &batch{gang: gang, members: map[string]Member{}, arrived: map[string]bool{},
			changed: make(chan struct{})}
		g.open[gang] = b
	}
	if old := g.of[m.UID]; old != nil && old != b {
		g.remove(old, m.UID)
	}
	b.enough, b.members[m.UID], g.of[m.UID] = enough, m, b
	b.wake()
}

// Gone removes a member that is bound, or will not be. It changes nothing for other pods.
func (g *Gangs) Gone(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.of[uid]; b != nil {
		g.remove(b, uid)
	}
}

// Has reports whether a pod is a member that has not gone.
func (g *Gangs) Has(uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[uid] != nil
}

// Await blocks until the pod may take its turn as far as its gang is concerned: at once for a pod that is no member.
// After that the pod has its turn, or waits only for other members on its node. It returns an error if the batch
// fails: ctx of any of its members ends, a member no longer fits, or too few have nodes.
func (g *Gangs) Await(ctx context.Context, book Book, uid string) (w Wait, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.of[uid]
	if b == nil {
		return w, nil
	}
	b.arrived[uid] = true
	b.wake()
	for !b.done {
		var changed <-chan struct{}
		if len(b.arrived) == len(b.members) && (b.asks == "" || b.asks == uid) {
			b.asks = uid
			var again bool
			if w, changed, again = g.ask(b, book, w); again {
				continue
			}
		}
		member := b.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-member:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil && !b.done {
			g.end(b, fmt.Errorf("gang %s: %w", b.gang, context.Cause(ctx)))
		}
	}
	return w, b.failed
}

// ask asks for the turns of a batch, without holding the lock meanwhile. It returns what the batch waits for. again is
// true if the batch has changed or ended.
func (g *Gangs) ask(b *batch, book Book, before Wait) (w Wait, changed <-chan struct{}, again bool) {
	members := b.booked()
	seen, enough := b.changed, b.enough
	g.mu.Unlock()
	err := enough()
	var r ledger.Refusal
	var wait *ledger.Wait
	if err == nil && len(members) <= maxMembers {
		r, wait, err = book.Turns(members)
	}
	g.mu.Lock()
	switch {
	case b.done:
		return before, nil, true
	case wait != nil:
		return Wait{wait.Why, wait.Node}, wait.Changed, false
	case err != nil && seen != b.changed: // a member has gone meanwhile
		return before, nil, true
	case err != nil:
		g.end(b, fmt.Errorf("gang %s: %w", b.gang, err))
	case r.UID != "":
		g.end(b, fmt.Errorf("gang %s: member %s no longer fits on its node", b.gang, r.UID))
	default:
		g.end(b, nil)
	}
	return before, nil, true
}

// booked returns the members that take turns.
func (b *batch) booked() (out []ledger.Member) {
	for _, uid := range slices.Sorted(maps.Keys(b.members)) {
		if m := b.members[uid]; m.Booked {
			out = append(out, m.Member)
		}
	}
	return out
}

// end ends the waiting of a batch. Members that are reserved later form another one.
func (g *Gangs) end(b *batch, err error) {
	b.done, b.failed = true, err
	if g.open[b.gang] == b {
		delete(g.open, b.gang)
	}
	b.wake()
}

func (g *Gangs) remove(b *batch, uid string) {
	delete(b.members, uid)
	delete(b.arrived, uid)
	delete(g.of, uid)
	if b.asks == uid {
		b.asks = ""
	}
	if len(b.members) == 0 && g.open[b.gang] == b {
		delete(g.open, b.gang)
	}
	b.wake()
}

// wake has all members of the batch look again.
func (b *batch) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}
