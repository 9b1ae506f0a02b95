package preempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// chooser is kube-scheduler's DefaultPreemption with another choice of victims on a node.
type chooser struct {
	*defaultpreemption.DefaultPreemption
	pre *Preemption
}

// choose returns the cheapest set of pods of lower priority without which the pod fits on a node, the most important
// pod first, and how many of these evictions violate a PodDisruptionBudget. The ledger's verdict and all filters have
// accepted the pod without the set. info and cs must be copies, because choose changes them. For nodes that the
// ledger does not have, and for pods that no node would align, it returns what upstream returns.
func (c chooser) choose(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo,
	pdbs []*policy.PodDisruptionBudget, upstream func() ([]*v1.Pod, int, *fwk.Status)) ([]*v1.Pod, int, *fwk.Status) {
	t := c.pre.trial(ctx, cs, pod, info)
	if t == nil {
		return upstream()
	}
	v, status := t.withoutVictims()
	if !status.IsSuccess() {
		return nil, 0, status
	}
	choice, ok := evict.Choose(t.problem(v, pdbs))
	if !ok {
		t.noteNominated()
	}
	switch {
	case t.err != nil:
		return nil, 0, fwk.AsStatus(fmt.Errorf("choose victims on node %s: %w", info.Node().Name, t.err))
	case !ok && t.refusal != nil:
		return nil, 0, t.refusal
	case !ok:
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "does not fit without pods of lower priority either")
	}
	var out []*v1.Pod
	for _, i := range choice.Set {
		out = append(out, t.victims[i].GetPod())
	}
	slices.SortStableFunc(out, t.compareImportance)
	c.pre.plans.put(string(pod.UID), t.plan(out))
	return out, choice.Cost.Violations, nil
}

// trial is the search for victims on one node. It removes pods from copies of the node and of the cycle's state, and
// asks whether the pod fits.
type trial struct {
	Attempt
	pre  *Preemption
	ctx  context.Context
	cs   fwk.CycleState
	pod  *v1.Pod
	info fwk.NodeInfo
	node *state.Node
	// victims are the pods that may be evicted. leaving are pods of any priority that are being deleted and will be
	// gone soon.
	victims, leaving []fwk.PodInfo

	gone    map[string]fwk.PodInfo // by UID: the pods that were removed from cs and info
	work    int                    // containers judged so far
	refusal *fwk.Status            // the filters' status for the first set that they judged
	err     error
}

// trial returns the trial of a node, or nil if the plugin does not judge the node. The trial will change info and cs.
func (pre *Preemption) trial(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *trial {
	a, ok := pre.plugin.Attempt(cs)
	if !ok {
		return nil
	}
	n := a.Node(info.Node().Name)
	if n == nil {
		return nil
	}
	t := &trial{Attempt: a, pre: pre, ctx: ctx, cs: cs, pod: pod, info: info, node: n, gone: map[string]fwk.PodInfo{}}
	for _, p := range info.GetPods() {
		switch {
		case pre.isLeaving(p):
			t.leaving = append(t.leaving, p)
		case p.GetPod().DeletionTimestamp == nil && t.mayGo(p):
			t.victims = append(t.victims, p)
		}
	}
	return t
}

// soon bounds the time between now and the end of a leaving pod's grace period, whether the end is to come or has
// passed. If it passed longer ago, the pod is stuck, and its end cannot be foreseen.
const soon = time.Minute

// isLeaving reports whether a pod is being deleted and will be gone soon.
func (pre *Preemption) isLeaving(p fwk.PodInfo) bool {
	d := p.GetPod().DeletionTimestamp
	return d != nil && pre.now().Sub(d.Time).Abs() <= soon
}

// partners reports whether two pods demand to be together. One that evicts the other would be alone where it wants to
// be with it.
func partners(p, q *v1.Pod) bool {
	key := apipod.Relations(p).Together
	return key != "" && key == apipod.Relations(q).Together
}

// mayGo reports whether the pod of the trial may evict p: p has a lower priority, is no partner, and kube-scheduler
// allows it.
func (t *trial) mayGo(p fwk.PodInfo) bool {
	return corev1.PodPriority(p.GetPod()) < corev1.PodPriority(t.pod) && !partners(p.GetPod(), t.pod) &&
		t.pre.eligible(t.info, p, t.pod)
}

// lower returns the pods of a list that the pod of the trial may evict.
func (t *trial) lower(pods []fwk.PodInfo) []fwk.PodInfo {
	return slices.DeleteFunc(slices.Clone(pods), func(p fwk.PodInfo) bool { return !t.mayGo(p) })
}

// compareImportance orders pods by importance, the most important first, as kube-scheduler does.
func (t *trial) compareImportance(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)), cmp.Compare(started(a), started(b)))
}

