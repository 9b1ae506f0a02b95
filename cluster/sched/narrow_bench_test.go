package sched

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// BenchmarkOnePod measures what it takes to choose a node for a pod: PreFilter, Filter for as many nodes as
// kube-scheduler would ask, and Score, with two more filters. Each pod has the place of one before it, so that
// the cluster stays as full as it is. A part of the numas is held; the pod wants a whole one. Of a new kind of pods
// each is the first.
//
// The time of the CPUs counts: kube-scheduler asks and scores nodes on many of them.
func BenchmarkOnePod(b *testing.B) {
	metrics.Register()
	for _, nodes := range []int{500, 5000} {
		for _, full := range []int{50, 95} {
			for _, policy := range []string{"", "single-numa-node"} {
				for _, kind := range []string{"known", "new"} {
					for _, every := range []bool{true, false} {
						name := fmt.Sprintf("nodes=%d/full=%d/demand=%s/kind=%s/every=%v", nodes, full, policy, kind, every)
						b.Run(name, func(b *testing.B) { benchOnePod(b, nodes, full, policy, kind == "new", every) })
					}
				}
			}
		}
	}
}

func benchOnePod(b *testing.B, nodes, full int, policy string, fresh, every bool) {
	p, f := partly(b, nodes, full)
	if every {
		p.preemption.runner = nil
	}
	pods, asked, before := 0, 0, ""
	one := func() {
		pod := cpus(fmt.Sprintf("p%d", pods), 16)
		if fresh {
			pod = podOf(pod.Name, fmt.Sprintf("cpu=16 memory=%dMi", 1000+pods))
		}
		if policy != "" {
			pod = noted(pod, "tenon.sh/numa-policy", policy)
		}
		cs := framework.NewCycleState()
		node, n := chosen(b, f, cs, pod, asked)
		if status := p.Reserve(b.Context(), cs, pod, node); !status.IsSuccess() {
			b.Fatal(status.Message())
		}
		p.book.Unreserve(before)
		before = string(pod.UID)
		pods, asked = pods+1, asked+n
	}
	for range 3 {
		one()
	}
	asked = 0
	from := used(b)
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(used(b)-from)/1e3/float64(b.N), "cpu-us/pod")
	b.ReportMetric(float64(asked)/float64(b.N), "asked/pod")
}

// chosen returns the best of the nodes that kube-scheduler would look at, and how many it would filter.
func chosen(b *testing.B, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, start int) (node string, asked int) {
	nodes := f.SnapshotSharedLister().NodeInfos()
	result, status, _ := f.RunPreFilterPlugins(b.Context(), cs, pod)
	if !status.IsSuccess() {
		b.Fatal(status.Message())
	}
	among, err := nodes.List()
	if err != nil {
		b.Fatal(err)
	}
	if !result.AllNodes() {
		among = nil
		for name := range result.NodeNames {
			info, err := nodes.Get(name)
			if err != nil {
				b.Fatal(err)
			}
			among = append(among, info)
		}
	}
	var fit []fwk.NodeInfo
	for ; asked < len(among) && len(fit) < sampled(len(among)); asked++ {
		info := among[(start+asked)%len(among)]
		if f.RunFilterPluginsWithNominatedPods(b.Context(), cs, pod, info).IsSuccess() {
			fit = append(fit, info)
		}
	}
	f.RunPreScorePlugins(b.Context(), cs, pod, fit)
	scores, status := f.RunScorePlugins(b.Context(), cs, pod, fit)
	if !status.IsSuccess() {
		b.Fatal(status.Message())
	}
	best := slices.MinFunc(scores, func(x, y fwk.NodePluginScores) int {
		return cmp.Or(cmp.Compare(y.TotalScore, x.TotalScore), cmp.Compare(x.Name, y.Name))
	})
	return best.Name, asked
}

// sampled is how many nodes that fit kube-scheduler looks for among so many, by default.
func sampled(n int) int { return min(n, max(100, n*max(5, 50-n/125)/100)) }

// used is the time that CPUs have spent for this process.
func used(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// partly is a framework with nodes of two numas of which so many in a hundred are held.
func partly(b *testing.B, nodes, full int) (*Plugin, framework.Framework) {
	old, _ := remembering(b, refuse)
	random := rand.New(rand.NewPCG(1, 2))
	has := v1.ResourceList{"cpu": resource.MustParse("100"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110")}
	var list []*v1.Node
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		list = append(list, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}})
		var held []ledger.Entry
		for k, set := range []string{"0-15", "16-31"} {
			if random.IntN(100) < full {
				held = append(held, holding(cpus(fmt.Sprintf("held-%d-%d", i, k), 16), set))
			}
		}
		old.feed.Layout(layout(b, name, two, place.SingleNUMA, i+1, held...))
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	profiles := profiles(b, fmt.Sprintf(few, Name, ""))
	shared := &Shared{Book: old.book, Feed: old.feed, Ready: old.ready, Decisions: old.decisions, metrics: old.metrics}
	shared.find.Do(func() {}) // no API is served
	shared.preempts = preempters(profiles, klog.Background())
	registry := plugins.NewInTreeRegistry()
	if err := registry.Register(Name, named(Name, shared)); err != nil {
		b.Fatal(err)
	}
	queue := internalqueue.NewTestQueueWithObjects(b.Context(), func(a, b fwk.QueuedPodInfo) bool { return false }, nil)
	f, err := frameworkruntime.NewFramework(b.Context(), registry, &profiles[0], frameworkOptions(client, factory, internalcache.NewSnapshot(nil, list), queue)...)
	if err != nil {
		b.Fatal(err)
	}
	return shared.plugins[0], f
}
