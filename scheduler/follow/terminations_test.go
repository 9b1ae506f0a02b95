package follow

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// followed is a ledger that a feed fills, with the outcomes of its predictions.
type followed struct {
	Book     *ledger.Book
	Feed     *kube.Feed
	outcomes []state.Result
}

func newFollowed() *followed {
	p := &followed{Book: ledger.New()}
	p.Feed = kube.NewFeed(p.Book, func(o state.Outcome) { p.outcomes = append(p.outcomes, o.Result) }, nil)
	p.Feed.Begin()
	return p
}

// terminations handles the events of pods; get returns their states.
func (p *followed) terminations(get func(ctx context.Context, namespace, name string) (*v1.Pod, error)) *Terminations {
	t := NewTerminations(p.Feed, p.Book, fake.NewClientset(), func(string) {}, klog.Background())
	t.get, t.getAt = get, func(context.Context, *v1.Pod) (*v1.Pod, error) { return nil, nil }
	return t
}

// For a pod that ended, the informer delivers the state from before.
func TestAnAssumedPodThatEndsIsReadOnceMore(t *testing.T) {
	refused := kubetest.Admitted(kubetest.CPUs("p", 4), "n")
	refused.Status.Phase, refused.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	another := refused.DeepCopy()
	another.UID = "uid-another"
	for name, c := range map[string]struct {
		now  *v1.Pod
		errs []error
		want []state.Result
		log  int // reads
	}{
		"refused": {refused, []error{nil}, []state.Result{state.Rejected}, 1},
		"refused, read late": {refused, []error{errors.New("timeout"), errors.New("timeout"), nil},
			[]state.Result{state.Rejected}, 3},
		"deleted":             {nil, []error{apierrors.NewNotFound(schema.GroupResource{}, "p")}, nil, 1},
		"deleted, made again": {another, []error{nil}, nil, 1},
		"never read":          {nil, slices.Repeat([]error{errors.New("timeout")}, maxReads+1), nil, maxReads + 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFollowed()
			p.Feed.Layout(kubetest.Layout(t, "n", kubetest.Two, place.SingleNUMA, 1))
			pod := kubetest.Bound(kubetest.CPUs("p", 4), "n")
			p.Feed.Pod(pod)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reads, gone := 0, make(chan *v1.Pod, 1)
			f := p.terminations(func(context.Context, string, string) (*v1.Pod, error) {
				reads++
				return c.now, c.errs[reads-1]
			})
			let := f.release
			f.release = func(p *v1.Pod) { let(p); gone <- p }
			go f.Run(ctx)
			f.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: pod})
			<-gone
			if reads != c.log {
				t.Errorf("the pod is read %d times, want %d", reads, c.log)
			}
			if !slices.Equal(p.outcomes, c.want) {
				t.Errorf("outcomes %v, want %v", p.outcomes, c.want)
			}
		})
	}
}

// A controller deletes a pod as soon as its kubelet has refused it: the pod can no longer be read, and no report will
// contain it. Its state at the time when it left the informer shows the refusal.
func TestAPodThatWasRefusedAndDeletedAtOnce(t *testing.T) {
	refused := kubetest.Admitted(kubetest.CPUs("p", 4), "n")
	refused.Status.Phase, refused.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	running := kubetest.Admitted(kubetest.CPUs("p", 4), "n")
	another := refused.DeepCopy()
	another.UID = "uid-another"
	for name, c := range map[string]struct {
		then *v1.Pod
		err  error
		left bool // it is no longer assumed
	}{
		"refused":               {refused, nil, true},
		"deleted by force":      {nil, nil, false},
		"another event's":       {running, nil, false},
		"too long ago to tell":  {nil, apierrors.NewResourceExpired("compacted"), false},
		"another pod's version": {another, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFollowed()
			p.Feed.Layout(kubetest.Layout(t, "n", kubetest.Two, place.SingleNUMA, 1))
			pod := kubetest.Bound(kubetest.CPUs("p", 4), "n")
			p.Feed.Pod(pod)
			f := p.terminations(func(context.Context, string, string) (*v1.Pod, error) {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, "p")
			})
			f.getAt = func(context.Context, *v1.Pod) (*v1.Pod, error) { return c.then, c.err }
			f.resolve(t.Context(), pod)
			if left := !p.Book.Booked("n", string(pod.UID)); left != c.left {
				t.Errorf("the pod has left its node: %v, want %v", left, c.left)
			}
			if n := p.Book.Snapshot().Node("n"); (len(n.Entries)+len(n.Others) == 0) != c.left {
				t.Errorf("%v is held", n.Entries)
			}
		})
	}
}

// podAt reads one pod, at exactly the version of the event.
func TestThePodOfAnEventIsReadAtItsVersion(t *testing.T) {
	client := fake.NewClientset()
	var asked []clienttesting.ListActionImpl
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, a.(clienttesting.ListActionImpl))
		return true, &v1.PodList{}, nil
	})
	pod := kubetest.Bound(kubetest.CPUs("p", 4), "n")
	pod.ResourceVersion = "4711"
	if got, err := podAt(client)(t.Context(), pod); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if len(asked) != 1 {
		t.Fatalf("%d lists", len(asked))
	}
	o := asked[0].ListOptions
	if o.ResourceVersion != "4711" || o.ResourceVersionMatch != metav1.ResourceVersionMatchExact ||
		o.FieldSelector != "metadata.name=p" ||
		asked[0].Namespace != pod.Namespace {
		t.Errorf("asked for %+v", o)
	}
}

// Pods that the ledger does not wait for are released at once, without a read.
func TestAPodThatIsNotAssumedIsReleasedAtOnce(t *testing.T) {
	p := newFollowed()
	pod := kubetest.Bound(kubetest.CPUs("p", 4), "n")
	p.Feed.Layout(kubetest.Layout(t, "n", kubetest.Two, place.SingleNUMA, 1, kubetest.Holding(pod, "0-3")))
	f := p.terminations(nil)
	ended := pod.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	f.OnDelete(ended)
	if n := p.Book.Snapshot().Node("n"); len(n.Entries) > 0 {
		t.Errorf("%v is held", n.Entries)
	}
	f.OnAdd(kubetest.Bound(kubetest.CPUs("q", 4), "n"), false)
	if n := p.Book.Snapshot().Node("n"); len(n.Entries) != 1 {
		t.Errorf("%v is held, want what pod q will hold", n.Entries)
	}
	f.OnDelete("no pod")
	if f.queue.Len() > 0 {
		t.Error("a pod waits to be read")
	}
}

// While the end of a pod is being resolved, a report may confirm its prediction: the pod has ended nevertheless.
func TestAPodThatIsConfirmedWhileItsEndIsResolved(t *testing.T) {
	p := newFollowed()
	p.Feed.Topology(kubetest.Topology("n", 1, 16, 16))
	pod := kubetest.Bound(kubetest.CPUs("p", 4), "n")
	p.Feed.Pod(pod)
	f := p.terminations(nil)
	f.OnDelete(pod)
	if f.queue.Len() != 1 {
		t.Fatal("nobody finds out how the pod ended")
	}
	p.Feed.Topology(kubetest.Topology("n", 2, 12, 16))
	f.resolve(t.Context(), pod)
	if free := p.Book.Snapshot().Node("n").Usage.FreeCPUs().Len(); free != 32 {
		t.Errorf("%d CPUs are free, want all 32", free)
	}
}