// started returns when a pod was started, in nanoseconds. Like kube-scheduler, it returns the present time for a pod
// that was not started.
func started(p *v1.Pod) int64 { return schedutil.GetPodStartTime(p).UnixNano() }

// doubtful returns why no pod may be evicted from the node in its present state, or "". One reason is that pods are
// assumed there: if a pod leaves before they are admitted, they may get other CPUs than predicted.
func (t *trial) doubtful() string { return doubtful(t.node, t.info) }

func doubtful(n *state.Node, info fwk.NodeInfo) string {
	if why := n.Doubtful(); why != "" {
		return why
	}
	if len(Departed(n, info)) > 0 {
		return "pods have just left the node"
	}
	here := map[string]*v1.Pod{}
	for _, p := range info.GetPods() {
		here[string(p.GetPod().UID)] = p.GetPod()
	}
	for _, e := range n.Entries {
		if p := here[e.Pod.UID]; e.Source == state.Predicted && p != nil && !kube.Started(p) {
			return "pods are assumed on the node: no pod is evicted before they are admitted"
		}
	}
	return ""
}

// refusalStatus returns the status of a verdict that refuses the pod.
func (t *trial) refusalStatus(v place.Verdict) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, t.pre.plugin.Reasons(t.Pod, v)...)
}

// withoutVictims returns the verdict on the node without any possible victim, or a status if no pod may be evicted
// from the node. In the latter case, if the node may accept the pod later, it records the node as passed over.
func (t *trial) withoutVictims() (v place.Verdict, status *fwk.Status) {
	if len(t.victims) == 0 {
		t.noteNominated()
		return v, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, t.pre.Texts.NoVictims)
	}
	n := t.without(slices.Concat(t.leaving, t.victims))
	v = n.Place(t.Pod, t.Demand)
	if !n.Might(t.Pod, t.Demand) {
		return v, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, t.refusalStatus(v).Reasons()...)
	}
	why := t.doubtful()
	if why == "" && v.Fits() {
		return v, nil
	}
	t.pre.plans.doubt(string(t.pod.UID), t.node.Name)
	if why == "" {
		return v, t.refusalStatus(v)
	}
	return v, fwk.NewStatus(fwk.Unschedulable, why)
}

// noteNominated records the node as passed over if pods of equal or higher priority are nominated to it, so that the
// pod is tried again: whether this pod fits depends on where those pods are placed.
func (t *trial) noteNominated() {
	if slices.ContainsFunc(t.pre.Handle.NominatedPodsForNode(t.node.Name), func(p fwk.PodInfo) bool {
		return p.GetPod().UID != t.pod.UID && corev1.PodPriority(p.GetPod()) >= corev1.PodPriority(t.pod)
	}) {
		t.pre.plans.doubt(string(t.pod.UID), t.node.Name)
	}
}

// without returns the node without the given pods.
func (t *trial) without(pods []fwk.PodInfo) *state.Node {
	uids := make([]string, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, string(p.GetPod().UID))
	}
	return t.node.Without(uids...)
}

