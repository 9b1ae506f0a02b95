package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// boundPod is what is kept of a pod that is bound to a node and has not ended.
type boundPod struct {
	id   ledger.PodID
	node string
	// spec is nil where no node's managers look at the pod, and where it is beyond any machine: no
	// kubelet admits it.
	spec *place.Pod
	// decision is v1alpha1.DecisionAnnotation; empty: the pod was bound without one.
	decision    string
	at, created time.Time // when it was bound, as far as its status says, and made
	started     bool
	begun       bool // a container has started that comes after ordinary init containers
	// counted: the last fingerprint of its node that was understood is of this pod, too.
	counted bool
	// passed counts the fingerprints since it ended that were not of it.
	passed int
	// settled: it was admitted longer than settlePeriod ago; over: it ended longer than that ago.
	settled, over bool
}

// compare is binding order.
func (b *boundPod) compare(o *boundPod) int {
	return cmp.Or(b.at.Compare(o.at), b.created.Compare(o.created),
		strings.Compare(b.id.String(), o.id.String()), strings.Compare(b.id.UID, o.id.UID))
}

// boundPods are the bound pods.
type boundPods struct {
	pods  map[string]*boundPod            // by UID
	nodes map[string]map[string]*boundPod // by node and UID
}

func newBoundPods() boundPods {
	return boundPods{map[string]*boundPod{}, map[string]map[string]*boundPod{}}
}

// put notes a pod as it is now.
func (b boundPods) put(pod *v1.Pod) *boundPod {
	p := b.pods[string(pod.UID)]
	if p == nil {
		p = &boundPod{id: ID(pod), node: pod.Spec.NodeName, at: bound(pod), created: pod.CreationTimestamp.Time}
		if spec, err := apipod.ToPlace(pod); err == nil && !spec.Plain() {
			p.spec, p.decision = spec, pod.Annotations[v1alpha1.DecisionAnnotation]
		}
		on := b.nodes[p.node]
		if on == nil {
			on = map[string]*boundPod{}
			b.nodes[p.node] = on
		}
		on[p.id.UID], b.pods[p.id.UID] = p, p
	}
	p.started = p.started || Started(pod)
	p.begun = p.begun || beyondInits(pod)
	return p
}

// drop forgets a pod, and returns what was known of it, or nil.
func (b boundPods) drop(uid string) *boundPod {
	p := b.pods[uid]
	if p == nil {
		return nil
	}
	delete(b.pods, uid)
	delete(b.nodes[p.node], uid)
	if len(b.nodes[p.node]) == 0 {
		delete(b.nodes, p.node)
	}
	return p
}

// on returns the pods of a node in binding order.
func (b boundPods) on(node string) []*boundPod {
	return slices.SortedFunc(maps.Values(b.nodes[node]), (*boundPod).compare)
}

// beyondInits reports whether the first container after ordinary init containers of a pod has started: of its app
// containers, since all init containers are over then.
func beyondInits(pod *v1.Pod) bool {
	started := func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return len(pod.Spec.InitContainers) > 0 && slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// bound returns when a pod was bound, as far as its status says.
func bound(pod *v1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
