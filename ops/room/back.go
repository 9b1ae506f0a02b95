package room

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// This file waits until successors and pods that waited run.

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

// back waits until as many new pods of each controller run as were evicted, and releases what was kept for them. A
// controller that is gone, or has all the pods that it wants, creates none.
func (x *carrying) back(ctx context.Context, gone []move, before map[types.UID]*v1.Pod) error {
	given := map[types.UID]bool{}
	err := x.await(ctx, "successors", x.RunWithin+pause(gone), func(ctx context.Context) (waiting []string, err error) {
		if err := x.lostRoom(ctx); err != nil {
			return nil, err
		}
		now, err := x.siblings(ctx, gone)
		if err != nil {
			return nil, err
		}
		runs, fresh, alive := tally(now, before, gone)
		for _, m := range gone {
			switch {
			case m.owner == "" || given[m.UID]:
			case runs[m.owner] > 0:
				runs[m.owner]--
				fresh[m.owner]--
			case fresh[m.owner] <= 0 && x.complete(ctx, m, alive[m.owner]):
				given[m.UID] = true
				x.Say("the controller of pod " + m.NamespacedName.String() + " creates no other pod")
			default:
				waiting = append(waiting, "the successor of "+m.NamespacedName.String()+waits(now, before, m.owner))
			}
		}
		return waiting, nil
	})
	if err != nil {
		return err
	}
	for _, m := range gone {
		if err := x.release(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// A Job waits for firstPause before it creates a pod in place of one that has failed, twice as long for each further
// one since its last success, and at most for longestPause (DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff of
// pkg/controller/job in 1.37). Evicted pods that a rule ignores count, too.
const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// pause returns how long Jobs wait at least before they create all successors of pods that leave at the same time.
func pause(gone []move) (out time.Duration) {
	pods := map[types.UID]int{}
	for _, m := range gone {
		if by, _ := podapi.ReplacedBy(m.pod); by.Resource != "jobs" {
			continue
		}
		pods[m.owner]++
		out = max(out, min(longestPause, firstPause<<min(pods[m.owner]-1, 10)))
	}
	return out
}

// tally counts the pods of each controller that last (alive), that were not there before (fresh), and that run as well
// (runs). Evicted pods do not last, although a list may not show yet that they are being deleted.
func tally(now, before map[types.UID]*v1.Pod, gone []move) (runs, fresh map[types.UID]int, alive map[types.UID]int64) {
	runs, fresh, alive = map[types.UID]int{}, map[types.UID]int{}, map[types.UID]int64{}
	for uid, p := range now {
		if p.DeletionTimestamp != nil || p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded ||
			slices.ContainsFunc(gone, func(m move) bool { return m.UID == uid }) {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(p).UID
		if alive[owner]++; before[uid] == nil {
			fresh[owner]++
			if p.Status.Phase == v1.PodRunning {
				runs[owner]++
			}
		}
	}
	return runs, fresh, alive
}

// complete reports whether it is certain that the controller of a pod creates no more pods, with so many alive.
func (x *carrying) complete(ctx context.Context, m move, alive int64) bool {
	owner := metav1.GetControllerOfNoCopy(m.pod)
	resource, known := podapi.ReplacedBy(m.pod)
	if !known { // such as a kind of the same name in another API
		return false
	}
	o, err := x.dynamic.Resource(resource).Namespace(m.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	if err != nil { // without the right to read it, the wait ends with its time
		return false
	}
	return o.GetUID() != owner.UID || o.GetDeletionTimestamp() != nil || alive >= wanted(o, alive)
}

// wanted returns how many pods a controller wants, with so many alive.
func wanted(o *unstructured.Unstructured, alive int64) int64 {
	if o.GetKind() != "Job" {
		return number(o, 1, "spec", "replicas")
	}
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return 0
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		ends := []any{"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}
		if slices.Contains(ends, fields["type"]) && fields["status"] == "True" {
			return 0
		}
	}
	most, ended := number(o, 1, "spec", "parallelism"), number(o, 0, "status", "succeeded")
	if completions := number(o, -1, "spec", "completions"); completions >= 0 {
		return min(most, completions-ended)
	}
	if ended > 0 { // without completions, the first success ends the work
		return alive
	}
	return most
}

// number returns a number of an object, or a default.
func number(o *unstructured.Unstructured, byDefault int64, field ...string) int64 {
	n, set, err := unstructured.NestedInt64(o.Object, field...)
	if !set || err != nil {
		return byDefault
	}
	return n
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
func (x *carrying) await(ctx context.Context, what string, within time.Duration,
	look func(context.Context) ([]string, error)) error {
	said := 0
	return x.until(ctx, within, func(ctx context.Context) (bool, string, error) {
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

// settle releases what an interrupted program has kept for pods that it has evicted, once the pods of their controllers
// have nodes.
func (x *carrying) settle(ctx context.Context, gone []Move) error {
	for _, m := range gone {
		r, err := x.requests.In(m.Namespace).Get(ctx, BookingName(m.UID), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read ProvisioningRequest %s/%s: %w", m.Namespace, BookingName(m.UID), err)
		}
		of := move{Move: m, owner: types.UID(r.Spec.Parameters[provisioning.PodsOf])}
		if err := x.await(ctx, "successors", x.RunWithin, func(ctx context.Context) (waiting []string, err error) {
			now, err := x.siblings(ctx, []move{of})
			if err != nil {
				return nil, err
			}
			for _, p := range now {
				if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
					waiting = append(waiting, "pod "+p.Namespace+"/"+p.Name+why(p))
				}
			}
			return waiting, nil
		}); err != nil {
			return err
		}
		if err := x.unbook(ctx, m.Namespace, BookingName(m.UID), false); err != nil {
			return err
		}
	}
	return nil
}
