package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/sample"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/candidates"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/profiles"
)

// town is a cluster in which only the scheduler is real: an unmodified kube-scheduler with the plugin, and before it a
// filter that records which nodes are filtered.
type town struct {
	t      *testing.T
	shared *Shared
	source inspect.Source
	nodes  []runtime.Object
	pods   []*v1.Pod
	// layouts are the layouts of the nodes, as any.
	layouts []any
	// every makes the plugin leave no node out.
	every bool
	// early makes another plugin's PostFilter run before the plugin's, and end the phase.
	early bool

	mu    sync.Mutex
	asked map[string]bool
}

const notes = "Notes"

const ofTown = `
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: Notes}, {name: PrioritySort}, {name: TaintToleration}, {name: NodeAffinity}, {name: NodeResourcesFit}, {name: DefaultPreemption}, {name: DefaultBinder}, {name: Tenon}]
  pluginConfig:
  - {name: Tenon, args: {unknownNodes: Refuse}}
`

func newTown(t *testing.T) *town {
	metrics.Register()
	p, source := remembering(t, refuse)
	c := &town{t: t, source: source, asked: map[string]bool{}}
	c.shared = &Shared{Book: p.Book, Feed: p.Feed, Ready: p.Ready, Decisions: p.Decisions}
	return c
}

// node adds a node with a label of its name. Its NUMA nodes are free except for the holdings of pods of low priority.
func (c *town) node(name string, held ...string) {
	has := v1.ResourceList{
		"cpu":    resource.MustParse("100"),
		"memory": resource.MustParse("1Ti"),
		"pods":   resource.MustParse("110"),
	}
	c.nodes = append(c.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name,
		v1.LabelHostname: name}}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}})
	var entries []state.Entry
	for i, set := range held {
		e := holding(cpus(fmt.Sprintf("low-%s-%d", name, i), 1), set)
		p := ranked(bind(cpus(e.Pod.Name, e.Holdings[0].CPUs.Len()), name), 0)
		start := metav1.Now()
		p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &start}
		c.pods, entries = append(c.pods, p), append(entries, e)
	}
	l := layout(c.t, name, two, place.SingleNUMA, len(c.nodes), entries...)
	c.shared.Feed.Layout(l)
	c.layouts = append(c.layouts, l)
	for _, p := range c.pods[len(c.pods)-len(held):] {
		c.shared.Feed.Pod(p)
	}
}

// fill adds nodes with one free CPU on each NUMA node, and some free nodes.
func (c *town) fill(n int, free ...string) {
	for i := range n {
		if name := fmt.Sprintf("node-%03d", i); slices.Contains(free, name) {
			c.node(name)
		} else {
			c.node(name, "0-14", "16-30")
		}
	}
}

// ending is the end of an attempt to schedule a pod.
type ending struct {
	node, promised, why string
	// by are the plugins whose events wake the pod; others are the nodes for which only other plugins wake it.
	by     []string
	others string
}

// schedules schedules a pod once.
func (c *town) schedules(pod *v1.Pod) ending {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	pod.Spec.SchedulerName = v1.DefaultSchedulerName
	client := fake.NewClientset(append([]runtime.Object{pod}, c.nodes...)...)
	for _, p := range c.pods {
		if err := client.Tracker().Add(p); err != nil {
			c.t.Fatal(err)
		}
	}
	ends := make(chan ending, 16)
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if b, ok := a.(clienttesting.CreateAction).GetObject().(*v1.Binding); ok {
			ends <- ending{node: b.Target.Name}
			return true, b, nil
		}
		return false, nil, nil
	})
	sched := c.open(ctx, client, ends)
	go sched.Run(ctx)
	select {
	case e := <-ends:
		return e
	case <-ctx.Done():
		c.t.Fatal("the pod was not tried within a minute")
	}
	return ending{}
}

