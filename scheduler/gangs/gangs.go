// Package gangs lets the members of a gang take their turns together, so that a gang does not start in part.
//
// kube-scheduler reserves the members of a gang one after the other, and then binds each of them in a goroutine of its
// own. Nothing there keeps one member from being bound while another one waits for its turn, or has lost its place. So
// the members that are reserved and not yet bound form a batch: each waits in PreBind until all have come there, and
// then all have their turns, or none.
//
// Invariant: no member of a batch has its turn before all members of the batch have come, enough of the gang have
// nodes, and the ledger gives the batch its turns in one step. If a batch fails, each of its members learns that, and
// none of them counts for the gang before it is reserved again. The package makes no booking and ends none, and knows
// nothing of pods that belong to no gang.
package gangs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
)

// Book gives turns. [ledger.Book] implements it.
type Book interface {
	Turns(members []ledger.Member, insist bool) (ledger.Refusal, *ledger.Wait, error)
}

// Scheduler is what a batch needs of the scheduler.
type Scheduler interface {
	// Enough returns an error if too few members of the gang have nodes for the gang to start. Members for which lost is
	// true do not count, though the scheduler may not have taken their nodes from them yet.
	Enough(lost func(uid string) bool) error
	// GiveUp ends the attempt to bind a member that is on its way, but has not come yet.
	GiveUp(uid string, why error)
}

// Gangs has the batches of a scheduler. The zero value is empty. Its methods may be called by any goroutine.
type Gangs struct {
	mu sync.Mutex
	// open has, by gang, the batch that takes further members. of has the batch of each member by UID.
	open map[string]*batch
	of   map[string]*batch
	// lost has members that will not be bound in their present attempt, by UID.
	lost map[string]bool
}

// batch are members that take their turns together.
type batch struct {
	gang    string
	sched   Scheduler
	members map[string]Member
	arrived map[string]bool
	left    int    // how many members have left
	tries   int    // how often turns were asked for
	asks    string // the UID of the member whose goroutine asks for the turns; "" if none does
	changed chan struct{}
	wait    Wait
	done    bool
	failed  error
}

// Member is a pod of a gang that has been reserved. Booked is false if the ledger has no booking for it, because it
// holds nothing exclusively: it takes no turn, and waits for the other members all the same.
type Member struct {
	ledger.Member
	Booked bool
	// Short returns what the member's node has too little of by now, or "". It is asked after a wait, without any lock:
	// other members must not be bound if this one would be declined then. It may be nil.
	Short func() string
}

const (
	// maxMembers bounds the members that take their turns in one step: the ledger looks at all of them meanwhile, and
	// other pods of their nodes wait. A larger batch takes its turns one by one.
	maxMembers = 256
	// maxLost bounds the lost members that are remembered. When it is reached, all are forgotten: a gang whose member has
	// just lost its node may then count it for a moment.
	maxLost = 4096
	// patience is how often a batch asks before it holds up other pods on all of its nodes.
	patience = 4
)

// Wait is what a batch waited for.
type Wait struct {
	// Why is why the ledger let the batch wait last; "" if the batch only waited for members.
	Why state.WaitReason
	// Node is where the first of its members in line had to wait.
	Node string
}

// Reserved adds a member that has been reserved, and will be bound or given up.
func (g *Gangs) Reserved(gang string, m Member, s Scheduler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open, g.of, g.lost = map[string]*batch{}, map[string]*batch{}, map[string]bool{}
	}
	if old := g.of[m.UID]; old != nil {
		g.remove(old, m.UID)
	}
	b := g.open[gang]
	if b == nil {
		b = &batch{gang: gang, members: map[string]Member{}, arrived: map[string]bool{}, changed: make(chan struct{})}
		g.open[gang] = b
	}
	delete(g.lost, m.UID)
	b.sched, b.members[m.UID], g.of[m.UID] = s, m, b
}

// Lost removes a member that will not be bound. It changes nothing for other pods.
func (g *Gangs) Lost(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.of[uid]; b != nil {
		g.lose(uid)
		g.remove(b, uid)
	}
}

// Has reports whether a pod is a member that has not come yet, or waits.
func (g *Gangs) Has(uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[uid] != nil
}

