package plugin

import (
	"fmt"
	"slices"
	"strings"
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
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/profiles"
)

// stage is kube-scheduler's framework with the plugin, and its nodes and pods.
type stage struct {
	t     *testing.T
	p     *Plugin
	name  string // of the plugin
	args  string
	nodes []*v1.Node
	pods  []*v1.Pod
	queue *internalqueue.PriorityQueue
	// nominated are waiting pods in the queue.
	nominated []runtime.Object
	// cs is the state of the last attempt.
	cs fwk.CycleState
}

const few = `
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: TaintToleration}, {name: NodeResourcesFit}, {name: DefaultPreemption}, {name: DefaultBinder}, {name: %[1]s}]
  pluginConfig:
  - {name: %[1]s, args: {%[2]s}}
`

func newStage(t *testing.T) *stage {
	metrics.Register() // once per process, as kube-scheduler does
	p := newPlugin(t, refuse)
	return &stage{t: t, p: p, name: Name, args: refuse}
}

// node adds a node with a layout, and with plain amounts for much more.
func (s *stage) node(name, machine string, pol place.Policy, entries ...state.Entry) {
	s.t.Helper()
	s.bare(name)
	s.p.Feed.Layout(layout(s.t, name, machine, pol, len(s.nodes), entries...))
}

func (s *stage) bare(name string) {
	has := v1.ResourceList{
		"cpu":    resource.MustParse("100"),
		"memory": resource.MustParse("1Ti"),
		"pods":   resource.MustParse("110"),
	}
	s.nodes = append(
		s.nodes,
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}},
	)
}

// runs adds a pod that runs on a node, and returns it.
func (s *stage) runs(node string, priority int32, p *v1.Pod) *v1.Pod {
	p = bind(ranked(p, priority), node)
	start := metav1.NewTime(time.Now().Add(time.Duration(len(s.pods)) * time.Second))
	p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &start}
	s.pods = append(s.pods, p)
	s.p.Feed.Pod(p)
	return p
}

func ranked(p *v1.Pod, priority int32) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.Priority = &priority
	return p
}

// deleted marks a pod of the stage as being deleted, with a grace period that ends then.
func (s *stage) deleted(p *v1.Pod, end time.Duration) {
	at := metav1.NewTime(time.Now().Add(end))
	p.DeletionTimestamp = &at
}

