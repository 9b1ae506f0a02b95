package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// carrying is a plan that is being carried out.
type carrying struct {
	*Cluster
	Options

	goals  []Goal
	pinned bool
	// exact is set once places are asked for on the nodes of the plan.
	exact bool
	// hold is set once successors are to be held back, and heldUntil when the first of them is held back no longer. first
	// are the parameters of their requests that name the goals. held are the pods that were evicted since.
	hold      bool
	first     map[string]string
	heldUntil time.Time
	// seated are the pods whose successors had places when others were to be held back, as long as they have some on the
	// nodes of the plan.
	seated  map[types.UID]bool
	held    []move
	looked  time.Time // when lostRoom has looked last
	lost    time.Time // since when it could not be confirmed that the goals have room; zero if they have some
	evicted int       // pods
	// leaving are the pods that this program, or an interrupted one, has evicted.
	leaving []Move
	// left are the moves whose pods have not been evicted.
	left []move
}

// move is a pod that is to move, as it was when the plan began.
type move struct {
	Move

	pod   *v1.Pod
	owner types.UID // its controller; "" if it has none
}

// Run carries out a plan that Check has accepted, and returns when all its pods run. While another program carries out
// the same plan, or one whose first pods are of the same namespace, it returns an error and changes nothing. If it has
// to stop, it evicts nothing more, releases what is kept for pods that stay, and returns the reason. If another
// program has taken the Lease of the plan, it releases nothing. Nodes remain cordoned.
func (c *Cluster) Run(ctx context.Context, p Plan, o Options) error {
	ctx, lock, err := c.hold(ctx, p, o.Say)
	if err != nil {
		return err
	}
	defer func() { lock.free(ctx) }()
	x := &carrying{Cluster: c, Options: o, goals: p.Goals, pinned: p.Pinned, leaving: slices.Clone(p.Gone)}
	if err := x.find(ctx, p.Moves); err != nil {
		return err
	}
	if o.Keep {
		if err := c.Sweep(ctx); err != nil {
			return err
		}
	}
	for _, node := range p.Empty {
		if err := c.cordon(ctx, node, false); err != nil {
			return fmt.Errorf("cordon node %s: %w", node, err)
		}
		o.Say("node " + node + " is cordoned")
	}
	err = x.name(ctx)
	if err == nil {
		err = x.rounds(ctx)
	}
	if err == nil {
		err = x.await(ctx, "pods that waited", x.RunWithin, x.goalsRun)
	}
	if err == nil && o.Keep {
		err = x.settle(ctx, p.Gone)
	}
	if err == nil {
		return nil
	}
	done := fmt.Sprintf("%d of %d pods were evicted", x.evicted, len(p.Moves))
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted, %s, carry the same plan out again to go on: %w", done, context.Cause(ctx))
	} else {
		err = fmt.Errorf("stopped, %s: %w", done, err)
	}
	lost := errors.Is(context.Cause(ctx), errLost)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), giveUpWithin)
	defer stop()
	if lost && lock.taken(end) {
		return err // the other program goes on with what is kept
	}
	return errors.Join(err, x.giveUp(end))
}

// giveUpWithin bounds how long it may take to release what is kept.
const giveUpWithin = 20 * time.Second

// find finds the pods of moves.
func (x *carrying) find(ctx context.Context, moves []Move) error {
	for _, m := range moves {
		pod, err := x.there(ctx, m)
		if err != nil {
			return err
		}
		if pod == nil {
			return fmt.Errorf("pod %s is not there any more: plan again", m.NamespacedName)
		}
		next := move{Move: m, pod: pod}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			next.owner = owner.UID
		}
		x.left = append(x.left, next)
	}
	return nil
}

// release releases what is kept for the successor of a pod, if anything was asked for.
func (x *carrying) release(ctx context.Context, m move) error {
	if !x.Keep || m.owner == "" {
		return nil
	}
	return x.unbook(ctx, m.Namespace, BookingName(m.UID), false)
}

// giveUp takes back what holds up others for pods that do not move.
func (x *carrying) giveUp(ctx context.Context) error {
	var errs []error
	for _, m := range x.left {
		errs = append(errs, x.release(ctx, m))
	}
	for _, m := range x.held { // their successors wait no longer for what they may not get
		if is, _, _, _, err := x.kept(ctx, m.Move); err == nil && !is {
			errs = append(errs, x.release(ctx, m))
		}
	}
	for _, g := range x.goals {
		g.Node = ""
		if err := x.nominate(ctx, g, false); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			errs = append(errs, fmt.Errorf("take the name of a node back from pod %s: %w", g.NamespacedName, err))
		}
	}
	return errors.Join(errs...)
}

