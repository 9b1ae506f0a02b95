package preempt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// two describes a machine of two NUMA nodes with 16 CPUs each.
const two = `
numa 0 socket 0 cpus 0-15 memory 64Gi
numa 1 socket 1 cpus 16-31 memory 64Gi
`

// least is a minimal plugin that preempts: it filters by the ledger alone.
type least struct {
	book *ledger.Book
	pre  *Preemption
}

const leastName = "Least"

// cycle is the state of least in one cycle.
type cycle struct {
	pod    *place.Pod
	demand place.Demand
	nodes  map[string]*state.Node
	// first has the nodes at the beginning of the cycle.
	first   *ledger.Snapshot
	removed map[string][]string
}

// Clone implements fwk.StateData.
func (c *cycle) Clone() fwk.StateData {
	out := *c
	out.nodes, out.removed = map[string]*state.Node{}, map[string][]string{}
	for name, n := range c.nodes {
		out.nodes[name], out.removed[name] = n, slices.Clone(c.removed[name])
	}
	return &out
}

func (c *cycle) node(name string) *state.Node {
	if n, ok := c.nodes[name]; ok {
		return n
	}
	return c.first.Node(name)
}

func (c *cycle) set(node string, removed []string) {
	c.removed[node] = removed
	c.nodes[node] = c.first.Node(node).Without(removed...)
}

func cycleOf(cs fwk.CycleState) *cycle {
	d, err := cs.Read(leastName)
	if err != nil {
		return nil
	}
	return d.(*cycle)
}

func (*least) Name() string                                   { return leastName }
func (l *least) PreFilterExtensions() fwk.PreFilterExtensions { return l }

func (l *least) PreFilter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (
	*fwk.PreFilterResult, *fwk.Status) {
	p, err := apipod.ToPlace(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if p.Plain() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cs.Write(leastName, &cycle{pod: p, first: l.book.Snapshot(), nodes: map[string]*state.Node{},
		removed: map[string][]string{}})
	return nil, nil
}

func (l *least) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, add fwk.PodInfo,
	info fwk.NodeInfo) *fwk.Status {
	if c, name := cycleOf(cs), info.Node().Name; c != nil {
		c.set(name, slices.DeleteFunc(c.removed[name], func(uid string) bool { return uid == string(add.GetPod().UID) }))
	}
	return nil
}

func (l *least) RemovePod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, p fwk.PodInfo,
	info fwk.NodeInfo) *fwk.Status {
	if c, name := cycleOf(cs), info.Node().Name; c != nil {
		c.set(name, append(c.removed[name], string(p.GetPod().UID)))
	}
	return nil
}

func (l *least) Filter(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := cycleOf(cs)
	if c == nil {
		return nil
	}
	n := c.node(info.Node().Name)
	v := n.Place(c.pod, c.demand)
	switch {
	case v.Fits():
		return nil
	case !n.FitsEmpty(c.pod):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, l.Reasons(c.pod, v)...)
	}
	return fwk.NewStatus(fwk.Unschedulable, l.Reasons(c.pod, v)...)
}

func (l *least) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (
	*fwk.PostFilterResult, *fwk.Status) {
	return l.pre.PostFilter(ctx, cs, pod, m)
}

func (l *least) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	return l.pre.PreEnqueue(ctx, pod)
}

// Attempt implements Plugin.
func (l *least) Attempt(cs fwk.CycleState) (Attempt, bool) {
	c := cycleOf(cs)
	if c == nil {
		return Attempt{}, false
	}
	return Attempt{Pod: c.pod, Demand: c.demand, Node: c.node, Log: func(string, ...any) {}}, true
}

// Reasons implements Plugin.
func (l *least) Reasons(_ *place.Pod, v place.Verdict) (out []string) {
	for _, r := range v.Reasons {
		out = append(out, r.Text())
	}
	return out
}

// CutShort implements Plugin.
func (*least) CutShort() {}

