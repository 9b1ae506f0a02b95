package plugin

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// BenchmarkLargePods measures choosing a node for a pod of many init containers, or refusing it, beside an unmodified
// kube-scheduler. Every pod is of a new kind: an attacker must not delay other pods by pods that are new each time.
func BenchmarkLargePods(b *testing.B) {
	const turn = 4
	y := newYard(b, 1000, 50)
	all := []*contender{y.open(b, "plain", plainProfile(b)), y.open(b, "tenon", shippedProfile(b))}
	for _, inits := range []int{1, 20, 100, 200, 500, 5000} {
		b.Run(fmt.Sprintf("inits=%d", inits), func(b *testing.B) {
			least, refused, came := make([]float64, len(all)), 0, 0
			for b.Loop() {
				for i, c := range all {
					cpu := used(b)
					for k := range turn {
						pod := many(fmt.Sprintf("large-%d-%d-%d", inits, came, k), inits)
						pod.Spec.Containers[0].Name = fmt.Sprintf("c-%d-%d", came, k)
						if !c.attempt(b, pod) {
							refused++
						}
					}
					if took := float64(used(b)-cpu) / 1e3 / turn; least[i] == 0 || took < least[i] {
						least[i] = took
					}
				}
				came++
			}
			for i, c := range all {
				b.ReportMetric(least[i], c.name+"-cpu-us/pod")
			}
			b.ReportMetric(least[1]/least[0], "x-plain")
			b.ReportMetric(float64(refused)/float64(turn*came), "refused/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkNowhere measures refusing a pod of a new kind that is larger than any node, beside an unmodified
// kube-scheduler.
func BenchmarkNowhere(b *testing.B) {
	const turn = 8
	y := newYard(b, 100, 50)
	all := []*contender{y.open(b, "plain", plainProfile(b)), y.open(b, "tenon", shippedProfile(b))}
	least, came := make([]float64, len(all)), 0
	for b.Loop() {
		for i, c := range all {
			cpu := used(b)
			for k := range turn {
				asks := fmt.Sprintf("cpu=1000 memory=%dMi", 1000+came*turn+k)
				if c.attempt(b, podOf(fmt.Sprintf("nowhere-%d-%d", came, k), asks)) {
					b.Fatal("a pod larger than any node has got one")
				}
			}
			if took := float64(used(b)-cpu) / 1e3 / turn; least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
		came++
	}
	for i, c := range all {
		b.ReportMetric(least[i], c.name+"-cpu-us/pod")
	}
	b.ReportMetric(least[1]/least[0], "x-plain")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkManyShapes measures the memory of 3,000 waiting pods with different requests, beside an unmodified
// kube-scheduler, which only keeps the pods themselves.
func BenchmarkManyShapes(b *testing.B) {
	y := newYard(b, 100, 95)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	of := func(name string, profile []schedapi.KubeSchedulerProfile) float64 {
		c := y.open(b, name, profile)
		before := heap()
		var waiting []*v1.Pod
		for i := range 3000 {
			pod := many(fmt.Sprintf("shape-%d", i), 20)
			pod.Spec.InitContainers[i%20].Name = fmt.Sprintf("other-%d", i)
			c.attempt(b, pod)
			waiting = append(waiting, pod)
		}
		took := heap() - before
		runtime.KeepAlive(c)
		runtime.KeepAlive(waiting)
		b.ReportMetric(took, name+"-MiB")
		return took
	}
	for b.Loop() {
		plain := of("plain", plainProfile(b))
		b.ReportMetric(of("tenon", shippedProfile(b))/plain, "x-plain")
	}
	b.ReportMetric(0, "ns/op")
}

// attempt tries to schedule a pod, and reports whether a node was found.
func (c *contender) attempt(b testing.TB, pod *v1.Pod) bool {
	nodes := c.f.SnapshotSharedLister().(*internalcache.Snapshot)
	if err := c.sched.Cache.UpdateSnapshot(klog.Background(), nodes); err != nil {
		b.Fatal(err)
	}
	_, err := c.choose(b, framework.NewCycleState(), pod)
	if why := (*framework.FitError)(nil); err != nil && !errors.As(err, &why) {
		b.Fatal(err)
	}
	return err == nil
}