// rounds evicts the pods, those first whose successors have places.
func (x *carrying) rounds(ctx context.Context) error {
	for len(x.left) > 0 {
		if err := x.again(ctx); err != nil || len(x.left) == 0 {
			return err
		}
		if err := x.name(ctx); err != nil {
			return err
		}
		now, err := x.next(ctx)
		if err != nil {
			return err
		}
		if x.Keep {
			if err := x.again(ctx); err != nil { // with the places where they are
				return err
			}
			now = x.still(now)
		}
		before, err := x.siblings(ctx, now)
		if err != nil {
			return err
		}
		stop := x.naming(ctx)
		gone, err := x.evict(ctx, now)
		if err != nil {
			stop()
			return err
		}
		err = x.back(ctx, gone, before)
		if stop(); err != nil {
			return err
		}
	}
	return nil
}

// still returns which of some moves are left.
func (x *carrying) still(moves []move) []move {
	return slices.DeleteFunc(slices.Clone(moves), func(m move) bool {
		return !slices.ContainsFunc(x.left, func(l move) bool { return l.UID == m.UID })
	})
}

// movesOf returns the moves of pods.
func movesOf(all []move) []Move {
	out := make([]Move, 0, len(all))
	for _, m := range all {
		out = append(out, m.Move)
	}
	return out
}

// settleWithin bounds how long budgets and reports of nodes may lag behind what has happened.
const settleWithin = 20 * time.Second

