// Package gangs lets the members of a gang take their turns together, so that a gang does not start in part.
//
// kube-scheduler reserves the members of a gang one after the other, and then binds each of them in a goroutine of its
// own. Nothing there keeps one member from being bound while another one waits for its turn, or has lost its place. So
// the members that are reserved and not yet bound form a batch: each waits in PreBind until all have come there, and
// then all have their turns, or none. Members that are reserved once a batch asks for its turns form another one, which
// waits until the batch before it has its turns or has failed.
//
// Invariant: no member of a batch has its turn before all members of the batch have come, enough of the gang have
// nodes, and the ledger gives the batch its turns in one step. Enough are the members of the batch, those that have had
// their turns, and those that are bound: no member counts that waits in another batch, since that one may fail. If a
// batch fails, each of its members learns that, and none of them counts for the gang before it is reserved again. The
// package makes no booking and ends none, and knows nothing of pods that belong to no gang.
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
	// Enough returns an error if too few members of the gang have nodes for the gang to start. Of the members that are not
	// bound yet, only those count for which counts is true.
	Enough(counts func(uid string) bool) error
	// GiveUp ends the attempt to bind a member that is on its way, but has not come yet.
	GiveUp(uid string, why error)
}

// Gangs has the batches of a scheduler. The zero value is empty. Its methods may be called by any goroutine.
type Gangs struct {
	mu sync.Mutex
	// undecided has, by gang, the batches that neither have their turns nor have failed, the oldest first. The last one
	// takes further members, unless it has asked for its turns. of has the batch of each member by UID.
	undecided map[string][]*batch
	of        map[string]*batch
	// turned has members that have had their turns, by UID, as they count for the gang until the scheduler sees them
	// bound. When it is full it becomes earlier, and an empty one takes its place.
	turned, earlier map[string]bool
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
	shut    bool   // it takes no further members
	changed chan struct{}
	wait    Wait
	done    bool
	failed  error
	joined  time.Time   // when its last member was added
	look    *time.Timer // until it asks for its turns
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
	// maxTurned bounds the members that are remembered because they have had their turns, twice. A member that is not
	// bound after so many others does not count any more.
	maxTurned = 8192
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

// Reserved adds a member that has been reserved, and will be bound or given up. It is given up if no other one is added
// within the limit, and too few have nodes then: another plugin may have refused one after the group cycle, and
// kube-scheduler would let the others keep their room for minutes.
func (g *Gangs) Reserved(gang string, m Member, s Scheduler, limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.undecided, g.of, g.turned = map[string][]*batch{}, map[string]*batch{}, map[string]bool{}
	}
	g.forget(m.UID)
	var b *batch
	if all := g.undecided[gang]; len(all) > 0 && !all[len(all)-1].shut {
		b = all[len(all)-1]
	} else {
		b = &batch{gang: gang, members: map[string]Member{}, arrived: map[string]bool{}, changed: make(chan struct{})}
		g.undecided[gang] = append(all, b)
		b.look = time.AfterFunc(limit, func() { g.look(b, limit) })
	}
	b.sched, b.members[m.UID], g.of[m.UID], b.joined = s, m, b, time.Now()
}

// look ends a batch to which no member has been added for so long, if too few have nodes. Otherwise it looks again
// later. A batch behind another one waits for that, and one that asks has a limit of its own.
func (g *Gangs) look(b *batch, limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.done || b.shut {
		return
	}
	if rest := limit - time.Since(b.joined); rest > 0 || b != g.undecided[b.gang][0] {
		b.look.Reset(max(rest, limit/2))
		return
	}
	joined := b.joined
	g.mu.Unlock()
	err := b.sched.Enough(func(uid string) bool { return g.counts(b, uid) })
	g.mu.Lock()
	switch {
	case b.done || b.shut:
	case err != nil && joined.Equal(b.joined):
		g.end(b, fmt.Errorf("after %s, %w", limit, err))
	default:
		b.look.Reset(limit)
	}
}

// Lost removes a member that will not be bound. It changes nothing for other pods.
func (g *Gangs) Lost(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(uid)
}

// forget removes a member. It does not count for its gang any more.
func (g *Gangs) forget(uid string) {
	if b := g.of[uid]; b != nil {
		g.remove(b, uid)
	}
	delete(g.turned, uid)
	delete(g.earlier, uid)
}

// Has reports whether a pod is a member that has not come yet, or waits.
func (g *Gangs) Has(uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[uid] != nil
}

// Await blocks until the pod may take its turn as far as its gang is concerned: at once for a pod that is no member.
// After that the pod has its turn, or waits only for other members on its node. It returns an error if the batch
// fails: ctx of any of its members ends, the members have waited for longer than the limit since the batch could ask
// first, a member no longer fits, or too few have nodes.
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
		if len(b.arrived) == len(b.members) && b == g.undecided[b.gang][0] && (b.asks == "" || b.asks == uid) {
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
	b.shut = true
	members, left, insist, short := b.booked(), b.left, b.tries >= patience, b.short()
	b.tries++
	g.mu.Unlock()
	err := b.sched.Enough(func(uid string) bool { return g.counts(b, uid) })
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

// end ends the waiting of a batch. If it fails, its members that have not come are given up.
func (g *Gangs) end(b *batch, err error) {
	if b.done = true; err != nil {
		b.failed = fmt.Errorf("gang %s: %w", b.gang, err)
	}
	for _, uid := range slices.Sorted(maps.Keys(b.members)) {
		switch {
		case err == nil:
			g.hadTurn(uid)
		case !b.arrived[uid]:
			go b.sched.GiveUp(uid, b.failed) // it may call back
		}
	}
	b.wake()
	g.decided(b)
}

// decided lets the next batch of the gang ask.
func (g *Gangs) decided(b *batch) {
	b.look.Stop()
	all := slices.DeleteFunc(g.undecided[b.gang], func(o *batch) bool { return o == b })
	if len(all) == 0 {
		delete(g.undecided, b.gang)
		return
	}
	g.undecided[b.gang] = all
	all[0].wake()
}

func (g *Gangs) hadTurn(uid string) {
	if len(g.turned) >= maxTurned {
		g.turned, g.earlier = map[string]bool{}, g.turned
	}
	g.turned[uid] = true
}

// counts reports whether a pod that is not bound yet counts for its gang when a batch asks.
func (g *Gangs) counts(b *batch, uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[uid] == b || g.turned[uid] || g.earlier[uid]
}

func (g *Gangs) remove(b *batch, uid string) {
	delete(b.members, uid)
	delete(b.arrived, uid)
	delete(g.of, uid)
	b.left++
	if b.asks == uid {
		b.asks = ""
	}
	switch {
	case b.done:
	case len(b.members) == 0:
		b.done, b.failed = true, fmt.Errorf("gang %s: the pod was given up", b.gang)
		b.wake()
		g.decided(b)
	case len(b.arrived) == len(b.members):
		b.wake()
	}
}

// wake has all members of the batch look again.
func (b *batch) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}
