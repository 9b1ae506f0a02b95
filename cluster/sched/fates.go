package sched

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube"
)

// fates finds out how pods ended that were on their way to a node. The scheduler's informer follows only
// pods that have not ended, and of one that ends it delivers a deletion with what the pod was before: it
// does not say that a kubelet refused the pod, and not why. So such a pod is read once more.
type fates struct {
	cache.ResourceEventHandler // of all other events
	waits                      func(node, uid string) bool
	doubted                    func(uid string) bool
	read                       func(ctx context.Context, namespace, name string) (*v1.Pod, error)
	gone                       func(*v1.Pod)
	// left returns a pod as it was when it left the informer, nil where it was deleted just then.
	left func(ctx context.Context, last *v1.Pod) (*v1.Pod, error)
	// wake is told of a node on which something was given back that no event tells of.
	wake   func(node string)
	queue  workqueue.TypedRateLimitingInterface[*v1.Pod]
	logger klog.Logger
}

// maxReads is how often a pod is asked for that the API server does not tell about.
const maxReads = 5

func newFates(feed *kube.Feed, waits func(node, uid string) bool, doubted func(uid string) bool,
	read func(ctx context.Context, namespace, name string) (*v1.Pod, error), logger klog.Logger) *fates {
	return &fates{ResourceEventHandler: feed.Pods(), waits: waits, doubted: doubted, read: read, gone: feed.PodGone, wake: func(string) {}, logger: logger,
		left:  func(context.Context, *v1.Pod) (*v1.Pod, error) { return nil, nil },
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[*v1.Pod]())}
}

// reportWait is how long the node of a pod that may have ended has for its report to tell.
const reportWait = 5 * time.Second

// OnDelete lets a pod go that nobody waits for, and has others looked at; those of which the node will
// tell, only if it does not.
func (f *fates) OnDelete(o any) {
	last := o
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		last = t.Obj
	}
	p, ok := last.(*v1.Pod)
	if !ok || kube.Ended(p) || !f.waits(p.Spec.NodeName, string(p.UID)) {
		f.ResourceEventHandler.OnDelete(o)
		if ok && f.doubted(string(p.UID)) {
			f.queue.AddAfter(p, reportWait)
		}
		return
	}
	f.queue.Add(p)
}

// run looks at pods until the context ends.
func (f *fates) run(ctx context.Context) {
	context.AfterFunc(ctx, f.queue.ShutDown)
	for {
		p, quit := f.queue.Get()
		if quit {
			return
		}
		f.look(ctx, p)
		f.queue.Done(p)
	}
}

// look lets a pod go as it ended, or as it was when that cannot be known.
func (f *fates) look(ctx context.Context, last *v1.Pod) {
	uid := string(last.UID)
	if !f.waits(last.Spec.NodeName, uid) && !f.doubted(uid) {
		// Its node has told, or the wait for it is over. What was told may be older than the pod's end.
		f.gone(last)
		if f.doubted(uid) {
			f.queue.AddAfter(last, reportWait)
		}
		f.wake(last.Spec.NodeName)
		return
	}
	now, err := f.read(ctx, last.Namespace, last.Name)
	switch {
	case err == nil && now.UID == last.UID && kube.Ended(now):
		f.queue.Forget(last)
		last = now
	case err != nil && !apierrors.IsNotFound(err) && f.queue.NumRequeues(last) < maxReads:
		f.logger.V(logData).Info("Pod not read, will try again", "pod", klog.KObj(last), "error", err.Error())
		f.queue.AddRateLimited(last)
		return
	default:
		f.queue.Forget(last)
		// Controllers delete a pod as soon as its kubelet has refused it, and make another one of that name.
		if then, err := f.left(ctx, last); err != nil {
			f.logger.V(logData).Info("Pod not read as it was when it ended", "pod", klog.KObj(last), "error", err.Error())
		} else if then != nil && then.UID == last.UID && kube.Ended(then) {
			last = then
		}
	}
	f.gone(last)
	f.wake(last.Spec.NodeName)
	if f.waits(last.Spec.NodeName, uid) {
		f.queue.AddAfter(last, graceOver)
	}
}

// podAt returns how a pod was when an informer's event was made, nil where it was deleted then. The event of a
// pod that an informer does not follow any more has the pod as it was before, and the resource version of the
// change (k8s.io/apiserver, storage/cacher). The API server keeps old versions for a few minutes; asked for one
// name, it reads no other pod.
func podAt(client kubernetes.Interface) func(ctx context.Context, last *v1.Pod) (*v1.Pod, error) {
	return func(ctx context.Context, last *v1.Pod) (*v1.Pod, error) {
		list, err := client.CoreV1().Pods(last.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector:        fields.OneTermEqualSelector(metav1.ObjectNameField, last.Name).String(),
			ResourceVersion:      last.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
}

// graceOver is later than the end of the grace that cluster/kube gives to a pod that was deleted by force
// on its way: it is given up then.
const graceOver = 35 * time.Second
