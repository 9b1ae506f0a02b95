package agent

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// podSet is the pods of one node, kept by an informer. It is the agent's kubelet.Pods.
type podSet struct {
	store    cache.Store
	informer cache.Controller
	changed  func()
}

// newPodSet returns the pods that are bound to a node; changed is called when one came, went, or
// ended. It is empty until it runs.
func newPodSet(pods *objects.Client[*v1.Pod, *v1.PodList], node string, changed func()) *podSet {
	mine := fields.OneTermEqualSelector("spec.nodeName", node).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = mine
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = mine
			return pods.Watch(ctx, o)
		},
	}
	s := &podSet{changed: changed}
	s.store, s.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &v1.Pod{},
		Transform:     trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			DeleteFunc: func(any) { changed() },
			UpdateFunc: func(before, after any) {
				a, okA := before.(*v1.Pod)
				b, okB := after.(*v1.Pod)
				if !okA || !okB || a.UID != b.UID || done(a) != done(b) || started(a) != started(b) {
					changed()
				}
			},
		},
	})
	return s
}

// trim keeps of a pod what kubelet.Pod, the order of admission and the translation of requests need, and
// what Config.Pods promises.
func trim(obj any) (any, error) {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return obj, nil
	}
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp},
		Spec:   v1.PodSpec{Resources: p.Spec.Resources},
		Status: v1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime, QOSClass: p.Status.QOSClass},
	}
	if hash, ok := p.Annotations[staticHash]; ok {
		out.Annotations = map[string]string{staticHash: hash}
	}
	for _, c := range p.Spec.InitContainers {
		out.Spec.InitContainers = append(out.Spec.InitContainers, v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: c.Resources})
	}
	for _, c := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, v1.Container{Name: c.Name, Resources: c.Resources})
	}
	out.Status.InitContainerStatuses = running(p.Status.InitContainerStatuses)
	out.Status.ContainerStatuses = running(p.Status.ContainerStatuses)
	return out, nil
}

// running keeps the names and IDs of the containers that run.
func running(all []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for _, c := range all {
		if c.State.Running != nil {
			out = append(out, v1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID})
		}
	}
	return out
}

// staticHash is the annotation of a mirror pod that has the UID of its static pod
// (pkg/kubelet/types, ConfigHashAnnotationKey).
const staticHash = "kubernetes.io/config.hash"

func done(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed }

func started(p *v1.Pod) bool { return p.Status.StartTime != nil }

func (s *podSet) run(ctx context.Context) { s.informer.RunWithContext(ctx) }

// wait returns when the pods are known, or false when ctx ended before.
func (s *podSet) wait(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced)
}

// list returns the pods that are known, in no order.
func (s *podSet) list() []*v1.Pod {
	var out []*v1.Pod
	for _, obj := range s.store.List() {
		if p, ok := obj.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

func (s *podSet) get(namespace, name string) (*v1.Pod, bool) {
	obj, ok, err := s.store.GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil, false
	}
	p, ok := obj.(*v1.Pod)
	return p, ok
}

// Pod implements kubelet.Pods.
func (s *podSet) Pod(namespace, name string) (kubelet.Pod, bool) {
	p, ok := s.get(namespace, name)
	if !ok {
		return kubelet.Pod{}, false
	}
	out := kubelet.Pod{
		ID:       ledger.PodID{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		StateUID: string(p.UID),
		Done:     done(p),
	}
	if hash := p.Annotations[staticHash]; hash != "" {
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
	return out, true
}