// works reports whether the pod fits without the given pods. It asks the ledger first, which costs little, and then
// all filters, which count the pods that are nominated to the node. An error ends the search; see trial.err.
func (t *trial) works(pods []fwk.PodInfo) bool {
	if t.err != nil || !t.afford() || !t.without(pods).Takes(t.Pod, t.Demand) {
		return false
	}
	if t.err = t.removeExactly(pods); t.err != nil {
		return false
	}
	status := t.pre.Handle.RunFilterPluginsWithNominatedPods(t.ctx, t.cs, t.pod, t.info)
	if t.refusal == nil {
		t.refusal = status
	}
	if status.Code() == fwk.Error {
		t.err = status.AsError()
	}
	return status.IsSuccess()
}

// maxTrialWork bounds the search for victims on one node, in judged containers. It lets a pod of 32 containers be tried
// with a thousand sets of victims, about as many as core/evict tries for any pod.
const maxTrialWork = 32 << 10

// afford reports whether one more set may be tried. Once it returns false, no further set works, so the cheapest set
// found so far is taken.
func (t *trial) afford() bool {
	if t.work > maxTrialWork {
		return false
	}
	if t.work += len(t.Pod.Containers); t.work > maxTrialWork {
		t.pre.plugin.CutShort()
	}
	return true
}

// removeExactly removes pods from the node and the state, and puts others back, so that exactly the given pods are
// gone.
func (t *trial) removeExactly(pods []fwk.PodInfo) error {
	want := map[string]fwk.PodInfo{}
	for _, p := range pods {
		want[string(p.GetPod().UID)] = p
	}
	// Pods are put back in a fixed order, because other plugins' states may depend on the order.
	for _, p := range slices.Concat(t.leaving, t.victims) {
		uid := string(p.GetPod().UID)
		_, removed := t.gone[uid]
		_, remove := want[uid]
		switch {
		case remove && !removed:
			if err := t.info.RemovePod(klog.FromContext(t.ctx), p.GetPod()); err != nil {
				return fmt.Errorf("remove pod %s: %w", klog.KObj(p.GetPod()), err)
			}
			t.gone[uid] = p
			if s := t.pre.Handle.RunPreFilterExtensionRemovePod(t.ctx, t.cs, t.pod, p, t.info); !s.IsSuccess() {
				return fmt.Errorf("remove pod %s: %w", klog.KObj(p.GetPod()), s.AsError())
			}
		case removed && !remove:
			t.info.AddPodInfo(p)
			delete(t.gone, uid)
			if s := t.pre.Handle.RunPreFilterExtensionAddPod(t.ctx, t.cs, t.pod, p, t.info); !s.IsSuccess() {
				return fmt.Errorf("put pod %s back: %w", klog.KObj(p.GetPod()), s.AsError())
			}
		}
	}
	return nil
}

// problem returns the input of evict.Choose for this trial. v is the verdict on the node without any possible victim.
func (t *trial) problem(v place.Verdict, pdbs []*policy.PodDisruptionBudget) evict.Problem {
	p := evict.Problem{Works: func(gone []int) bool {
		out := slices.Clone(t.leaving)
		for _, i := range gone {
			out = append(out, t.victims[i])
		}
		return t.works(out)
	}}
	budgets := newBudgets(pdbs)
	p.Budgets = budgets.allowed
	on := make([]topo.Mask, len(t.victims))
	for i, x := range t.victims {
		e, _ := t.node.Entry(string(x.GetPod().UID))
		for _, h := range e.Holdings {
			on[i] |= h.NUMAs(t.node.Machine)
		}
		p.Victims = append(p.Victims, evict.Victim{Priority: corev1.PodPriority(x.GetPod()), Started: started(x.GetPod()),
			Budgets: budgets.of(x.GetPod()), Size: evict.Size(t.node.Machine, e.Holdings)})
	}
	p.Groups = evict.Groups(t.node.Machine, on, v.NUMAs(t.node.Machine).Len())
	return p
}
