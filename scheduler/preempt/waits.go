package preempt

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file finds out whether a pod need not evict others, because room may appear on a node without evictions.

const (
	// patience is how long a pod waits, before it preempts, for a report that may show room for the pod.
	patience = 30 * time.Second
	// catchUp is longer than the event of a deleted pod takes from the API server to the ledger.
	catchUp = time.Second
)

// reasonToWait returns why the pod should wait instead of evicting others, or "" if it should not wait. If the result
// is not nil, it nominates the waiting pod to a node.
func (pre *Preemption) reasonToWait(ctx context.Context, cs fwk.CycleState, a Attempt, pod *v1.Pod,
	m fwk.NodeToStatusReader) (*fwk.PostFilterResult, string, error) {
	may, _ := pre.upstream.PodEligibleToPreemptOthers(ctx, pod, m.Get(pod.Status.NominatedNodeName))
	if !may || fwk.Grouped(pod) {
		return nil, "", nil
	}
	nodes, err := m.NodesForStatusCode(pre.Handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, "", fmt.Errorf("list nodes that refused pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if node, why := pre.roomAfterDeletions(ctx, cs, pod, nodes); why != "" {
		return node, why, nil
	}
	return nil, pre.roomAfterReport(a, pod, nodes, m), nil
}

// roomAfterDeletions finds a node where the pod fits once pods that are being deleted have gone, and returns a text
// that names it, or "". If the leaving pods of lower priority are enough, the result nominates the pod to the node,
// as if it had evicted them; otherwise the result is nil.
func (pre *Preemption) roomAfterDeletions(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (
	*fwk.PostFilterResult, string) {
	const afterwards = " once pods that are being deleted there have gone"
	var node, nominated string
	for _, info := range nodes {
		if !slices.ContainsFunc(info.GetPods(), pre.isLeaving) {
			continue
		}
		t := pre.trial(ctx, cs.Clone(), pod, info.Snapshot())
		if t == nil || t.node.Doubtful() != "" {
			continue
		}
		if t.works(t.lower(t.leaving)) {
			nominated = t.node.Name
			break
		}
		if node == "" && t.works(t.leaving) {
			node = t.node.Name
		}
	}
	switch {
	case nominated != "":
		return framework.NewPostFilterResultWithNominatedNode(nominated), "fits on node " + nominated + afterwards
	case node != "":
		return nil, "fits on node " + node + afterwards
	}
	return nil, ""
}

// roomAfterReport returns a text that names a node whose next report may show room for the pod, or "" if there is
// none. It passes over a node for which the pod has waited as long as patience. It also schedules a retry of the pod.
func (pre *Preemption) roomAfterReport(a Attempt, pod *v1.Pod, nodes []fwk.NodeInfo, m fwk.NodeToStatusReader) string {
	uid := string(pod.UID)
	for _, info := range nodes {
		name := info.Node().Name
		n := a.Node(name)
		if m.Get(name).Plugin() != pre.Name || n == nil || n.Silent || a.refused(n) {
			continue
		}
		why := n.Doubtful()
		if departed := Departed(n, info); len(departed) > 0 {
			for _, p := range info.GetPods() {
				if pre.isLeaving(p) { // of several pods that make room, some have gone
					departed = append(departed, string(p.GetPod().UID))
				}
			}
			n, why = n.Without(departed...), "pods have just left it"
		}
		if why == "" || !n.Might(a.Pod, a.Demand) {
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

// refused reports whether the node's kubelet has refused a pod of the same shape since its last report.
func (a Attempt) refused(n *state.Node) bool {
	if len(n.Refused) == 0 {
		return false
	}
	_, refused := n.Refused[a.Pod.Shape()]
	return refused
}

// Departed returns the UIDs of the pods that the ledger has on a node and kube-scheduler does not. They were deleted,
// and the event has not reached the ledger yet. Ledger and kube-scheduler both identify a pod by the UID of its
// object at the API server, never by a UID in an annotation.
func Departed(n *state.Node, info fwk.NodeInfo) (out []string) {
	here := map[string]bool{"": true}
	for _, p := range info.GetPods() {
		here[string(p.GetPod().UID)] = true
	}
	for _, e := range n.Entries {
		if !here[e.Pod.UID] {
			out = append(out, e.Pod.UID)
		}
	}
	return out
}

// Retry puts a pod back into the active queue soon, if it still waits. Call it after a change that no event
// announces.
func (pre *Preemption) Retry(pod *v1.Pod) { pre.retry(pod, pre.now()) }

// Retries reports whether the pod will be put back into the active queue soon. That works only if the pod is in one
// of the queues by then.
func (pre *Preemption) Retries(pod *v1.Pod) bool {
	if pre == nil {
		return false
	}
	pre.waits.mu.Lock()
	defer pre.waits.mu.Unlock()
	return pre.waits.armed[string(pod.UID)]
}

// retry puts a pod back into the active queue after a delay that grows with the time since the wait began. No event
// replaces it: this plugin's events wake only pods that the plugin refused, but pods that other plugins refused may
// want to preempt as well.
func (pre *Preemption) retry(pod *v1.Pod, since time.Time) {
	if uid := string(pod.UID); pre.waits.arm(uid) {
		pre.later(min(max(pre.now().Sub(since), catchUp), patience), func() {
			pre.waits.disarm(uid)
			pre.activate(pod)
		})
	}
}

// retryIfMissed retries the preemptors of a deleted pod, because kube-scheduler may have ignored the deletion.
// kube-scheduler tries a preemptor again when the preemptor's last victim is deleted, but ignores deletions while it
// still evicts other victims. A victim of two preemptors may be deleted that early
// (pkg/scheduler/framework/preemption/executor.go, 1.37: "Victim Pod is already deleted").
func (pre *Preemption) retryIfMissed(victim *v1.Pod, preemptors ...*v1.Pod) {
	if pre.present(victim) != nil {
		return // the informer has not delivered the deletion yet
	}
	for _, p := range preemptors {
		pre.Retry(p)
	}
}

// activate puts a pod back into the active queue if it still waits for a node.
func (pre *Preemption) activate(pod *v1.Pod) {
	if pre.evicting(pod.UID) {
		pre.Retry(pod) // the queue would keep it out
		return
	}
	if now := pre.present(pod); now != nil && now.Spec.NodeName == "" && now.DeletionTimestamp == nil {
		pre.Handle.Activate(pre.Logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: now})
	}
}

// present returns a pod in its present state, or nil if it is gone.
func (pre *Preemption) present(pod *v1.Pod) *v1.Pod {
	now, err := pre.Handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID {
		return nil
	}
	return now
}

// waits records, for each waiting pod, the nodes whose reports it waits for, and since when.
type waits struct {
	mu    sync.Mutex
	pods  map[string]wait
	order []string
	armed map[string]bool // by UID: a retry of the pod is scheduled
}

// wait is when a pod began to wait, and the nodes whose reports it waits for.
type wait struct {
	since time.Time
	nodes []string
}

// note records the nodes whose reports a pod waits for, and returns since when it waits. Without nodes, it drops the
// record of the pod.
func (w *waits) note(uid string, nodes []string, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[uid]
	if len(nodes) == 0 {
		if known {
			delete(w.pods, uid)
			w.order = slices.DeleteFunc(w.order, func(of string) bool { return of == uid })
		}
		return now
	}
	if w.pods == nil {
		w.pods = map[string]wait{}
	}
	if !known {
		old.since = now
		if w.order = append(w.order, uid); len(w.order) > maxNotes {
			delete(w.pods, w.order[0])
			w.order = w.order[1:]
		}
	}
	w.pods[uid] = wait{old.since, nodes}
	return old.since
}

func (w *waits) forget(uid string) { w.note(uid, nil, time.Time{}) }

// arm records that a retry of a pod is scheduled. It returns false if one was scheduled already.
func (w *waits) arm(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed[uid] {
		return false
	}
	if w.armed == nil {
		w.armed = map[string]bool{}
	}
	w.armed[uid] = true
	return true
}

func (w *waits) disarm(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.armed, uid)
}

// waitsFor reports whether a pod waits for a report of a node.
func (w *waits) waitsFor(uid, node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.pods[uid].nodes, node)
}
