package kube

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// boundPod is the record of a pod that is bound to a node and has not ended.
type boundPod struct {
	id   state.PodID
	node string
	// version is the resource version of the object that this record was last read from.
	version string
	// spec is nil for a pod that no node's managers would align, and for a pod larger than any machine, since no
	// kubelet admits it. It is also nil for a mirror pod that has not started: a user may have made that pod, and a
	// kubelet never starts such a pod.
	spec *place.Pod
	// decision is the pod's v1alpha1.DecisionAnnotation, empty if it was bound without one.
	decision    string
	at, created stamp           // when it was bound, according to its status, and created
	start       stamp           // when its kubelet admitted it; see admittedAt
	statuses    *place.Statuses // without Resized, which depends on the report; nil if they are empty
	// relations are the keys of its demand about other pods; nil if it has none.
	relations *state.Relations
	// sizes has, by container, the CPUs that the kubelet has allocated, in thousandths. It has only the containers
	// for which spec has another number.
	sizes map[string]int64
	// absences counts the fingerprints without the pod since it ended, up to maxMisses+1.
	absences  int8
	started   bool
	leaving   bool // it is being deleted, so its node may have released what it holds
	due       bool // it was admitted longer than reportDue ago
	initsOver bool // an app container has started, so all ordinary init containers are over; see areInitsOver
	// counted is set if the last fingerprint of its node that matched a set of pods contains the pod.
	counted bool
	// settled is set if the pod was admitted longer than settlePeriod ago, and longEnded if it ended longer than
	// settlePeriod ago.
	settled, longEnded bool
}

// stamp is a time in seconds since 1970, and 0 for the zero time. The API server keeps no shorter times of pods. A
// cluster has many pods, so their records are small.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.Unix())
}

// Time returns the time of a stamp.
func (s stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}

// compareBinding orders pods by when they were bound.
func (b *boundPod) compareBinding(o *boundPod) int {
	return cmp.Or(cmp.Compare(b.at, o.at), cmp.Compare(b.created, o.created),
		strings.Compare(b.id.String(), o.id.String()), strings.Compare(b.id.UID, o.id.UID))
}

// boundPods has the records of all bound pods. Both maps have the same records.
type boundPods struct {
	pods  map[string]*boundPod   // by UID
	nodes map[string][]*boundPod // by node, in no particular order
	// specs has the specs of records by what they contain, so that the pods of a workload share one. It keeps no spec
	// that no record has.
	specs *memory[weak.Pointer[place.Pod]]
}

func newBoundPods() boundPods {
	return boundPods{map[string]*boundPod{}, map[string][]*boundPod{}, &memory[weak.Pointer[place.Pod]]{}}
}

// id returns an equal id whose texts belong to the object of a bound pod, or else id itself.
func (b boundPods) id(id state.PodID) state.PodID {
	if p := b.pods[id.UID]; p != nil && p.id == id {
		return p.id
	}
	return id
}

// maxSharedSpec is the length of the longest key in boundPods.specs.
const maxSharedSpec = 1 << 10

// shared returns the spec of another record that equals p, or else p.
func (b boundPods) shared(p *place.Pod) *place.Pod {
	text := []byte(p.Shape())
	for i := range p.Containers {
		text = append(append(text, '\n'), p.Containers[i].Name...)
	}
	if len(text) > maxSharedSpec {
		return p
	}
	key := string(text)
	known, _ := b.specs.get(key)
	if spec := known.Value(); spec != nil {
		return spec
	}
	b.specs.put(key, weak.Make(p))
	return p
}

// put records the present state of a pod, and returns its record. It ignores an object that is older than the
// recorded one.
func (b boundPods) put(pod *v1.Pod) *boundPod {
	p, known := b.pods[string(pod.UID)]
	if known && compare(pod.ResourceVersion, p.version) < 0 {
		return p
	}
	if !known {
		p = &boundPod{id: ID(pod), node: pod.Spec.NodeName, at: stampOf(boundAt(pod)),
			created: stampOf(pod.CreationTimestamp.Time)}
		b.nodes[p.node], b.pods[p.id.UID] = append(b.nodes[p.node], p), p
	}
	p.version = pod.ResourceVersion
	readSpec := !known
	if apipod.Mirror(pod) {
		readSpec = !p.started && Started(pod) // see boundPod.spec
	}
	if readSpec {
		if spec, err := apipod.ToPlace(pod); err == nil && !spec.Plain() {
			p.spec, p.decision = b.shared(spec), pod.Annotations[v1alpha1.DecisionAnnotation]
			if d := apipod.Relations(pod); d.Relates() {
				r := state.RelationsOf(d)
				p.relations = &r
			}
		}
	}
	p.started = p.started || Started(pod)
	p.start, p.leaving = stampOf(startOf(pod)), pod.DeletionTimestamp != nil
	p.initsOver = p.initsOver || areInitsOver(pod)
	if p.spec != nil {
		p.statuses = nil
		statuses, sizes := readStatuses(pod, p.spec)
		if p.sizes = sizes; !statuses.Empty() {
			p.statuses = &statuses
		}
	}
	return p
}

// drop removes a pod. It returns the record that it removed, or nil if there was none.
func (b boundPods) drop(uid string) *boundPod {
	p := b.pods[uid]
	if p == nil {
		return nil
	}
	delete(b.pods, uid)
	on := b.nodes[p.node]
	if len(on) == 1 {
		delete(b.nodes, p.node)
	} else {
		b.nodes[p.node] = slices.DeleteFunc(on, func(o *boundPod) bool { return o == p })
	}
	return p
}

// on returns the pods of a node in binding order.
func (b boundPods) on(node string) []*boundPod {
	return slices.SortedFunc(slices.Values(b.nodes[node]), (*boundPod).compareBinding)
}

// areInitsOver reports whether a pod has init containers and the ordinary ones among them are over. It looks only at
// app containers, because none of these starts before all ordinary init containers are over.
func areInitsOver(pod *v1.Pod) bool {
	started := func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return len(pod.Spec.InitContainers) > 0 && slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// boundAt returns when a pod was bound, according to its status, or else when it was created.
func boundAt(pod *v1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
