package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/ops/evict"
)

// carrying is a plan that is being carried out.
type carrying struct {
	*Cluster
	Options

	goals []Goal
	// left are the moves whose pods have not been evicted.
	left []move
	// away are nodes where pods are to get room. What becomes free there in several steps might be taken in between, so
	// all pods leave such a node at the same time.
	away map[string]bool
}

// move is a pod that is to move, as it was when the plan began.
type move struct {
	Move

	pod   *v1.Pod
	owner types.UID // its controller; "" if it has none
}

// Run carries out a plan that Check has accepted, and returns when all its pods run. If it has to stop, it evicts
// nothing more, releases what is kept for pods that stay, and returns the reason. Nodes remain cordoned.
func (c *Cluster) Run(ctx context.Context, p Plan, o Options) error {
	x := &carrying{Cluster: c, Options: o, goals: p.Goals, away: map[string]bool{}}
	for _, g := range p.Goals {
		x.away[g.Node] = true
	}
	for _, m := range p.Moves {
		pod, err := c.there(ctx, m)
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
	for _, node := range p.Empty {
		if err := c.cordon(ctx, node, false); err != nil {
			return fmt.Errorf("cordon node %s: %w", node, err)
		}
		o.Say("node " + node + " is cordoned")
	}
	err := x.rounds(ctx)
	if err == nil {
		err = x.await(ctx, "pods that waited", x.goalsRun)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && !o.Once {
		return fmt.Errorf("interrupted, carry the same plan out again to go on: %w", context.Cause(ctx))
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), giveUpWithin)
	defer stop()
	return errors.Join(fmt.Errorf("stopped, %d of %d pods were evicted: %w", len(p.Moves)-len(x.left), len(p.Moves), err),
		x.giveUp(ctx))
}

// giveUpWithin bounds how long it may take to release what is kept.
const giveUpWithin = 20 * time.Second

// giveUp takes back what holds up others for pods that do not move.
func (x *carrying) giveUp(ctx context.Context) error {
	var errs []error
	for _, m := range x.left {
		errs = append(errs, x.release(ctx, m.Move))
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
	if err := x.name(ctx); err != nil {
		return err
	}
	if x.Keep {
		for _, m := range x.left {
			if m.owner == "" {
				continue // nothing creates it again
			}
			if err := x.book(ctx, m.pod, false); err != nil {
				return err
			}
		}
	}
	for len(x.left) > 0 {
		now, err := x.next(ctx)
		if err != nil {
			return err
		}
		if err := x.again(ctx); err != nil {
			return err
		}
		before, err := x.siblings(ctx, now)
		if err != nil {
			return err
		}
		if err := x.evict(ctx, now); err != nil {
			return err
		}
		if err := x.back(ctx, now, before); err != nil {
			return err
		}
	}
	return nil
}

// next returns the pods to evict now: all, if each successor has a place or nothing is kept. Otherwise those whose
// successors have one and which leave no node where others are to get room; and if there are none, all: the rest gets
// room that becomes free by the plan itself.
func (x *carrying) next(ctx context.Context) ([]move, error) {
	if !x.Keep {
		return slices.Clone(x.left), nil
	}
	have, none, err := x.places(ctx)
	if err != nil {
		return nil, err
	}
	if len(none) == 0 {
		x.Say(fmt.Sprintf("the scheduler keeps %s", count(len(have), "place", "places")))
		return have, nil
	}
	if x.Whole {
		return nil, x.unkept(none)
	}
	early := slices.DeleteFunc(have, func(m move) bool { return x.away[m.From] })
	if len(early) > 0 {
		x.Say(fmt.Sprintf("the scheduler keeps %s, and more when these pods have moved",
			count(len(early), "place", "places")))
		return early, nil
	}
	for uid, why := range none {
		i := slices.IndexFunc(x.left, func(m move) bool { return m.UID == uid })
		x.Say(fmt.Sprintf("no place is kept for the successor of %s: it gets room that the plan makes (%s)",
			x.left[i].NamespacedName, why))
	}
	return slices.Clone(x.left), nil
}

// unkept returns an error that names a pod whose successor has no place.
func (x *carrying) unkept(none map[types.UID]string) error {
	i := slices.IndexFunc(x.left, func(m move) bool { _, is := none[m.UID]; return is })
	return fmt.Errorf("no place can be kept for the successor of pod %s: %s", x.left[i].NamespacedName,
		none[x.left[i].UID])
}

// places returns the pods whose successors have places, and why the others have none. A request without room is tried
// again by the scheduler when something changes, so the answers count when they have been the same for a while.
func (x *carrying) places(ctx context.Context) (have []move, none map[types.UID]string, err error) {
	same := 0
	err = x.until(ctx, x.AnswerWithin, func(ctx context.Context) (done bool, why string, err error) {
		before := len(have)
		have, none = nil, map[types.UID]string{}
		silent := false
		for _, m := range x.left {
			is, answered, text := m.owner == "", true, "" // what nothing creates again needs no place
			if !is {
				if is, answered, text, err = x.kept(ctx, m.Move); err != nil {
					return false, "", err
				}
			}
			if is {
				have = append(have, m)
			} else {
				none[m.UID] = text
			}
			silent = silent || !answered
		}
		if same++; len(have) != before {
			same = 0
		}
		return len(none) == 0 || !silent && same >= x.patience, "no scheduler answers whether it keeps places: does " +
			"tenon-scheduler run, and may it read ProvisioningRequests?", x.name(ctx)
	})
	return have, none, err
}

// again computes the rest of the plan again. Budgets and reports may lag behind, so it tries for a while.
func (x *carrying) again(ctx context.Context) error {
	left := make([]Move, 0, len(x.left))
	for _, m := range x.left {
		left = append(left, m.Move)
	}
	return x.until(ctx, x.AnswerWithin, func(ctx context.Context) (bool, string, error) {
		err := x.Again(ctx, left)
		if err == nil || ctx.Err() != nil {
			return err == nil, "", nil
		}
		return false, err.Error(), x.name(ctx)
	})
}

// evict evicts pods. While a disruption budget refuses one, it asks again.
func (x *carrying) evict(ctx context.Context, now []move) error {
	todo := slices.Clone(now)
	return x.until(ctx, x.EvictWithin, func(ctx context.Context) (bool, string, error) {
		why := ""
		for _, m := range slices.Clone(todo) {
			switch err := x.leave(ctx, m.pod); {
			case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is ending, gone or replaced
				x.Say("pod " + m.NamespacedName.String() + " is evicted from " + m.From)
				is := func(o move) bool { return o.UID == m.UID }
				todo, x.left = slices.DeleteFunc(todo, is), slices.DeleteFunc(x.left, is)
			case apierrors.IsTooManyRequests(err):
				why = fmt.Sprintf("pod %s: %v", m.NamespacedName, err)
			default:
				return false, "", fmt.Errorf("evict pod %s: %w", m.NamespacedName, err)
			}
		}
		return len(todo) == 0, why, x.name(ctx)
	})
}

// leave evicts a pod, by the caller's function if there is one.
func (x *carrying) leave(ctx context.Context, p *v1.Pod) error {
	if x.Evict == nil {
		return evict.Pod(ctx, x.dynamic, p)
	}
	if err := evict.Try(ctx, x.dynamic, p); err != nil {
		return err
	}
	return x.Evict(ctx, p)
}

// siblings returns the pods of the controllers of moves, by UID.
func (x *carrying) siblings(ctx context.Context, of []move) (map[types.UID]*v1.Pod, error) {
	owners, namespaces := map[types.UID]bool{}, map[string]bool{}
	for _, m := range of {
		owners[m.owner], namespaces[m.Namespace] = true, true
	}
	out := map[types.UID]*v1.Pod{}
	for namespace := range namespaces {
		list, err := x.core.Pods.In(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.UID != "" && owners[owner.UID] {
				out[p.UID] = p
			}
		}
	}
	return out, nil
}

// back waits until as many new pods of each controller run as were evicted, and releases what was kept for them.
func (x *carrying) back(ctx context.Context, gone []move, before map[types.UID]*v1.Pod) error {
	err := x.await(ctx, "successors", func(ctx context.Context) (waiting []string, err error) {
		now, err := x.siblings(ctx, gone)
		if err != nil {
			return nil, err
		}
		runs := map[types.UID]int{}
		for uid, p := range now {
			if before[uid] == nil && p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil {
				runs[metav1.GetControllerOfNoCopy(p).UID]++
			}
		}
		for _, m := range gone {
			switch {
			case m.owner == "":
			case runs[m.owner] == 0:
				waiting = append(waiting, "the successor of "+m.NamespacedName.String()+waits(now, before, m.owner))
			default:
				runs[m.owner]--
			}
		}
		return waiting, nil
	})
	if err != nil {
		return err
	}
	for _, m := range gone {
		if err := x.release(ctx, m.Move); err != nil {
			return err
		}
	}
	return nil
}

// waits returns why a new pod of a controller does not run, or that there is none.
func waits(now, before map[types.UID]*v1.Pod, owner types.UID) string {
	for uid, p := range now {
		if before[uid] == nil && metav1.GetControllerOfNoCopy(p).UID == owner && p.Status.Phase != v1.PodRunning {
			return ", pod " + p.Name + why(p)
		}
	}
	return ", which was not created"
}

// why returns what a pod waits for.
func why(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return ": " + c.Message
		}
	}
	if p.Status.Reason != "" {
		return ": " + p.Status.Reason + ": " + p.Status.Message
	}
	if p.Spec.NodeName != "" {
		return " is on node " + p.Spec.NodeName + " and does not run yet"
	}
	return " has no node yet"
}

