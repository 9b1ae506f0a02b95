package steer_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// sampled is how many nodes kube-scheduler filters in a cycle of a large cluster, about.
const sampled = 500

// fleet returns nodes with eight devices each, some of them taken.
func (b *bench) fleet(nodes int) (out []fwk.NodeInfo) {
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		b.gpus(1, 1, 1, 1, 0, 0, 0, 0)
		s := b.slices[len(b.slices)-1]
		s.Name, s.Spec.NodeName, s.Spec.Pool.Name = name, &name, name
		for k := range i % 8 {
			b.taken.Insert(structured.MakeDeviceID(gpuDriver, name, fmt.Sprintf("gpu-%d", k)))
		}
		if i < sampled {
			info := framework.NewNodeInfo()
			info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			out = append(out, info)
		}
	}
	return out
}

// claimsPlugin is what the benchmark runs of a plugin.
type claimsPlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

// cycle runs a pod through the extension points, Filter on several nodes at once.
func cycle(t testing.TB, p claimsPlugin, pod *v1.Pod, nodes []fwk.NodeInfo) {
	ctx, cs := t.Context(), framework.NewCycleState()
	if _, status := p.PreFilter(ctx, cs, pod, nodes); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	fits := make([]bool, len(nodes))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(nodes); i += 4 {
				fits[i] = p.Filter(ctx, cs, pod, nodes[i]).IsSuccess()
			}
		})
	}
	wg.Wait()
	for i := range fits {
		if fits[i] {
			if status := p.Reserve(ctx, cs, pod, nodes[i].Node().Name); !status.IsSuccess() {
				t.Fatal(status.Message())
			}
			p.Unreserve(ctx, cs, pod, nodes[i].Node().Name)
			return
		}
	}
	t.Fatal("the pod fits nowhere")
}

// Devices are chosen on many nodes at once.
func TestManyNodesAtOnce(t *testing.T) {
	b := newBench(t)
	nodes := b.fleet(50)
	pod := podNamed("p")
	b.claim(pod, counted(2))
	for range 3 {
		for _, b.near = range []steer.Near{{}, {NUMAs: []int{0}}, {NUMAs: []int{1}, Must: true}} {
			cycle(t, b.plugin, pod, nodes)
		}
	}
}

// BenchmarkCycle compares the plugin with the plugin that it wraps.
func BenchmarkCycle(b *testing.B) {
	for _, size := range []int{500, 5000} {
		c := newBench(b)
		nodes := c.fleet(size)
		// kube-scheduler lists slices in no order.
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(c.slices), func(i, k int) {
			c.slices[i], c.slices[k] = c.slices[k], c.slices[i]
		})
		pod := podNamed("p")
		c.claim(pod, counted(1))
		for _, kind := range []struct {
			name string
			near steer.Near
			p    claimsPlugin
		}{
			{"wrapped", steer.Near{}, c.plugin.DynamicResources},
			{"unknown", steer.Near{Unknown: true}, c.plugin},
			{"near", steer.Near{NUMAs: []int{0}, Must: true}, c.plugin},
			{"nowhere", steer.Near{}, c.plugin},
		} {
			b.Run(fmt.Sprintf("%d/%s", size, kind.name), func(b *testing.B) {
				c.near = kind.near
				for b.Loop() {
					cycle(b, kind.p, pod, nodes)
				}
			})
		}
	}
}
