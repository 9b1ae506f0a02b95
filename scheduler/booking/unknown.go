package booking

import (
	"context"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/core/ledger"
)

// unknown holds pods whose binding failed after they had their turn, while it is unknown whether the API server
// stored the binding. The API server may have stored it although its answer was lost, and then the node gets the pod.
// Such a pod stays booked until the API server answers that the pod is not bound. If the pod is bound, it stays
// booked for good. The zero unknown asks no API server, and treats every failed binding as not stored.
type unknown struct {
	mu   sync.RWMutex
	pods map[string]bool // by UID
	// ask reads the pod from the API server and calls answer with it, or with nil if the pod no longer exists.
	ask   func(pod *v1.Pod, answer func(*v1.Pod))
	freed func(node string)
}

// retryDelay is the delay before the API server is asked again when it does not answer. There is no last attempt.
var retryDelay = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt32,
	Cap: 5 * time.Second}

// Ask makes the line ask the API server about failed bindings, until the context ends. Call it before the first
// binding. If an answer ends a booking, the line calls freed with the node, since no event announces that the node
// has room.
func (l *Line) Ask(ctx context.Context, client kubernetes.Interface, freed func(node string)) {
	l.freed = freed
	get := func(pod *v1.Pod, answer func(*v1.Pod)) {
		// Until fails only when the context ends, and then no caller waits for an answer.
		_ = retryDelay.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			present, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				present, err = nil, nil
			}
			if err == nil {
				answer(present)
			}
			return err == nil, nil
		})
	}
	l.ask = func(pod *v1.Pod, answer func(*v1.Pod)) { go get(pod, answer) }
}

// Failed ends the booking of a pod that could not be bound to a node. If the API server may have stored the binding,
// Failed only asks, and the booking ends when the API server answers that the pod is not bound to the node; see
// [Line.Unknown].
func (l *Line) Failed(book *ledger.Book, pod *v1.Pod, node string) {
	uid := string(pod.UID)
	if l.ask == nil || !book.HadTurn(uid) {
		book.Unreserve(uid)
		return
	}
	l.mark(uid, true)
	l.ask(pod, func(present *v1.Pod) {
		bound := present != nil && present.UID == pod.UID && present.Spec.NodeName == node
		if !bound {
			book.Unreserve(uid)
		}
		if l.mark(uid, false); !bound {
			l.freed(node)
		}
	})
}

// Unknown reports whether the API server has not answered yet if it stored the pod's last binding. Until it answers,
// the pod must not be booked on another node.
func (l *Line) Unknown(uid string) bool {
	l.unknown.mu.RLock()
	defer l.unknown.mu.RUnlock()
	return l.unknown.pods[uid]
}

// mark records whether the outcome of a pod's last binding is unknown.
func (u *unknown) mark(uid string, isUnknown bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !isUnknown:
		delete(u.pods, uid)
	case u.pods == nil:
		u.pods = map[string]bool{uid: true}
	default:
		u.pods[uid] = true
	}
}