// stage is kube-scheduler's framework with a plugin that preempts, and its nodes and pods.
type stage struct {
	t     *testing.T
	p     *least
	feed  *kube.Feed
	nodes []*v1.Node
	pods  []*v1.Pod
	pdbs  []*policy.PodDisruptionBudget
	// nominated wait for room that they have made on a node.
	nominated []runtime.Object
	now       time.Time
	later     []time.Duration // delays of scheduled functions
	// keep leaves everything to DefaultPreemption.
	keep bool
}

const profile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: TaintToleration}, {name: NodeResourcesFit}, {name: DefaultBinder}, {name: Least}]
`

func newStage(t *testing.T) *stage {
	metrics.Register() // once per process, as kube-scheduler does
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	feed.Begin()
	return &stage{t: t, p: &least{book: book}, feed: feed, now: time.Now()}
}

// layout makes the layout of a node with static managers; versions are resource versions.
func layout(t testing.TB, node, machine string, pol place.Policy, version int,
	entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: pol}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
	l := v1alpha1.FromCore(node, m, r, entries, nil)
	l.ResourceVersion = fmt.Sprint(version)
	return l
}

// holding returns the entry of a pod that the node reports with these CPUs.
func holding(p *v1.Pod, cpus string) state.Entry {
	set, err := idset.Parse[idset.CPU](cpus)
	if err != nil {
		panic(err)
	}
	return state.Entry{Pod: kube.ID(p), Holdings: []place.Holding{{Container: "c", CPUs: set}}}
}

// podOf returns a pod of one container, Guaranteed if it has CPUs and memory: "cpu=4 memory=1Gi".
func podOf(name, amounts string) *v1.Pod {
	list := v1.ResourceList{}
	for _, f := range strings.Fields(amounts) {
		key, q, _ := strings.Cut(f, "=")
		list[v1.ResourceName(key)] = resource.MustParse(q)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

func cpus(name string, n int) *v1.Pod { return podOf(name, fmt.Sprintf("cpu=%d memory=1Gi", n)) }

func bind(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// node adds a node with a layout, and with plain amounts for much more.
func (s *stage) node(name, machine string, pol place.Policy, entries ...state.Entry) {
	s.t.Helper()
	s.bare(name)
	s.feed.Layout(layout(s.t, name, machine, pol, len(s.nodes), entries...))
}

func (s *stage) bare(name string) {
	has := v1.ResourceList{"cpu": resource.MustParse("100"), "memory": resource.MustParse("1Ti"),
		"pods": resource.MustParse("110")}
	s.nodes = append(s.nodes,
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}})
}

// runs adds a pod that runs on a node, and returns it.
func (s *stage) runs(node string, priority int32, p *v1.Pod) *v1.Pod {
	p = bind(ranked(p, priority), node)
	start := metav1.NewTime(s.now.Add(time.Duration(len(s.pods)) * time.Second))
	p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &start}
	s.pods = append(s.pods, p)
	s.feed.Pod(p)
	return p
}

func ranked(p *v1.Pod, priority int32) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.Priority = &priority
	return p
}

// deleted marks a pod of the stage as being deleted, with a grace period that ends then.
func (s *stage) deleted(p *v1.Pod, end time.Duration) {
	at := metav1.NewTime(s.now.Add(end))
	p.DeletionTimestamp = &at
}

// attempt schedules a pod that fits nowhere. It returns the nominated node and the victims on it.
func (s *stage) attempt(pod *v1.Pod) (node string, goes []string, says string) {
	s.t.Helper()
	f := s.framework(pod)
	ctx := s.t.Context()
	cs := framework.NewCycleState()
	infos, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		s.t.Fatal(err)
	}
	statuses := framework.NewDefaultNodeToStatus()
	if _, status, _ := f.RunPreFilterPlugins(ctx, cs, pod); !status.IsSuccess() {
		s.t.Fatalf("pod %s: %s", pod.Name, status.Message())
	}
	for _, info := range infos {
		status := f.RunFilterPluginsWithNominatedPods(ctx, cs, pod, info)
		if status.IsSuccess() {
			s.t.Fatalf("pod %s fits on node %s", pod.Name, info.Node().Name)
		}
		statuses.Set(info.Node().Name, status)
	}
	before := s.p.book.Snapshot()
	result, status := f.RunPostFilterPlugins(ctx, cs, pod, statuses)
	if s.p.book.Snapshot() != before {
		s.t.Error("the book is another one after the preemption")
	}
	if result != nil && result.NominatingInfo != nil {
		node = result.NominatedNodeName
	}
	for _, uid := range s.p.pre.Victims(pod, node) {
		goes = append(goes, strings.TrimPrefix(uid, "uid-"))
	}
	slices.Sort(goes)
	return node, goes, status.Message()
}

// framework returns kube-scheduler's framework in its present state. The plugin, its ledger and its records stay the
// same.
func (s *stage) framework(pod *v1.Pod) framework.Framework {
	s.t.Helper()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	var pods []*v1.Pod // evictions continue while the test changes its own
	for _, p := range s.pods {
		pods = append(pods, p.DeepCopy())
	}
	for _, p := range append(slices.Clone(pods), pod) {
		if err := factory.Core().V1().Pods().Informer().GetStore().Add(p); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, b := range s.pdbs {
		if err := factory.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(b); err != nil {
			s.t.Fatal(err)
		}
	}
	registry := plugins.NewInTreeRegistry()
	if err := registry.Register(leastName, s.plug); err != nil {
		s.t.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(profile), nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	queue := internalqueue.NewTestQueueWithObjects(s.t.Context(), inAnyOrder, s.nominated)
	for _, p := range s.nominated {
		queue.Add(forQueue(s.t.Context()), p.(*v1.Pod))
	}
	f, err := frameworkruntime.NewFramework(s.t.Context(), registry,
		&obj.(*schedapi.KubeSchedulerConfiguration).Profiles[0],
		append(viewOf(internalcache.NewSnapshot(pods, s.nodes)),
			frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
			frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
			frameworkruntime.WithPodNominator(queue), frameworkruntime.WithPodActivator(queue))...)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// plug gives the plugin a new framework, and keeps the records of its preemption.
func (s *stage) plug(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	next, err := New(ctx, s.p, Config{
		Name:        leastName,
		Args:        &schedapi.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100},
		Handle:      h,
		Logger:      klog.Background(),
		Recorder:    &events.FakeRecorder{},
		Texts:       Texts{NoVictims: "no pods of lower priority to evict"},
		KeepVictims: s.keep,
	})
	if err != nil {
		return nil, err
	}
	if old := s.p.pre; old != nil {
		next.waits, next.plans = old.waits, old.plans
	}
	next.now = func() time.Time { return s.now }
	next.later = func(d time.Duration, _ func()) { s.later = append(s.later, d) }
	s.p.pre = next
	return s.p, nil
}

// want fails the test unless exactly these pods are evicted from the node.
func (s *stage) want(pod *v1.Pod, node, goes, says string) {
	s.t.Helper()
	at, who, said := s.attempt(pod)
	if at != node || strings.Join(who, " ") != goes || !strings.Contains(said, says) {
		s.t.Errorf("pod %s is promised node %q, %v go, and it says %q; want node %q, %q, and %q",
			pod.Name, at, who, said, node, goes, says)
	}
}

// full adds a node whose NUMA nodes are held by low (CPUs 0-15, priority 1) and mid (16-31, priority 5).
func (s *stage) full(name string) (low, mid *v1.Pod) {
	low, mid = cpus("low-"+name, 16), cpus("mid-"+name, 16)
	s.node(name, two, place.SingleNUMA, holding(low, "0-15"), holding(mid, "16-31"))
	return s.runs(name, 1, low), s.runs(name, 5, mid)
}

// inAnyOrder is a queue's order; releases differ in what they compare.
func inAnyOrder[T any](T, T) bool { return false }
