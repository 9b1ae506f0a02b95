package desired

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Pods are the pods of a node by name. They implement kubelet.Pods.
type Pods map[types.NamespacedName]bound

// bound is a pod of the node. stateUID is the UID under which the kubelet keeps it, or "" if unknown.
type bound struct {
	*v1.Pod
	stateUID string
}

// PodsOf returns the pods of a node by name.
func PodsOf(list []*v1.Pod) Pods {
	out, uids := make(Pods, len(list)), apipod.KubeletUIDs(list)
	for _, p := range list {
		out[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = bound{p, uids[p.UID]}
	}
	return out
}

func (s Pods) get(namespace, name string) (bound, bool) {
	p, ok := s[types.NamespacedName{Namespace: namespace, Name: name}]
	return p, ok
}

// Pod implements kubelet.Pods.
func (s Pods) Pod(namespace, name string) (kubelet.Pod, bool) {
	p, ok := s.get(namespace, name)
	if !ok {
		return kubelet.Pod{}, false
	}
	return p.known(), true
}

// times returns when a pod was started and created; zero times if that is unknown.
func (s Pods) times(id state.PodID) (started, created time.Time) {
	p, ok := s.get(id.Namespace, id.Name)
	if !ok {
		return
	}
	if p.Status.StartTime != nil {
		started = p.Status.StartTime.Time
	}
	return started, p.CreationTimestamp.Time
}

// known returns the parts of a pod that joining the kubelet's sources needs.
func (p bound) known() kubelet.Pod {
	out := kubelet.Pod{
		ID:       state.PodID{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		StateUID: p.stateUID,
		Done:     p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed,
	}
	for _, c := range p.Spec.InitContainers {
		kind := place.Init
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = place.Sidecar
		}
		out.Containers = append(out.Containers, kubelet.Container{Name: c.Name, Kind: kind})
	}
	for _, c := range p.Spec.Containers {
		out.Containers = append(out.Containers, kubelet.Container{Name: c.Name, Kind: place.App})
	}
	return out
}

func started(p bound) bool { return p.Status.StartTime != nil }