// open returns a scheduler that has received all nodes and pods.
func (c *town) open(ctx context.Context, client *fake.Clientset, ends chan<- ending) *scheduler.Scheduler {
	c.t.Helper()
	text := ofTown
	if c.early {
		text = strings.Replace(text, "{name: Notes}", "{name: Notes}, {name: Early}", 1)
	}
	list := profilesOf(c.t, text)
	c.shared.plugins, c.shared.options.Preemption = nil, profiles.Preemptors(list, klog.Background())
	registry := frameworkruntime.Registry{
		Name:    c.shared.Factory(Name),
		Claims:  c.shared.Claims(),
		notes:   func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return noter{c}, nil },
		"Early": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return early{}, nil },
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := scheduler.New(
		ctx,
		client,
		factory,
		nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithProfiles(list...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
	)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.every {
		c.shared.plugins[0].candidates = nil
	}
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo,
		status *fwk.Status, n *fwk.NominatingInfo, _ time.Time) {
		e := ending{why: status.AsError().Error()}
		if n != nil {
			e.promised = n.NominatedNodeName
		}
		if why := (*framework.FitError)(nil); errors.As(status.AsError(), &why) {
			e.by = slices.Sorted(maps.Keys(why.Diagnosis.UnschedulablePlugins))
			if o := refusedByOthers(c.shared.plugins[0], status); o != nil {
				e.others = fmt.Sprint(o.But, slices.Sorted(maps.Keys(o.Names)))
			}
		}
		ends <- e
	}
	c.shared.wrapFailureHandler(sched)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		c.t.Fatal(err)
	}
	return sched
}

// noter is the filter that records which nodes are filtered.
type noter struct{ *town }

func (noter) Name() string { return notes }

func (noter) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

func (n noter) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[info.Node().Name] = true
	return nil
}

// early is a plugin that claims to have made room for every pod.
type early struct{}

func (early) Name() string { return "Early" }

func (early) PostFilter(
	context.Context,
	fwk.CycleState,
	*v1.Pod,
	fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Success)
}

// If another plugin's PostFilter ends the phase, the message and what wakes the pod are also the same as if no nodes
// had been left out.
func TestAnEarlierPostFilterChangesNoDiagnosis(t *testing.T) {
	var ends [2]ending
	for i, every := range []bool{false, true} {
		town := newTown(t)
		town.every, town.early = every, true
		town.fill(40, "node-003", "node-030")
		pod := cpus("p", 8)
		pod.Spec.NodeSelector = map[string]string{"name": "node-007"}
		ends[i] = town.schedules(pod)
	}
	if e := ends[0]; !slices.Contains(e.by, Name) ||
		!strings.Contains(e.why, `1 cannot align container "c" (wants 8 cpu; node has 2 free)`) {
		t.Errorf("%+v", e)
	}
	if a, b := fmt.Sprintf("%+v", ends[0]), fmt.Sprintf("%+v", ends[1]); a != b {
		t.Errorf("with nodes left out:\n%s\nwithout:\n%s", a, b)
	}
}

func TestOnlyNodesThatCanTakeAPodAreAsked(t *testing.T) {
	c := newTown(t)
	free := []string{"node-003", "node-077", "node-150"}
	c.fill(200, free...)
	pod := cpus("p", 8)
	if e := c.schedules(pod); !slices.Contains(free, e.node) {
		t.Errorf("pod went to %q (%s), want one of %v", e.node, e.why, free)
	}
	if got := slices.Sorted(maps.Keys(c.asked)); !slices.Equal(got, free) {
		t.Errorf("%d nodes were asked: %v; want %v", len(got), got, free)
	}
	// Inspection nevertheless shows other nodes, and why they were not chosen.
	tried := decisions(t, c.source, pod)
	if len(tried) != 1 || len(tried[0].Nodes) != inspect.MaxNodes || !tried[0].MoreNodes {
		t.Fatalf("what is remembered: %+v", tried)
	}
	fits := 0
	for _, a := range tried[0].Nodes {
		switch {
		case a.Fits:
			fits++
		case len(a.Reasons) != 1 || a.Reasons[0].Text != `cannot align container "c" (wants 8 cpu; node has 2 free)`:
			t.Errorf("node %s says %+v", a.Node, a.Reasons)
		}
	}
	if fits != len(free) {
		t.Errorf("%d nodes are remembered to fit, want %d", fits, len(free))
	}
}

