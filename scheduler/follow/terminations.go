package follow

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
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// Terminations finds out how assumed pods terminated, and releases them in the ledger. It handles the pod events of
// kube-scheduler's informer, which follows only pods that have not terminated. When a pod terminates, the informer
// delivers a deletion with the pod's state from before, which does not show whether a kubelet refused the pod, nor
// why. So Terminations reads the pod from the API server once more. In the end it releases every assumed pod that
// leaves the informer, in the state in which the pod terminated or, if that cannot be read, in its last known state.
type Terminations struct {
	cache.ResourceEventHandler // handles adds and updates
	// assumed reports whether the ledger expects the node to admit the pod.
	assumed func(node, uid string) bool
	// doubted reports whether the last report of a pod's node still lists the pod, although it left the informer.
	doubted func(uid string) bool
	// get returns the pod that has this name at present.
	get func(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// getAt returns the pod as it was when it left the informer, or nil if it was deleted at that moment.
	getAt func(ctx context.Context, last *v1.Pod) (*v1.Pod, error)
	// release records the end of a pod in the ledger.
	release func(*v1.Pod)
	// onReleased is called with the node after each release.
	onReleased func(node string)
	queue      workqueue.TypedRateLimitingInterface[*v1.Pod]
	logger     klog.Logger
}

const (
	// maxReads bounds how often a failed read of one pod is repeated.
	maxReads = 5
	// reportWait is how long Terminations waits for a report that no longer lists a released pod before it reads the
	// pod.
	reportWait = 5 * time.Second
	// graceOver is the time after which a pod that is still assumed after its release is processed again. It is longer
	// than vanishGrace (cluster/kube), for which a pod that was deleted by force stays assumed.
	graceOver = 35 * time.Second
)

// NewTerminations returns the handler of pod events that fills the ledger through a feed. It calls released with the
// node of each released pod, since no event announces that the node has room again.
func NewTerminations(feed *kube.Feed, book *ledger.Book, client kubernetes.Interface, released func(node string),
	logger klog.Logger) *Terminations {
	return &Terminations{ResourceEventHandler: feed.Pods(), assumed: book.Booked, doubted: book.Doubted,
		get: func(ctx context.Context, namespace, name string) (*v1.Pod, error) {
			return client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		getAt: podAt(client), release: feed.PodGone, onReleased: released, logger: logger,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[*v1.Pod]())}
}

// OnDelete releases a pod at once if it was not assumed, or if its last state shows that it terminated. It queues
// every other pod, so that resolve reads it. If the node's last report still lists a pod that was released at once,
// OnDelete queues the pod as well, after reportWait; the pod is not read if the node no longer reports it by then.
func (t *Terminations) OnDelete(o any) {
	last := o
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		last = tombstone.Obj
	}
	p, ok := last.(*v1.Pod)
	if !ok || kube.Ended(p) || !t.assumed(p.Spec.NodeName, string(p.UID)) {
		t.ResourceEventHandler.OnDelete(o)
		if ok && t.doubted(string(p.UID)) {
			t.queue.AddAfter(p, reportWait)
		}
		return
	}
	t.queue.Add(p)
}

// Run processes queued pods until the context ends.
func (t *Terminations) Run(ctx context.Context) {
	context.AfterFunc(ctx, t.queue.ShutDown)
	for {
		p, quit := t.queue.Get()
		if quit {
			return
		}
		t.resolve(ctx, p)
		t.queue.Done(p)
	}
}

// resolve releases a pod in the state in which it terminated, or in its last known state if the former cannot be
// read. It queues the pod again if the read is to be repeated, or if the pod is still assumed or doubted afterwards.
func (t *Terminations) resolve(ctx context.Context, last *v1.Pod) {
	uid := string(last.UID)
	if !t.assumed(last.Spec.NodeName, uid) && !t.doubted(uid) {
		// The node has reported, or the grace period is over.
		t.release(last)
		// The report may be older than the pod's end and still list the pod. Then the pod is doubted from now on.
		if t.doubted(uid) {
			t.queue.AddAfter(last, reportWait)
		}
		t.onReleased(last.Spec.NodeName)
		return
	}
	present, err := t.get(ctx, last.Namespace, last.Name)
	switch {
	case err == nil && present.UID == last.UID && kube.Ended(present):
		t.queue.Forget(last)
		last = present
	case err != nil && !apierrors.IsNotFound(err) && t.queue.NumRequeues(last) < maxReads:
		t.logger.V(report.LevelData).Info("Pod not read, will try again", "pod", klog.KObj(last), "error", err.Error())
		t.queue.AddRateLimited(last)
		return
	default:
		t.queue.Forget(last)
		// Controllers delete a pod as soon as its kubelet has refused it, and create another pod of that name.
		if atEnd, err := t.getAt(ctx, last); err != nil {
			t.logger.V(report.LevelData).Info("State at termination not read", "pod", klog.KObj(last), "error", err.Error())
		} else if atEnd != nil && atEnd.UID == last.UID && kube.Ended(atEnd) {
			last = atEnd
		}
	}
	t.release(last)
	t.onReleased(last.Spec.NodeName)
	if t.assumed(last.Spec.NodeName, uid) {
		t.queue.AddAfter(last, graceOver)
	}
}

// podAt returns a function that reads a pod in the version in which it left its informer. It returns nil if the pod
// was deleted in that version.
//
// When a pod leaves an informer's selection, the event carries the pod's former state and the resource version of
// the change (k8s.io/apiserver, storage/cacher). The API server keeps old versions for a few minutes. A field
// selector for one name makes it read only that pod.
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
