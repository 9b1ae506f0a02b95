package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
)

// blame says whether the scheduler could have known that a kubelet would refuse a pod.
type blame string

const (
	// knowable: nothing happened that the scheduler did not see. This is a fault.
	knowable blame = "could have been known"
	// overtaken: another scheduler bound a pod to the node at the same time.
	overtaken blame = "a foreign pod was bound at the same time"
	// roomier: a pod ended at the same time, and the refused one has init containers, which may then go where the
	// others do not fit (core/place/testdata/more_room_may_refuse_a_pod_with_init_containers.txt).
	roomier blame = "a pod ended at the same time, and more room is worse for init containers"
	// changed: the kubelet was restarted, perhaps with another policy, and had not reported yet.
	changed blame = "the kubelet was restarted"
	// again: the pod ran, and the restarted kubelet did not admit it again.
	again blame = "the pod ran, and a restarted kubelet refused it"
)

// lag is how much later than here an event may reach a scheduler on a busy computer.
const lag = 500 * time.Millisecond

// comingUp is how long a kubelet that was restarted may take on a busy computer until its device plugins have
// registered again; it refuses pods with devices until then, and where nothing changed no report tells.
const comingUp = 15 * time.Second

// restart is one restart of a node's kubelet.
type restart struct {
	node, policy string
	began, up    moment
}

// over is when the scheduler can know of the restart: the kubelet is up, and its policy is told. It is the
// zero moment while it cannot.
func (x restart) over(r *record) moment {
	told := r.told(x.node, x.policy, x.began)
	if told.known() && told.version < x.up.version {
		return x.up
	}
	return told
}

// refusal is a pod that a kubelet refused.
type refusal struct {
	life
	why    blame
	detail string
}

func (r refusal) String() string {
	return fmt.Sprintf("pod %s (%s) on node %s: %s: %s; %s", r.pod.Name, r.pod.UID, r.pod.Spec.NodeName, r.pod.Status.Reason, r.why, r.detail)
}

// refused reports whether a kubelet would not have the pod: it failed, and no container says so.
func refused(l life) bool {
	return l.pod.Status.Phase == v1.PodFailed && l.bound.known() &&
		(strings.HasPrefix(l.pod.Status.Reason, "OutOf") || strings.HasSuffix(l.pod.Status.Reason, "Error") ||
			strings.HasPrefix(l.pod.Status.Message, "Pod was rejected"))
}

// judge says of a refused pod of Tenon's whether that could have been known.
func judge(l life, all []life, restarts []restart, r *record) refusal {
	out := refusal{life: l, why: knowable, detail: fmt.Sprintf("bound at version %d, refused at %d: %s",
		l.bound.version, l.ended.version, l.pod.Status.Message)}
	for _, x := range restarts {
		if x.node != l.pod.Spec.NodeName || l.ended.version < x.began.version {
			continue
		}
		over := x.over(r)
		if l.started.known() && l.started.version <= x.began.version {
			out.why = again
			return out
		}
		late := lag
		if !r.heard(x.node, x.began) {
			late = comingUp
		}
		if !over.known() || l.bound.version <= over.version || l.bound.at.Before(over.at.Add(late)) || firstLot(l, all, x) {
			out.why = changed
			out.detail += fmt.Sprintf("; restarted at %d, known at %d", x.began.version, over.version)
			return out
		}
	}
	for _, f := range all {
		if f.tenon() || f.pod.Spec.NodeName != l.pod.Spec.NodeName || !f.bound.known() || f.bound.version > l.ended.version {
			continue
		}
		if p, err := kube.Pod(f.pod); err != nil || p.Plain() && !strings.HasPrefix(l.pod.Status.Reason, "OutOf") {
			continue // it takes nothing that is short
		}
		if f.bound.version > l.bound.version || f.bound.at.After(l.bound.at.Add(-lag)) {
			out.why = overtaken
			out.detail += fmt.Sprintf("; pod %s was bound at %d, %s later", f.pod.Name, f.bound.version,
				f.bound.at.Sub(l.bound.at).Round(time.Millisecond))
			return out
		}
	}
	if x, ok := ended(l, all); ok && len(l.pod.Spec.InitContainers) > 0 && l.pod.Status.Reason == string(place.TopologyAffinityError) {
		out.why = roomier
		out.detail += fmt.Sprintf("; pod %s ended at %d", x.pod.Name, x.end().version)
		return out
	}
	out.detail += lately(l, all)
	return out
}

// firstLot reports whether a pod was bound before the restarted kubelet of its node had taken up any. It takes up all
// that are bound by then in one go, and until that is done it counts what pods had that are there no more
// (pkg/kubelet/kubelet.go, syncLoopIteration: a source is ready after its first pods were handled).
func firstLot(l life, all []life, x restart) bool {
	if l.bound.at.After(x.up.at.Add(comingUp)) {
		return false
	}
	return !slices.ContainsFunc(all, func(o life) bool {
		return o.pod.Spec.NodeName == x.node && o.started.version > x.began.version && o.started.version < l.bound.version
	})
}

// ended returns a pod that ended on the node of a refused one when this one was bound already, or so shortly before
// that the scheduler need not have heard of it.
func ended(l life, all []life) (life, bool) {
	for _, x := range all {
		if x.pod.Spec.NodeName != l.pod.Spec.NodeName || x.pod.UID == l.pod.UID || !x.over() || x.end().version > l.ended.version {
			continue
		}
		if p, err := kube.Pod(x.pod); err != nil || p.Plain() {
			continue // it gave nothing back
		}
		if x.end().version > l.bound.version || x.end().at.After(l.bound.at.Add(-lag)) {
			return x, true
		}
	}
	return life{}, false
}

// end is when it became known that the pod holds nothing any more.
func (l life) end() moment {
	if l.ended.known() {
		return l.ended
	}
	return l.gone
}

// lately tells of the pods of a node that went shortly before a pod was bound to it, or until it was
// refused: what a fault is about, more often than not.
func lately(l life, all []life) (out string) {
	for _, x := range all {
		if x.pod.Spec.NodeName != l.pod.Spec.NodeName || x.pod.UID == l.pod.UID || !x.over() {
			continue
		}
		end := x.end()
		if end.version < l.ended.version && end.at.After(l.bound.at.Add(-2*time.Second)) {
			out += fmt.Sprintf("; pod %s (started %d, ended %d, gone %d, deleted by force: %t)", x.pod.Name, x.started.version,
				x.ended.version, x.gone.version, x.pod.DeletionTimestamp == nil && x.gone.known())
		}
	}
	return out
}
