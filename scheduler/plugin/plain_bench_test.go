package plugin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/profiles"
)

// BenchmarkAgainstPlain measures what it takes kube-scheduler to choose a node for a pod and to reserve it, with all of
// its default plugins: as it is, and with the plugin as it is shipped. The third contender, idle, is kube-scheduler
// with a plugin that does nothing at the plugin's extension points: what the framework takes for any plugin.
//
// All are kube-scheduler's own code from the update of its snapshot to Reserve, see the same pods on the same nodes,
// and take turns, 32 pods at a time. Every 32nd pod is of a kind that never came before, or with new=1 every one; with
// demand=true pods demand one numa by themselves. Of the repetitions that fit into the time, the least counts of each;
// CPU time counts, since nodes are asked on many CPUs at once.
func BenchmarkAgainstPlain(b *testing.B) {
	run := func(nodes, full, fresh int, demand bool) {
		b.Run(fmt.Sprintf("nodes=%d/full=%d/new=%d/demand=%v", nodes, full, fresh, demand), func(b *testing.B) {
			y := newYard(b, nodes, full)
			y.fresh, y.demand = fresh, demand
			y.compare(b, y.open(b, "plain", plainProfile(b)), y.openWith(b, "idle", shippedProfile(b), newIdle),
				y.open(b, "tenon", shippedProfile(b)))
		})
	}
	run(100, 50, 32, false) // of a hundred full nodes none takes the largest pods
	for _, nodes := range []int{500, 5000, 15000} {
		for _, full := range []int{50, 95} {
			run(nodes, full, 32, false)
		}
	}
	for _, full := range []int{50, 95} {
		run(5000, full, 1, false)
		run(5000, full, 32, true)
	}
}

// BenchmarkAffinityGroup measures the same for pods that share CPUs, on 5,000 nodes whose agents pin containers: pods
// without an affinity group, and pods of one group that has pods on every node.
func BenchmarkAffinityGroup(b *testing.B) {
	y := newYard(b, 5000, 50)
	y.pinned = true
	grouped := func(p *v1.Pod) *v1.Pod { return noted(p, apipod.AffinityGroupAnnotation, "g") }
	for _, n := range y.nodes {
		for i := range 3 {
			y.running = append(y.running, bind(grouped(shares(fmt.Sprintf("member-%s-%d", n.Name, i))), n.Name))
		}
	}
	all := []*contender{y.open(b, "alone", shippedProfile(b)), y.open(b, "grouped", shippedProfile(b))}
	all[0].instead, all[1].instead = func(p *v1.Pod) *v1.Pod { return shares(p.Name) },
		func(p *v1.Pod) *v1.Pod { return grouped(shares(p.Name)) }
	y.compare(b, all...)
}

// shares returns a pod that shares CPUs.
func shares(name string) *v1.Pod {
	p := podOf(name, "cpu=200m memory=256Mi")
	p.Spec.Containers[0].Resources.Limits = nil
	return p
}

// compare has contenders choose nodes for the same pods, in turns, and reports the costs of each, and the ratio
// of the last to the first.
func (y *yard) compare(b *testing.B, all ...*contender) {
	const turn = 32
	least, bytes := make([]float64, len(all)), make([]uint64, len(all))
	rounds := 0
	for b.Loop() {
		rounds++
		pods := y.pods(turn)
		for i, c := range all {
			cpu, garbage := used(b), allocated()
			// A profile of the run is divided by scheduler: go tool pprof -tagfocus scheduler=tenon.
			pprof.SetGoroutineLabels(pprof.WithLabels(b.Context(), pprof.Labels("scheduler", c.name)))
			for _, pod := range pods {
				if c.instead != nil {
					pod = c.instead(pod)
				}
				c.schedule(b, pod)
			}
			bytes[i] += allocated() - garbage
			if took := float64(used(b)-cpu) / 1e3 / turn; rounds > 2 && (least[i] == 0 || took < least[i]) {
				least[i] = took
			}
			c.leave(b, turn)
		}
	}
	for i, c := range all {
		b.ReportMetric(least[i], c.name+"-cpu-us/pod")
		b.ReportMetric(float64(bytes[i])/float64(rounds*turn)/1e3, c.name+"-kB/pod")
	}
	for i, c := range all[1 : len(all)-1] {
		b.ReportMetric(least[i+1]/least[0], c.name+"-x-plain")
	}
	b.ReportMetric(least[len(all)-1]/least[0], "x-plain")
	b.ReportMetric(0, "ns/op")
}