func TestAPodThatFitsNowhereIsToldAllReasons(t *testing.T) {
	c := newTown(t)
	c.fill(100)
	c.node("other", "0-15", "16-30")
	pod := cpus("p", 8)
	pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	want := `0/101 nodes are available: Not now: container "c" wants 8 cpu; the node has 2 free (node node-000); ` +
		"it fits there when one of these pods ends: low-node-000-0, low-node-000-1. " +
		"Remedy: wait for pods to end, or ask for at most 1 cpu. " +
		`By node: 100 cannot align container "c" (wants 8 cpu; node has 2 free), ` +
		`1 cannot align container "c" (wants 8 cpu; node has 1 free). ` +
		"preemption: not eligible due to preemptionPolicy=Never."
	if e := c.schedules(pod); e.why != want {
		t.Errorf("pod was told %q (node %q), want %q", e.why, e.node, want)
	}
	if len(c.asked) != 101 {
		t.Errorf("%d nodes were asked, want all", len(c.asked))
	}
}

// If other plugins refuse the nodes that can take a pod, everything is the same as if no nodes had been left out: the
// victims, the message, and what wakes the pod.
func TestNodesThatWereLeftOutAreAskedBeforePreemption(t *testing.T) {
	selects := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "node-007"} }
	names := func(p *v1.Pod) {
		// kube-scheduler's plugin for this names nodes before they are filtered, as this one does: no node is left.
		term := v1.NodeSelectorTerm{
			MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"node-007"}},
			},
		}
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
			},
		}
	}
	const lacks = `1 cannot align container "c" (wants 8 cpu; node has 2 free)`
	for _, c := range []struct {
		name     string
		priority int32
		wants    func(*v1.Pod)
		promised string
		says     string
	}{
		{"selector", 9, selects, "node-007", "preemption: evicts default/low-node-007-"},
		{"name", 9, names, "node-007", "preemption: evicts default/low-node-007-"},
		{"nobody is lower", 0, selects, "", "1 no pods of lower priority to evict"},
		{"nobody is lower, name", 0, names, "", "1 no pods of lower priority to evict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ends [2]ending
			for i, every := range []bool{false, true} {
				town := newTown(t)
				town.every = every
				town.fill(40, "node-003", "node-030")
				pod := ranked(cpus("p", 8), c.priority)
				c.wants(pod)
				ends[i] = town.schedules(pod)
			}
			if e := ends[0]; e.promised != c.promised || !strings.Contains(e.why, lacks) || !strings.Contains(e.why, c.says) {
				t.Errorf("%+v", e)
			}
			if a, b := fmt.Sprintf("%+v", ends[0]), fmt.Sprintf("%+v", ends[1]); a != b {
				t.Errorf("with nodes left out:\n%s\nwithout:\n%s", a, b)
			}
		})
	}
}

// bare is a handle that can only begin attempts.
type bare struct{ fwk.Handle }

func (bare) RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status,
	sets.Set[string]) {
	return nil, nil, nil
}

