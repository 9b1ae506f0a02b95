package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// The hint of a deletion comes before it is known that a kubelet refused the pod, and no report follows: the pod never
// held anything. Waiting pods are woken when the refusal is known.
func TestALateRefusalWakesWaitingPods(t *testing.T) {
	p, _ := remembering(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("other", 16), "16-31")))
	pod := cpus("p", 12)
	cs := reserve(t, p, pod, "n")
	fits(t, p.PreBind(t.Context(), cs, pod, "n"))
	pod = bind(pod, "n")
	p.Feed.Pod(pod)
	waiting := cpus("q", 12)
	if hint, err := p.podChanged(p.logger, waiting, pod, nil); err != nil || hint != fwk.QueueSkip {
		t.Fatalf("the deletion of a pod that may run still has the hint %v, error %v", hint, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := pod.DeepCopy()
	refused.Status.Phase, refused.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	woken := make(chan fwk.QueueingHint, 1)
	released := func(node string) { woken <- p.hint(cpus("r", 8), node) }
	f := follow.NewTerminations(p.Feed, p.Book, fake.NewClientset(refused), released, p.logger)
	go f.Run(ctx)
	f.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: pod})
	if hint := <-woken; hint != fwk.Queue {
		t.Errorf("a pod that fits has the hint %v when it is woken", hint)
	}
}