// yard is a cluster of nodes of two numas, full to a part, and the pods that come to it.
type yard struct {
	nodes   []*v1.Node
	running []*v1.Pod
	held    map[string][]state.Entry
	came    int
	fresh   int // one pod of so many is of a new kind
	demand  bool
	pinned  bool // the agents pin containers
}

// wide is the machine of every node of the yard.
const wide = `
numa 0 socket 0 cpus 0-31 memory 128Gi
numa 1 socket 1 cpus 32-63 memory 128Gi
`

func newYard(b testing.TB, nodes, full int) *yard {
	y := &yard{held: map[string][]state.Entry{}, fresh: 32}
	random := rand.New(rand.NewPCG(1, 2))
	has := v1.ResourceList{
		"cpu":    resource.MustParse("64"),
		"memory": resource.MustParse("256Gi"),
		"pods":   resource.MustParse("110"),
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		y.nodes = append(
			y.nodes,
			&v1.Node{Status: v1.NodeStatus{Capacity: has, Allocatable: has}, ObjectMeta: metav1.ObjectMeta{Name: name,
				Labels: map[string]string{
					v1.LabelHostname:     name,
					v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
					v1.LabelArchStable:   "amd64",
					v1.LabelOSStable:     "linux",
				}}},
		)
		for numa := range 2 {
			free := random.IntN(33)
			if full > 50 {
				if free = random.IntN(2); random.IntN(5) == 0 {
					free = random.IntN(17)
				}
			}
			y.hold(name, numa*32, 32-free)
		}
	}
	return y
}

// hold has pods run on some CPUs of a node.
func (y *yard) hold(node string, first, n int) {
	for n > 0 {
		size := min(n, 16)
		pod := bind(podOf(fmt.Sprintf("held-%s-%d", node, first), fmt.Sprintf("cpu=%d memory=%dGi", size, 2*size)), node)
		y.running = append(y.running, pod)
		y.held[node] = append(y.held[node], holding(pod, fmt.Sprintf("%d-%d", first, first+size-1)))
		first, n = first+size, n-size
	}
}

// pods returns pods that come, of six kinds and of new ones.
func (y *yard) pods(n int) (out []*v1.Pod) {
	kinds := []string{
		"cpu=2 memory=4Gi",
		"cpu=4 memory=8Gi",
		"cpu=4 memory=16Gi",
		"cpu=8 memory=16Gi",
		"cpu=8 memory=32Gi",
		"cpu=12 memory=16Gi",
	}
	for range n {
		amounts := kinds[y.came%len(kinds)]
		if y.came%y.fresh == y.fresh-1 {
			amounts = fmt.Sprintf("cpu=%d memory=%dMi", 2+2*(y.came/y.fresh%4), 1000+y.came)
		}
		pod := podOf(fmt.Sprintf("p%d", y.came), amounts)
		if y.demand {
			pod = noted(pod, apipod.PolicyAnnotation, "single-numa-node")
		}
		out = append(out, pod)
		y.came++
	}
	return out
}

// contender is a scheduler in the yard.
type contender struct {
	name   string
	sched  *scheduler.Scheduler
	f      framework.Framework
	shared *Shared
	came   []*v1.Pod
	// instead returns the pod that the contender gets in place of one; nil: that one.
	instead func(*v1.Pod) *v1.Pod
}

func plainProfile(b testing.TB) []schedapi.KubeSchedulerProfile {
	return profilesOf(b, "- schedulerName: default-scheduler\n")
}