// again computes the plan again, with no other moves than those that are left. Pods that need not move any more stay.
func (x *carrying) again(ctx context.Context) error {
	left := movesOf(x.left)
	var p Plan
	err := x.until(ctx, min(settleWithin, x.AnswerWithin), func(ctx context.Context) (bool, string, error) {
		var err error
		if p, err = x.Again(ctx, left); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
	if err != nil {
		return err
	}
	needed := map[types.UID]Move{}
	for _, m := range p.Moves {
		needed[m.UID] = m
	}
	keep := x.left[:0:0]
	for _, m := range x.left {
		n, is := needed[m.UID]
		if !is {
			x.Say("pod " + m.NamespacedName.String() + " need not move any more")
			if err := x.release(ctx, m); err != nil {
				return err
			}
			continue
		}
		m.To, m.Gang = n.To, n.Gang
		keep = append(keep, m)
	}
	if x.left = keep; x.pinned {
		at := func(m move) int {
			return slices.IndexFunc(p.Moves, func(o Move) bool { return o.UID == m.UID })
		}
		slices.SortFunc(x.left, func(a, b move) int { return at(a) - at(b) })
	}
	for _, g := range p.Goals {
		if i := slices.IndexFunc(x.goals, func(o Goal) bool { return o.NamespacedName == g.NamespacedName }); i >= 0 {
			x.goals[i].Node = g.Node
		}
	}
	return nil
}

// next returns the pods to evict now. All that have places go first. Then the scheduler may keep places for others, in
// the room that has become free. The last one may go without a place, since the plan makes room for its successor.
func (x *carrying) next(ctx context.Context) ([]move, error) {
	if !x.Keep {
		return x.turn(slices.Clone(x.left)), nil
	}
	asked := x.left
	if x.pinned {
		asked = x.left[:1]
	}
	for _, m := range asked {
		if m.owner == "" {
			continue // nothing creates it again
		}
		if err := x.ask(ctx, m); err != nil {
			return nil, err
		}
	}
	have, none, err := x.places(ctx, asked)
	if err != nil {
		return nil, err
	}
	if x.pinned && len(none) > 0 {
		m := asked[0]
		return nil, fmt.Errorf("no place can be kept for the successor of pod %s on node %s: %s", m.NamespacedName, m.To,
			none[m.UID])
	}
	if err := x.mayLack(len(have), none); err != nil {
		if x.exact {
			return nil, err
		}
		return x.exactly(ctx)
	}
	now := x.turn(x.whole(have))
	switch {
	case len(none) == 0:
		x.Say(fmt.Sprintf("the scheduler keeps %s", count(len(have), "place", "places")))
		return now, nil
	case len(now) > 0:
		x.Say(fmt.Sprintf("the scheduler keeps %s, and perhaps more when these pods have moved",
			count(len(have), "place", "places")))
		return now, nil
	case len(have) > 0 && !x.exact: // for parts of gangs, and perhaps for others than the plan has places for
		return x.exactly(ctx)
	case len(none) > 1, len(have) > 0 && len(x.goals) > 0: // the others of its gang would leave with the only one
		return x.holdBack(ctx, have, none)
	}
	for _, why := range none { // of the only one
		x.Say(fmt.Sprintf("no place is kept for the successor of %s: it gets room that the plan makes (%s)", x.names(none),
			why))
	}
	return slices.Clone(x.left), nil
}

// exactly asks for all places once more, each on its node of the plan: where the scheduler chooses, the place of one
// successor may be the only one for another.
func (x *carrying) exactly(ctx context.Context) ([]move, error) {
	x.exact = true
	for _, m := range x.left {
		if err := x.release(ctx, m); err != nil {
			return nil, err
		}
	}
	return x.next(ctx)
}

// ask asks the scheduler to keep a place for the successor of a pod.
func (x *carrying) ask(ctx context.Context, m move) error {
	how := booking{hold: x.hold, first: x.first}
	if x.seated[m.UID] {
		how = booking{} // its place can be kept before any pod leaves
	}
	if x.pinned || x.hold || x.exact {
		how.on = m.To
	}
	return x.book(ctx, m.pod, how, false)
}

// mayLack returns an error that names a pod whose successor has no place, if each has to have one, or if fewer have
// places than the plan has on nodes that no pod of it leaves. Which of the successors have them does not matter.
func (x *carrying) mayLack(have int, none map[types.UID]string) error {
	for _, m := range x.left {
		if !slices.ContainsFunc(x.left, func(o move) bool { return o.From == m.To }) {
			have--
		}
	}
	if have >= 0 && !x.Whole {
		return nil
	}
	for _, m := range x.left {
		if why, lacks := none[m.UID]; lacks {
			return fmt.Errorf("no place can be kept for the successor of pod %s: %s", m.NamespacedName, why)
		}
	}
	return nil
}

// places returns the pods of some whose successors have places, and why the others have none. A request without room
// is tried again by the scheduler when something changes, so the answers count when they have been the same for a
// while. As long as a pod that was evicted still ends on the node of a place, they do not count before AnswerWithin has
// passed. What is not kept any more is asked for once more.
func (x *carrying) places(ctx context.Context, asked []move) (have []move, none map[types.UID]string, err error) {
	same, answered := 0, false
	said := "no scheduler answers whether it keeps places: does tenon-scheduler run, and may it read ProvisioningRequests?"
	err = x.until(ctx, x.AnswerWithin, func(ctx context.Context) (done bool, why string, err error) {
		before := len(have)
		answered = false
		have, none = nil, map[types.UID]string{}
		silent := false
		for _, m := range asked {
			if m.owner == "" { // what nothing creates again needs no place
				have = append(have, m)
				continue
			}
			is, has, over, text, err := x.kept(ctx, m.Move)
			switch {
			case err != nil:
				return false, "", err
			case over:
				said = fmt.Sprintf("no place is kept for the successor of pod %s: %s", m.NamespacedName, text)
				if err := x.ask(ctx, m); err != nil {
					return false, "", err
				}
				has = false
			case is:
				have = append(have, m)
				continue
			case !has && text != "":
				said = fmt.Sprintf("the scheduler cannot judge the successor of pod %s: %s", m.NamespacedName, text)
			}
			none[m.UID] = text
			silent = silent || !has
		}
		ends, err := x.ends(ctx, none)
		if err != nil {
			return false, "", err
		}
		if same++; len(have) != before || ends {
			same = 0
		}
		if err := x.name(ctx); err != nil {
			return false, "", err
		}
		answered = !silent && ends
		return len(none) == 0 || !silent && same >= patience, said, nil
	})
	if answered && ctx.Err() == nil {
		err = nil // only the time has passed, and pods still end
	}
	return have, none, err
}

// ends reports whether a pod that was evicted is still there, on the node where the plan has the place of a successor
// that has none.
func (x *carrying) ends(ctx context.Context, none map[types.UID]string) (bool, error) {
	for _, e := range x.leaving {
		if !slices.ContainsFunc(x.left, func(m move) bool {
			_, lacks := none[m.UID]
			return lacks && m.To == e.From
		}) {
			continue
		}
		pod, err := x.there(ctx, e)
		if err != nil {
			return false, err
		}
		if pod != nil && pod.DeletionTimestamp != nil {
			return true, nil
		}
	}
	return false, nil
}

// namingEvery is how often the names of nodes are written again while pods leave.
const namingEvery = 50 * time.Millisecond

// naming names the nodes of the goals again and again until stop is called: an attempt that fails because not all pods
// are being deleted yet takes the name back, and successors could take the room.
func (x *carrying) naming(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { wait.UntilWithContext(ctx, func(ctx context.Context) { _ = x.name(ctx) }, namingEvery) })
	return func() {
		cancel()
		done.Wait()
	}
}

// until calls look until it returns true or an error. After a time it gives up, with the last reason.
func (x *carrying) until(ctx context.Context, within time.Duration,
	look func(context.Context) (done bool, why string, err error)) error {
	why := ""
	err := wait.PollUntilContextTimeout(ctx, poll, within, true, func(context.Context) (done bool, err error) {
		done, why, err = look(ctx)
		return done, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("not within %s: %s", within, why)
	}
	return err
}

// count returns a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