// goalsRun returns the goals that do not run yet, each with the reason.
func (x *carrying) goalsRun(ctx context.Context) (waiting []string, err error) {
	for _, g := range x.goals {
		p, err := x.core.Pods.In(g.Namespace).Get(ctx, g.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read pod %s: %w", g.NamespacedName, err)
		}
		if p.Status.Phase == v1.PodFailed {
			return nil, fmt.Errorf("pod %s failed on node %s: %s: %s", g.NamespacedName, p.Spec.NodeName, p.Status.Reason,
				p.Status.Message)
		}
		if p.Status.Phase != v1.PodRunning && p.Status.Phase != v1.PodSucceeded {
			waiting = append(waiting, "pod "+g.NamespacedName.String()+why(p))
		}
	}
	return waiting, nil
}

// await waits until look returns nothing that is waited for.
func (x *carrying) await(ctx context.Context, what string, look func(context.Context) ([]string, error)) error {
	said := 0
	return x.until(ctx, x.RunWithin, func(ctx context.Context) (bool, string, error) {
		waiting, err := look(ctx)
		if err != nil {
			return false, "", err
		}
		if len(waiting) > 0 && len(waiting) != said {
			said = len(waiting)
			x.Say(fmt.Sprintf("waiting for %s: %d", what, said))
		}
		return len(waiting) == 0, strings.Join(waiting, "; "), x.name(ctx)
	})
}

// name names the nodes of the goals to the scheduler again, which takes a name back when an attempt fails.
func (x *carrying) name(ctx context.Context) error {
	for _, g := range x.goals {
		p, err := x.core.Pods.In(g.Namespace).Get(ctx, g.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("pod %s, which was to get room, is gone", g.NamespacedName)
		case err != nil:
			return fmt.Errorf("read pod %s: %w", g.NamespacedName, err)
		case p.Spec.NodeName != "" || p.Status.NominatedNodeName == g.Node:
			continue
		}
		if err := x.nominate(ctx, g, false); apierrors.IsInvalid(err) {
			continue // it has got a node since
		} else if err != nil {
			return fmt.Errorf("name node %s to the scheduler for pod %s: %w", g.Node, g.NamespacedName, err)
		}
	}
	return nil
}

// until calls look until it returns true or an error. After a time it gives up, with the last reason.
func (x *carrying) until(ctx context.Context, within time.Duration,
	look func(context.Context) (done bool, why string, err error)) error {
	why := ""
	err := wait.PollUntilContextTimeout(ctx, x.poll, within, true, func(context.Context) (done bool, err error) {
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
