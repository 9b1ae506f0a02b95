package sched

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// preemption is kube-scheduler's DefaultPreemption with another choice of victims on one node, and with waits for
// reports before it evicts. kube-scheduler's code decides which pods may preempt, chooses the node, evicts the victims
// and keeps the pod out of the queue meanwhile. Exchanging the evaluator needs more than the framework's public
// interfaces, so only profiles that Options.Preemption names get it; TestPreemption in lab/scheduler has the scenes
// that pay for it.
type preemption struct {
	*defaultpreemption.DefaultPreemption
	plugin *Plugin
	handle fwk.Handle
	now    func() time.Time
	later  func(time.Duration, func())
	plans  *plans
	waits  *waits
	// runner begins attempts again; nil in a framework that cannot.
	runner prefilters
	full   fullDiagnosis
}

var (
	_ fwk.PostFilterPlugin = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin = (*Plugin)(nil)
)

// newPreemption returns the preemption of a profile. Where the arguments say that nobody is to be evicted for
// alignment, it is kube-scheduler's as it is.
func newPreemption(ctx context.Context, p *Plugin, args *schedapi.DefaultPreemptionArgs) (*preemption, error) {
	d, err := defaultpreemption.New(
		ctx,
		args,
		p.handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
	)
	if err != nil {
		return nil, fmt.Errorf("set up preemption of profile %q: %w", p.handle.ProfileName(), err)
	}
	pre := &preemption{DefaultPreemption: d, plugin: p, handle: p.handle, plans: &plans{}, waits: &waits{}, now: time.Now,
		later: func(after time.Duration, do func()) { time.AfterFunc(after, do) }}
	pre.runner, _ = p.handle.(prefilters)
	if !p.args.KeepVictims {
		d.Evaluator.Interface = pre
		d.Executor.PreemptPod = pre.explained(d.Executor.PreemptPod)
	}
	return pre, nil
}

// PreEnqueue keeps a pod out of the queue while its victims are being evicted. Without preemption of its own the plugin
// lets every pod in.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if p.preemption == nil {
		return nil
	}
	return p.preemption.PreEnqueue(ctx, pod)
}

// PostFilter makes room for a pod that fits nowhere, by the eviction of others. Without preemption of its own it leaves
// that to DefaultPreemption.
func (p *Plugin) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.preemption == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	cs, err := p.preemption.askAll(ctx, cs, pod, m)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return p.preemption.PostFilter(ctx, cs, pod, m)
}

