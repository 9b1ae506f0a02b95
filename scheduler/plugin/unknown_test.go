package plugin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// anew returns a later pod of the same name.
func anew(p *v1.Pod) *v1.Pod { p.UID = "later"; return p }

// A binding fails because the API server's answer is lost. No other pod gets the pod's room before the API server
// answers again and reports whether the binding was stored.
func TestTheAnswerToABindingIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		now   *v1.Pod // what the API server has
		frees bool
	}{
		"it was stored":            {bind(cpus("a", 16), "n"), false},
		"it was not stored":        {cpus("a", 16), true},
		"another scheduler's was":  {bind(cpus("a", 16), "other"), true},
		"the pod is gone":          {nil, true},
		"another pod has its name": {anew(bind(cpus("a", 16), "n")), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer func() { cancel(); synctest.Wait() }()
				p := newPlugin(t, refuse)
				client := fake.NewClientset()
				if c.now != nil {
					client = fake.NewClientset(c.now)
				}
				var away atomic.Bool // the API server is asked by a goroutine
				away.Store(true)
				client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return away.Load(), nil, errors.New("connection refused")
				})
				var freed []string
				p.turns.Ask(ctx, client, func(node string) { freed = append(freed, node) })
				p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1))
				a, b := cpus("a", 16), cpus("b", 16)
				csA := reserve(t, p, a, "n")
				fits(t, p.PreBind(ctx, csA, a, "n"))
				p.Unreserve(ctx, csA, a, "n")
				if _, err := p.podChanged(klog.Background(), b, bind(a, "n"), nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if filter(t, p, cycle(t, p, b), "n").IsSuccess() {
					t.Error("another pod fits while it is not known whether pod a is bound")
				}
				if _, s := p.PreFilter(ctx, framework.NewCycleState(), a, nil); s.Code() != fwk.Error {
					t.Errorf("pod a is tried again: %v", s)
				}
				away.Store(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if frees := filter(t, p, cycle(t, p, b), "n").IsSuccess(); frees != c.frees || (freed != nil) != c.frees {
					t.Errorf("room for another pod: %v; waiting pods are told of %q", frees, freed)
				}
			})
		})
	}
}

// A pod that did not have its turn was certainly not bound.
func TestABindingThatWasNeverSentAsksNobody(t *testing.T) {
	p := newPlugin(t, refuse)
	p.turns.Ask(t.Context(), fake.NewClientset(bind(cpus("a", 16), "n")), nil)
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1))
	p.Unreserve(t.Context(), reserve(t, p, cpus("a", 16), "n"), cpus("a", 16), "n")
	reserve(t, p, cpus("b", 16), "n")
}