// Await blocks until the pod may take its turn as far as its gang is concerned: at once for a pod that is no member.
// After that the pod has its turn, or waits only for other members on its node. It returns an error if the batch
// fails: ctx of any of its members ends, the members have waited for longer than the limit since all of them came, a
// member no longer fits, or too few have nodes.
func (g *Gangs) Await(ctx context.Context, book Book, uid string, limit time.Duration) (w Wait, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.of[uid]
	if b == nil {
		return w, nil
	}
	b.arrived[uid] = true
	var over <-chan time.Time
	for !b.done {
		var changed <-chan struct{}
		if len(b.arrived) == len(b.members) && (b.asks == "" || b.asks == uid) {
			if b.asks = uid; over == nil {
				t := time.NewTimer(limit)
				defer t.Stop()
				over = t.C
			}
			var again bool
			if changed, again = g.ask(b, book); again {
				continue
			}
		}
		g.pause(ctx, b, changed, over, limit)
	}
	if g.of[uid] == b {
		g.remove(b, uid)
	}
	return b.wait, b.failed
}

// pause waits, without holding the lock, until something changes for a batch. The batch fails if ctx or the limit ends.
func (g *Gangs) pause(ctx context.Context, b *batch, changed <-chan struct{}, over <-chan time.Time,
	limit time.Duration) {
	member := b.changed
	g.mu.Unlock()
	var end error
	select {
	case <-changed:
	case <-member:
	case <-over:
		end = fmt.Errorf("not all of its pods had their turns after %s", limit)
	case <-ctx.Done():
		end = context.Cause(ctx)
	}
	g.mu.Lock()
	if end != nil && !b.done {
		g.end(b, end)
	}
}

// ask asks for the turns of a batch, without holding the lock meanwhile. It returns what the batch waits for. again is
// true if the batch has changed or ended. From the first time on, the batch takes no further members.
func (g *Gangs) ask(b *batch, book Book) (changed <-chan struct{}, again bool) {
	g.shut(b)
	members, left, insist, short := b.booked(), b.left, b.tries >= patience, b.short()
	b.tries++
	g.mu.Unlock()
	err := b.sched.Enough(g.isLost)
	if err == nil {
		err = short()
	}
	var r ledger.Refusal
	var wait *ledger.Wait
	if err == nil && len(members) <= maxMembers {
		r, wait, err = book.Turns(members, insist)
	}
	g.mu.Lock()
	switch {
	case b.done:
	case wait != nil:
		b.wait = Wait{wait.Why, wait.Node}
		return wait.Changed, left != b.left
	case err != nil && left != b.left: // look again without the members that have left
	case err != nil:
		g.end(b, err)
	case r.UID != "":
		g.end(b, fmt.Errorf("pod %s of it no longer fits on its node", r.UID))
	default:
		g.end(b, nil)
	}
	return nil, true
}

// short returns a function that returns an error if a node has too little for a member by now. It asks only after a
// wait, as kube-scheduler has looked just before.
func (b *batch) short() func() error {
	if b.wait.Why == "" {
		return func() error { return nil }
	}
	members := maps.Clone(b.members)
	return func() error {
		for _, uid := range slices.Sorted(maps.Keys(members)) {
			if m := members[uid]; m.Short != nil {
				if why := m.Short(); why != "" {
					return fmt.Errorf("pod %s of it no longer fits on its node: %s", uid, why)
				}
			}
		}
		return nil
	}
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

// end ends the waiting of a batch. If it fails, its members are lost, and those that have not come are given up.
func (g *Gangs) end(b *batch, err error) {
	b.done = true
	g.shut(b)
	if err != nil {
		b.failed = fmt.Errorf("gang %s: %w", b.gang, err)
		for _, uid := range slices.Sorted(maps.Keys(b.members)) {
			if g.lose(uid); !b.arrived[uid] {
				go b.sched.GiveUp(uid, b.failed) // it may call back
			}
		}
	}
	b.wake()
}

// shut makes a batch take no further members.
func (g *Gangs) shut(b *batch) {
	if g.open[b.gang] == b {
		delete(g.open, b.gang)
	}
}

func (g *Gangs) lose(uid string) {
	if len(g.lost) >= maxLost {
		clear(g.lost)
	}
	g.lost[uid] = true
}

func (g *Gangs) isLost(uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost[uid]
}

func (g *Gangs) remove(b *batch, uid string) {
	delete(b.members, uid)
	delete(b.arrived, uid)
	delete(g.of, uid)
	b.left++
	if b.asks == uid {
		b.asks = ""
	}
	if len(b.members) == 0 {
		g.shut(b)
	}
	if !b.done && len(b.arrived) == len(b.members) {
		b.wake()
	}
}

// wake has all members of the batch look again.
func (b *batch) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}
