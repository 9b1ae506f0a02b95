package desired

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// StaticHash is the annotation of a mirror pod with the UID of its static pod (pkg/kubelet/types,
// ConfigHashAnnotationKey).
const StaticHash = "kubernetes.io/config.hash"

// Pods are the pods of a node by name. They are a kubelet.Pods.
type Pods map[types.NamespacedName]*v1.Pod

// PodsOf returns the pods by name.
func PodsOf(list []*v1.Pod) Pods {
	out := make(Pods, len(list))
	for _, p := range list {
		out[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	}
	return out
}

func (s Pods) get(namespace, name string) (*v1.Pod, bool) {
	p, ok := s[types.NamespacedName{Namespace: namespace, Name: name}]
	return p, ok
}

// Pod implements kubelet.Pods.
func (s Pods) Pod(namespace, name string) (kubelet.Pod, bool) {
	p, ok := s.get(namespace, name)
	if !ok {
		return kubelet.Pod{}, false
	}
	return podOf(p), true
}

// times returns when a pod was started and created; zero times if that is unknown.
func (s Pods) times(id ledger.PodID) (started, created time.Time) {
	p, ok := s.get(id.Namespace, id.Name)
	if !ok {
		return
	}
	if p.Status.StartTime != nil {
		started = p.Status.StartTime.Time
	}
	return started, p.CreationTimestamp.Time
}

// podOf returns the parts of a pod that joining the kubelet's sources needs.
func podOf(p *v1.Pod) kubelet.Pod {
	out := kubelet.Pod{
		ID:       ledger.PodID{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		StateUID: string(p.UID),
		Done:     p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed,
	}
	if hash := p.Annotations[StaticHash]; hash != "" {
		out.StateUID = hash
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

func started(p *v1.Pod) bool { return p.Status.StartTime != nil }