// shippedProfile is that of deploy/scheduler.
func shippedProfile(b testing.TB) []schedapi.KubeSchedulerProfile {
	b.Helper()
	text, err := os.ReadFile("../../deploy/scheduler/scheduler.yaml")
	if err != nil {
		b.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return obj.(*schedapi.KubeSchedulerConfiguration).Profiles
}

// open returns a scheduler that knows of all nodes and pods of the yard.
func (y *yard) open(b testing.TB, name string, list []schedapi.KubeSchedulerProfile) *contender {
	b.Helper()
	return y.openWith(b, name, list, nil)
}

// openWith is open with a plugin instead of Tenon's, if there is one.
func (y *yard) openWith(b testing.TB, name string, list []schedapi.KubeSchedulerProfile,
	instead frameworkruntime.PluginFactory) *contender {
	b.Helper()
	ctx, logger := b.Context(), klog.Background()
	c := &contender{name: name}
	old, _ := remembering(b, refuse)
	c.shared = &Shared{Book: old.Book, Feed: old.Feed, Ready: old.Ready, Decisions: old.Decisions, metrics: old.metrics}
	if err := profiles.Complete(list, logger); err != nil {
		b.Fatal(err)
	}
	c.shared.options.Preemption = profiles.Preemptors(list, logger)
	factoryOf := instead
	if factoryOf == nil {
		factoryOf = c.shared.Factory(Name)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	var err error
	c.sched, err = scheduler.New(
		ctx,
		client,
		factory,
		nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithProfiles(
			list...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: factoryOf, Claims: c.shared.Claims(),
			Groups: c.shared.Groups(), stays: newStay}),
	)
	if err != nil {
		b.Fatal(err)
	}
	if instead == nil {
		c.shared.wrapFailureHandler(c.sched)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	c.f = c.sched.Profiles[list[0].SchedulerName]
	for i, n := range y.nodes {
		c.sched.Cache.AddNode(logger, n)
		if len(c.shared.plugins) > 0 {
			policy := place.SingleNUMA
			if i%4 == 3 {
				policy = place.BestEffort
			}
			l := layout(b, n.Name, wide, policy, i+1, y.held[n.Name]...)
			if y.pinned {
				l.Rules.Arbiter = place.ByAgent.String()
			}
			c.shared.Feed.Layout(l)
		}
	}
	for _, p := range y.running {
		if err := c.sched.Cache.AddPod(logger, p); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// idle does nothing at the extension points at which the plugin acts in a scheduling cycle.
type idle struct{}

func newIdle(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return idle{}, nil }

func (idle) Name() string { return Name }

func (idle) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (idle) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (idle) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status { return nil }

func (idle) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (idle) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (idle) ScoreExtensions() fwk.ScoreExtensions { return idle{} }

func (idle) NormalizeScore(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeScoreList) *fwk.Status {
	return nil
}

func (idle) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (idle) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func (idle) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

// stay permits no pod: attempts end before binding, and kube-scheduler takes back what they have reserved.
type stay struct{}

const stays = "Stay"

func newStay(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return stay{}, nil }

func (stay) Name() string { return stays }

func (stay) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Unschedulable, stays), 0
}

// schedule chooses a node for a pod and reserves it, as kube-scheduler's scheduling cycle does.
func (c *contender) schedule(b testing.TB, pod *v1.Pod) {
	ctx, logger := b.Context(), klog.Background()
	if err := c.sched.Cache.UpdateSnapshot(logger, c.f.SnapshotSharedLister().(*internalcache.Snapshot)); err != nil {
		b.Fatal(err)
	}
	cs := framework.NewCycleState()
	cs.SetRecordPluginMetrics(len(c.came)%10 == 0)
	result, err := c.choose(b, cs, pod)
	if err != nil {
		b.Fatalf("%s: pod %s wants %v: %v", c.name, pod.Name, pod.Spec.Containers[0].Resources.Requests, err)
	}
	assumed := bind(pod, result.SuggestedHost)
	if err := c.sched.Cache.AssumePod(logger, assumed); err != nil {
		b.Fatal(err)
	}
	if status := c.f.RunReservePluginsReserve(ctx, cs, assumed, result.SuggestedHost); !status.IsSuccess() {
		b.Fatal(status.Message())
	}
	c.came = append(c.came, assumed)
}

// leave has all but so many pods that came go, so that the cluster stays as full as it is.
func (c *contender) leave(b testing.TB, but int) {
	for ; len(c.came) > but; c.came = c.came[1:] {
		if err := c.sched.Cache.ForgetPod(klog.Background(), c.came[0]); err != nil {
			b.Fatal(err)
		}
		c.shared.Book.Unreserve(string(c.came[0].UID))
	}
}

// used is the time that CPUs have spent for this process, in nanoseconds.
func used(b *testing.B) int64 { return usedBy(b, syscall.RUSAGE_SELF) }

// usedBy is the time that CPUs have spent for this process or thread, in nanoseconds.
func usedBy(b *testing.B, who int) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Error(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// allocated is how many bytes have been allocated so far.
func allocated() uint64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.TotalAlloc
}
