package sched

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/fwk"
	"github.com/tenon-numa/tenon/core/place"
)

// kube-scheduler counted CPUs when it chose the node. If another scheduler binds a pod while this one waits, the
// kubelet would refuse it (OutOfcpu), although its managers have enough free on the NUMA nodes.
func TestPlainAmountsAreCountedAtTheTurnOfAPodThatWaited(t *testing.T) {
	held := holding(cpus("held", 12), "16-27")
	for name, ends := range map[string]func(*Plugin, *v1.Pod){
		"the pod before is admitted": func(p *Plugin, a *v1.Pod) { p.Feed.Pod(admitted(a, "n")) },
		// As after a restart of the API server: the pod is no longer assumed, and the informer does not have its node
		// yet.
		"a layout that has it comes before its binding": func(p *Plugin, a *v1.Pod) {
			p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, held, holding(a, "0-15")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlugin(t, refuse)
				p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, held))
				a, b := cpus("a", 16), cpus("b", 4) // if b came first, a would be refused: b waits
				foreign := bind(podOf("f", "cpu=8 memory=1Gi"), "n")
				p.amounts = inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
					Status: v1.NodeStatus{
						Allocatable: podOf("", "cpu=26 memory=64Gi pods=10").Spec.Containers[0].Resources.Requests,
					}}, a, b, foreign)
				csA, csB := reserve(t, p, a, "n"), reserve(t, p, b, "n")
				done := make(chan *fwk.Status, 1)
				go func() { done <- p.PreBind(t.Context(), csB, b, "n") }()
				fits(t, p.PreBind(t.Context(), csA, a, "n"))
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("pod b does not wait")
				}
				ends(p, a)
				says(t, <-done, fwk.Error, "node n no longer fits: insufficient cpu (wants 4; node has 2 left)")
				if p.Book.Booked("n", string(b.UID)) {
					t.Error("the pod keeps its booking")
				}
			})
		})
	}
}
