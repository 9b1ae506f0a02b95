package agent

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/objects"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// podWatch keeps the pods of one node by an informer.
type podWatch struct {
	store    cache.Store
	informer cache.Controller
}

// newPodWatch watches the pods that are bound to a node. It calls onChange when a pod was added, deleted or replaced,
// when a pod has started or ended, and when its decision annotation or the CPUs of its running containers have
// changed. The watch has no pods until it runs.
func newPodWatch(pods *objects.Client[*v1.Pod, *v1.PodList], node string, onChange func()) *podWatch {
	bound := fields.OneTermEqualSelector("spec.nodeName", node).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = bound
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return pods.Watch(ctx, o)
		},
	}
	w := &podWatch{}
	w.store, w.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &v1.Pod{},
		Transform:     trimPod,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { onChange() },
			DeleteFunc: func(any) { onChange() },
			UpdateFunc: func(before, after any) {
				a, okA := before.(*v1.Pod)
				b, okB := after.(*v1.Pod)
				if !okA || !okB || !equalToAgent(a, b) {
					onChange()
				}
			},
		},
	})
	return w
}

// equalToAgent reports whether two states of a pod differ in nothing that has to trigger a reconcile.
func equalToAgent(a, b *v1.Pod) bool {
	return a.UID == b.UID && ended(a) == ended(b) && started(a) == started(b) &&
		a.Annotations[v1alpha1.DecisionAnnotation] == b.Annotations[v1alpha1.DecisionAnnotation] &&
		slices.EqualFunc(cpus(a), cpus(b), resource.Quantity.Equal)
}

// trimPod keeps the parts of a pod that package desired, the translation of requests and the users of Config.Pods read.
func trimPod(obj any) (any, error) {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return obj, nil
	}
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp},
		Spec: v1.PodSpec{NodeName: p.Spec.NodeName, Resources: p.Spec.Resources, HostNetwork: p.Spec.HostNetwork},
		Status: v1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime, QOSClass: p.Status.QOSClass,
			PodIPs: p.Status.PodIPs},
	}
	for _, key := range []string{v1.MirrorPodAnnotationKey, v1alpha1.DecisionAnnotation,
		v1alpha1.AffinityAnnotation, apipod.AffinityGroupAnnotation} {
		if value, ok := p.Annotations[key]; ok {
			out.Annotations = with(out.Annotations, key, value)
		}
	}
	if o := metav1.GetControllerOf(p); o != nil && apipod.Mirror(p) {
		out.OwnerReferences = []metav1.OwnerReference{*o}
	}
	for _, c := range p.Spec.InitContainers {
		out.Spec.InitContainers = append(out.Spec.InitContainers,
			v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: c.Resources})
	}
	for _, c := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, v1.Container{Name: c.Name, Resources: c.Resources})
	}
	out.Status.InitContainerStatuses = running(p.Status.InitContainerStatuses)
	out.Status.ContainerStatuses = running(p.Status.ContainerStatuses)
	return out, nil
}

// running keeps the names, IDs and CPUs of running containers.
func running(all []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for _, c := range all {
		if c.State.Running != nil {
			out = append(out, v1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID, Resources: onlyCPUs(c.Resources)})
		}
	}
	return out
}

// onlyCPUs keeps the CPUs that a container was started or resized with.
func onlyCPUs(r *v1.ResourceRequirements) *v1.ResourceRequirements {
	if r == nil {
		return nil
	}
	q, ok := r.Requests[v1.ResourceCPU]
	if !ok {
		return &v1.ResourceRequirements{}
	}
	return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: q}}
}

// cpus returns the CPUs that a pod's containers run with, without containers for which the kubelet has not reported
// them.
func cpus(p *v1.Pod) (out []resource.Quantity) {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.Resources != nil {
			out = append(out, c.Resources.Requests[v1.ResourceCPU])
		}
	}
	return out
}

// with sets a key of a map, and returns the map. It makes one if the map is nil.
func with(to map[string]string, key, value string) map[string]string {
	if to == nil {
		to = map[string]string{}
	}
	to[key] = value
	return to
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func started(p *v1.Pod) bool { return p.Status.StartTime != nil }

func (w *podWatch) run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// wait returns true when the pods are known, or false when ctx ended before.
func (w *podWatch) wait(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced)
}

// list returns the known pods, in no particular order. They must not be changed.
func (w *podWatch) list() []*v1.Pod {
	var out []*v1.Pod
	for _, obj := range w.store.List() {
		if p, ok := obj.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}