// attempt schedules a pod that fits nowhere. It returns the nominated node and the victims on it.
func (s *stage) attempt(pod *v1.Pod) (node string, goes []string, says string) {
	s.t.Helper()
	f := s.framework(pod)
	ctx := s.t.Context()
	s.cs = framework.NewCycleState()
	infos, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		s.t.Fatal(err)
	}
	statuses := framework.NewDefaultNodeToStatus()
	if _, status, _ := f.RunPreFilterPlugins(ctx, s.cs, pod); !status.IsSuccess() {
		s.t.Fatalf("pod %s: %s", pod.Name, status.Message())
	}
	for _, info := range infos {
		status := f.RunFilterPluginsWithNominatedPods(ctx, s.cs, pod, info)
		if status.IsSuccess() {
			s.t.Fatalf("pod %s fits on node %s", pod.Name, info.Node().Name)
		}
		statuses.Set(info.Node().Name, status)
	}
	before := s.p.Book.Snapshot()
	result, status := f.RunPostFilterPlugins(ctx, s.cs, pod, statuses)
	if s.p.Book.Snapshot() != before {
		s.t.Error("the book is another one after the preemption")
	}
	if result != nil && result.NominatingInfo != nil {
		node = result.NominatedNodeName
	}
	for _, uid := range s.p.preemption.Victims(pod, node) {
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
	list := profilesOf(s.t, fmt.Sprintf(few, s.name, s.args))
	shared := &Shared{Book: s.p.Book, Feed: s.p.Feed, Ready: s.p.Ready}
	shared.options.Preemption = profiles.Preemptors(list, klog.Background())
	registry := plugins.NewInTreeRegistry()
	if err := registry.Register(s.name, shared.Factory(s.name)); err != nil {
		s.t.Fatal(err)
	}
	if s.queue == nil {
		s.queue = internalqueue.NewTestQueueWithObjects(
			s.t.Context(),
			inAnyOrder,
			s.nominated,
		)
	}
	f, err := frameworkruntime.NewFramework(s.t.Context(), registry, &list[0], frameworkOptions(client, factory,
		internalcache.NewSnapshot(pods, s.nodes), s.queue)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.p = shared.plugins[0]
	return f
}

func frameworkOptions(client *fake.Clientset, factory informers.SharedInformerFactory, snapshot *internalcache.Snapshot,
	queue *internalqueue.PriorityQueue) []frameworkruntime.Option {
	return append(viewOf(snapshot),
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithPodNominator(queue), frameworkruntime.WithPodActivator(queue))
}

// want fails the test unless exactly these pods are evicted from the node.
func (s *stage) want(pod *v1.Pod, node, goes, says string) {
	s.t.Helper()
	at, who, said := s.attempt(pod)
	if at != node || strings.Join(who, " ") != goes || !strings.Contains(said, says) {
		s.t.Errorf(
			"pod %s is promised node %q, %v go, and it says %q; want node %q, %q, and %q",
			pod.Name,
			at,
			who,
			said,
			node,
			goes,
			says,
		)
	}
}

// full adds a node whose NUMA nodes are held by low (CPUs 0-15, priority 1) and mid (16-31, priority 5).
func (s *stage) full(name string) (low, mid *v1.Pod) {
	low, mid = cpus("low-"+name, 16), cpus("mid-"+name, 16)
	s.node(name, two, place.SingleNUMA, holding(low, "0-15"), holding(mid, "16-31"))
	return s.runs(name, 1, low), s.runs(name, 5, mid)
}

// The plugin evicts for alignment: the pod that holds the NUMA node, and not the cheapest one.
func TestPodsAreEvictedForAlignment(t *testing.T) {
	s := newStage(t)
	s.full("n")
	s.want(
		ranked(cpus("p", 8), 9),
		"n",
		"low-n",
		"preemption: evicts default/low-n (16 cpu on NUMA node 0) from node n, to be aligned on NUMA node 0",
	)
	s.want(ranked(cpus("p", 17), 9), "", "", "not helpful")
}

// kube-scheduler itself handles pods that no node aligns, and nodes that the ledger does not have.
func TestPlainPodsPreemptAsInKubeScheduler(t *testing.T) {
	s := newStage(t)
	s.bare("n")
	s.runs("n", 1, podOf("low", "cpu=90"))
	node, _, said := s.attempt(ranked(podOf("p", "cpu=50"), 9))
	if node != "n" {
		t.Errorf("the pod is promised %q: %s", node, said)
	}
}

// A nomination also holds while only one of two victims has gone, and if the node would place another pod there
// although it has room elsewhere.
func TestANominatedPodKeepsItsPlace(t *testing.T) {
	s := newStage(t)
	second, third := cpus("second", 8), cpus("third", 2)
	s.node("n", two, place.SingleNUMA, holding(second, "8-15"), holding(third, "16-17"))
	s.deleted(s.runs("n", 1, second), time.Second)
	s.runs("n", 1, third)
	nominated := ranked(cpus("nominated", 16), 9)
	nominated.Status.NominatedNodeName = "n"
	thief := ranked(cpus("thief", 4), 3)
	s.nominated = append(s.nominated, nominated)
	f := s.framework(thief)
	filter := func() *fwk.Status {
		cs := framework.NewCycleState()
		if _, status, _ := f.RunPreFilterPlugins(t.Context(), cs, thief); !status.IsSuccess() {
			t.Fatal(status.Message())
		}
		info, err := f.SnapshotSharedLister().NodeInfos().Get("n")
		if err != nil {
			t.Fatal(err)
		}
		return f.RunFilterPluginsWithNominatedPods(t.Context(), cs, thief, info)
	}
	fits(t, filter())
	s.queue.Add(forQueue(t.Context()), nominated)
	says(t, filter(), fwk.Unschedulable, "pods that are nominated to the node would lose their place")
	thief = ranked(thief, 10) // a higher priority may take it
	fits(t, filter())
}

// If the arguments disable preemption for alignment, no pod is evicted for it; kube-scheduler preempts for plain
// amounts as before.
func TestPreemptionForAlignmentCanBeDisabled(t *testing.T) {
	for mode, goes := range map[string]bool{"Enabled": true, "Disabled": false} {
		s := newStage(t)
		s.name, s.args = "NodeResourceTopologyMatch", "preemptionMode: "+mode
		s.full("n")
		node, _, says := s.attempt(ranked(cpus("p", 8), 9))
		if (node == "n") != goes {
			t.Errorf("%s: the pod is promised %q (%s)", mode, node, says)
		}
	}
	s := newStage(t)
	s.name, s.args = "NodeResourceTopologyMatch", "preemptionMode: Disabled"
	s.node("n", two, place.SingleNUMA)
	s.runs("n", 1, podOf("plain", "cpu=98"))
	if node, _, says := s.attempt(ranked(cpus("p", 8), 9)); node != "n" {
		t.Errorf("no room is made of plain amounts: %s", says)
	}
}

// inAnyOrder is a queue's order; releases differ in what they compare.
func inAnyOrder[T any](T, T) bool { return false }