// PostFilter evicts nobody where waiting is enough.
func (pre *preemption) PostFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	m fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	s, ok := read(cs)
	if !ok || pre.plugin.args.KeepVictims {
		return pre.DefaultPreemption.PostFilter(ctx, cs, pod, m)
	}
	uid := string(pod.UID)
	pre.plans.begin(uid)
	if may, _ := pre.PodEligibleToPreemptOthers(ctx, pod, m.Get(pod.Status.NominatedNodeName)); may &&
		pod.Spec.SchedulingGroup == nil {
		nodes, err := m.NodesForStatusCode(pre.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("list nodes that refused pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
		if node, why := pre.leaves(ctx, cs, pod, nodes); why != "" {
			return node, pre.waiting(s, node, why)
		}
		if why := pre.settles(s, pod, nodes, m); why != "" {
			return nil, pre.waiting(s, nil, why)
		}
	}
	result, status := pre.DefaultPreemption.PostFilter(ctx, cs, pod, m)
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil {
		if doubts := pre.plans.doubted(uid); len(doubts) > 0 {
			pre.retry(pod, pre.waits.note(uid, doubts, pre.now()))
		} else {
			pre.waits.forget(uid)
		}
		return result, status
	}
	pre.waits.forget(uid)
	plan, planned := pre.plans.of(uid, result.NominatedNodeName)
	if !planned {
		return result, status
	}
	s.log.info(logDecision, "Evicts", "node", plan.node, "victims", plan.text())
	return result, fwk.NewStatus(fwk.Success, "preemption: evicts "+plan.text())
}

// waiting returns the status of a pod that waits, a success if it is nominated to a node meanwhile.
func (pre *preemption) waiting(s *state, kept *fwk.PostFilterResult, why string) *fwk.Status {
	s.log.info(logDecision, "Evicts nobody", "reason", why)
	text := "preemption: evicts nobody: " + why
	switch {
	case kept != nil:
		return fwk.NewStatus(fwk.Success, text)
	case pre.plugin.name == config.Match:
		text += ". " + notHelpful
	}
	return fwk.NewStatus(fwk.Unschedulable, text)
}

// leaves returns a node where the pod fits once pods that are being deleted have left, and says so. If those of lower
// priority suffice, the pod is nominated to the node, as if it had evicted them.
func (pre *preemption) leaves(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PostFilterResult, string) {
	var node, kept string
	for _, info := range nodes {
		if !slices.ContainsFunc(info.GetPods(), pre.isLeaving) {
			continue
		}
		t := pre.trial(ctx, cs.Clone(), pod, info.Snapshot())
		if t == nil || t.node.Doubtful() != "" {
			continue
		}
		if t.works(t.lower(t.leaving)) {
			kept = t.node.Name
			break
		}
		if node == "" && t.works(t.leaving) {
			node = t.node.Name
		}
	}
	switch {
	case kept != "":
		return framework.NewPostFilterResultWithNominatedNode(
			kept,
		), "fits on node " + kept + " once pods that are being deleted there have gone"
	case node != "":
		return nil, "fits on node " + node + " once pods that are being deleted there have gone"
	}
	return nil, ""
}

const (
	// patience is how long a pod waits for a report that may show that it fits, before it preempts.
	patience = 30 * time.Second
	// catchUp is longer than an end of a pod takes from the API server to the ledger.
	catchUp = time.Second
)

// settles returns for which node's report the pod waits, since it may fit there, or "".
func (pre *preemption) settles(s *state, pod *v1.Pod, nodes []fwk.NodeInfo, m fwk.NodeToStatusReader) string {
	uid := string(pod.UID)
	for _, info := range nodes {
		name := info.Node().Name
		n := s.node(name)
		if m.Get(name).Plugin() != pre.plugin.name || !pre.plugin.knows(n) || n.Silent || pre.refused(s, n) {
			continue
		}
		why := n.Doubtful()
		if left := strangers(n, info); len(left) > 0 {
			n, why = n.Without(left...), "pods have just left it"
		}
		if why == "" || !n.Might(s.pod, s.demand) {
			continue
		}
		since := pre.waits.note(uid, []string{name}, pre.now())
		if pre.now().Sub(since) >= patience {
			continue
		}
		pre.retry(pod, since)
		return "node " + name + " may have room: " + why
	}
	return ""
}

// strangers returns the UIDs of pods that the ledger has on a node and kube-scheduler does not: they have been deleted,
// and the event has not reached the ledger yet. kube-scheduler has the mirror pod of a static pod.
func strangers(n *ledger.Node, info fwk.NodeInfo) (out []string) {
	here := map[string]bool{"": true}
	for _, p := range info.GetPods() {
		here[string(p.GetPod().UID)] = true
		here[p.GetPod().Annotations[v1.MirrorPodAnnotationKey]] = true
	}
	for _, e := range n.Entries {
		if !here[e.Pod.UID] {
			out = append(out, e.Pod.UID)
		}
	}
	return out
}

// refused reports whether the node has refused such a pod.
func (pre *preemption) refused(s *state, n *ledger.Node) bool {
	if len(n.Refused) == 0 {
		return false
	}
	_, is := n.Refused[s.pod.Shape()]
	return is
}

// retry activates a pod after a delay that grows with the time since it began to wait. This plugin's events wake only
// pods that it has refused, and pods that others refused may want to preempt, too.
func (pre *preemption) retry(pod *v1.Pod, since time.Time) {
	if uid := string(pod.UID); pre.waits.arm(uid) {
		pre.later(min(max(pre.now().Sub(since), catchUp), patience), func() {
			pre.waits.disarm(uid)
			pre.again(pod)
		})
	}
}

// again activates a pod if it still waits.
func (pre *preemption) again(pod *v1.Pod) {
	now, err := pre.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil {
		pre.handle.Activate(pre.plugin.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: now})
	}
}

// evicts reports whether victims of a pod are being evicted. kube-scheduler keeps the pod out of its queue meanwhile,
// so there is no use in waking it. The end of its last victim changes the node once more.
func (p *Plugin) evicts(pod *v1.Pod) bool {
	return p.preemption != nil && p.preemption.Executor.IsPodRunningPreemption(pod.UID)
}

// awaits reports whether the pod waits for a report of a node where it does not fit now. The report decides whether the
// pod has to preempt, and whom.
func (p *Plugin) awaits(pod *v1.Pod, node string) bool {
	return p.preemption != nil && p.preemption.waits.of(string(pod.UID), node)
}

// permanent reports whether the pod would not fit on the empty node either: no eviction helps there. The pod's own
// demand does not count, since the other pods decide whether what the node gives satisfies it.
func (p *Plugin) permanent(s *state, n *ledger.Node) bool {
	return !place.Fits(n.Usage.Empty(), s.pod)
}
