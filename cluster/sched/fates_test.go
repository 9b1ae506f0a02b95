package sched

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// What the informer delivers of a pod that ended is what the pod was before.
func TestAPodOnItsWayThatEndsIsReadOnceMore(t *testing.T) {
	refused := admitted(cpus("p", 4), "n")
	refused.Status.Phase, refused.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	another := refused.DeepCopy()
	another.UID = "uid-another"
	for name, c := range map[string]struct {
		now  *v1.Pod
		errs []error
		want []ledger.Result
		log  int // reads
	}{
		"refused":             {refused, []error{nil}, []ledger.Result{ledger.Rejected}, 1},
		"refused, told late":  {refused, []error{errors.New("timeout"), errors.New("timeout"), nil}, []ledger.Result{ledger.Rejected}, 3},
		"deleted":             {nil, []error{apierrors.NewNotFound(schema.GroupResource{}, "p")}, nil, 1},
		"deleted, made again": {another, []error{nil}, nil, 1},
		"never told":          {nil, slices.Repeat([]error{errors.New("timeout")}, maxReads+1), nil, maxReads + 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := remembering(t, refuse)
			p.feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
			pod := cpus("p", 4)
			cs := reserve(t, p, pod, "n")
			fits(t, p.PreBind(t.Context(), cs, pod, "n"))
			pod = bind(pod, "n")
			p.feed.Pod(pod)
			before := refusals(t, p)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reads, gone := 0, make(chan *v1.Pod, 1)
			f := newFates(p.feed, p.book.Booked, p.book.Doubted, func(context.Context, string, string) (*v1.Pod, error) {
				reads++
				return c.now, c.errs[reads-1]
			}, p.logger)
			let := f.gone
			f.gone = func(p *v1.Pod) { let(p); gone <- p }
			go f.run(ctx)
			f.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: pod})
			<-gone
			if reads != c.log {
				t.Errorf("the pod is read %d times, want %d", reads, c.log)
			}
			if got := refusals(t, p) - before; int(got) != len(c.want) {
				t.Errorf("%v refusals are counted, want %d", got, len(c.want))
			}
		})
	}
}

func refusals(t *testing.T, p *Plugin) float64 {
	t.Helper()
	return counted(t, p.metrics.rejected.WithLabelValues(string(place.TopologyAffinityError)))
}

// Pods that nobody waits for are let go at once, and read by nobody.
func TestAPodThatIsNotOnItsWayIsLetGo(t *testing.T) {
	p := newPlugin(t, refuse)
	pod := bind(cpus("p", 4), "n")
	p.feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(pod, "0-3")))
	f := newFates(p.feed, p.book.Booked, p.book.Doubted, nil, p.logger)
	ended := pod.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	f.OnDelete(ended)
	if n := p.book.Snapshot().Node("n"); len(n.Entries) > 0 {
		t.Errorf("%v is held", n.Entries)
	}
	f.OnAdd(bind(cpus("q", 4), "n"), false)
	if n := p.book.Snapshot().Node("n"); len(n.Entries) != 1 {
		t.Errorf("%v is held, want what pod q will hold", n.Entries)
	}
	f.OnDelete("no pod")
	if f.queue.Len() > 0 {
		t.Error("a pod waits to be read")
	}
}