// The named nodes are exactly those that accept the pod when they are judged one by one, Filter gives the same results,
// and nodes are named only if that saves work. Nodes may be unknown, coarse or silent, and the pod's wait on some of
// them may have timed out.
func TestFilterWouldRefuseNodesThatAreLeftOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		args := rapid.SampledFrom([]string{refuse, "", "{unknownNodes: AllowWithoutDemand, silentNodes: Refuse}",
			"{unknownNodes: Refuse, silentNodes: Refuse}", "{unknownNodes: Allow, coarseNodes: Refuse}"}).
			Draw(rt, "args")
		p := newPlugin(t, args)
		p.candidates = candidates.New(bare{}, 0)
		var infos []fwk.NodeInfo
		excluded := 0 // nodes that take the pod, and where it may not go
		for i := range rapid.IntRange(3, 20).Draw(rt, "nodes") {
			name := fmt.Sprintf("n%d", i)
			infos = append(infos, nodeInfo(name))
			if rapid.IntRange(0, 9).Draw(rt, "known") == 0 {
				continue
			}
			if rapid.IntRange(0, 4).Draw(rt, "coarse") == 0 {
				p.Feed.Topology(
					topology(name, i+1, rapid.Int64Range(0, 16).Draw(rt, "free"), rapid.Int64Range(0, 16).Draw(rt, "free")),
				)
				excluded++
				continue
			}
			var held []state.Entry
			if n := rapid.IntRange(0, 16).Draw(rt, "held"); n > 0 {
				held = append(
					held,
					holding(cpus("x-"+name, n), fmt.Sprintf("0-%d", n-1)),
					holding(cpus("y-"+name, n), fmt.Sprintf("16-%d", 15+n)),
				)
			}
			p.Feed.Layout(
				layout(
					t,
					name,
					two,
					rapid.SampledFrom([]place.Policy{place.None, place.BestEffort, place.SingleNUMA}).Draw(rt, "policy"),
					i+1,
					held...),
			)
			if len(held) > 0 && rapid.IntRange(0, 4).Draw(rt, "silent") == 0 {
				excluded++
				p.Book.Vanish("uid-x-" + name)
				p.Book.Overdue("uid-x-" + name)
			}
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "gone") { // nodes that kube-scheduler no longer has
			p.Feed.Layout(
				layout(t, fmt.Sprintf("gone-%d", i), two, place.SingleNUMA, 100+i, holding(cpus(fmt.Sprint("z", i), 32), "0-31")),
			)
		}
		pod := cpus("p", rapid.IntRange(1, 20).Draw(rt, "wants"))
		if rapid.Bool().Draw(rt, "demands") {
			pod = noted(pod, "tenon.sh/numa-policy", "single-numa-node")
		}
		for _, info := range infos {
			if n := p.Book.Snapshot().Node(info.Node().Name); n != nil && rapid.IntRange(0, 5).Draw(rt, "vain") == 0 {
				excluded++
				p.turns.Add(string(pod.UID), n.Name, n.News-rapid.IntRange(0, 1).Draw(rt, "since"))
			}
		}
		cs := framework.NewCycleState()
		// For a demand that comes for the first time, fits is not computed if many nodes would take the pod without it.
		_, _ = p.PreFilter(t.Context(), framework.NewCycleState(), pod, infos)
		result, _ := p.PreFilter(t.Context(), cs, pod, infos)
		fits, known := 0, 0
		for _, info := range infos {
			name := info.Node().Name
			lets := p.Filter(t.Context(), cs, pod, info).IsSuccess()
			alone, _ := read(cs)
			alone = alone.Clone().(*podState)
			alone.fits = nil
			if p.judge(alone, name, alone.slot(info, name)).IsSuccess() != lets {
				rt.Errorf("node %s: Filter lets the pod on it: %v; asked by itself it says otherwise", name, lets)
			}
			if lets {
				fits++
				if p.Book.Snapshot().Node(name) != nil {
					known++
				}
			}
			if !result.AllNodes() && result.NodeNames.Has(name) != lets {
				rt.Errorf("node %s is named: %v; Filter lets the pod on it: %v", name, !lets, lets)
			}
		}
		if !result.AllNodes() && !sample.NamesAll(len(result.NodeNames), len(infos), 0) {
			rt.Errorf("%d of %d nodes are named", len(result.NodeNames), len(infos))
		}
		if result.AllNodes() && known > 0 && excluded == 0 && sample.NamesAll(fits, len(infos), 0) {
			rt.Errorf("%d of %d nodes fit, and all are asked", fits, len(infos))
		}
	})
}
