package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"

	_ "volcano.sh/volcano/pkg/scheduler/actions"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// cluster is Volcano's own cache and sessions for nodes whose layouts are in the ledger. No scheduler runs: a test
// opens sessions, and binds the tasks that they commit.
type cluster struct {
	testing.TB
	sched     *Scheduler
	cache     *cache.SchedulerCache
	pods      map[string]*v1.Pod // in their present state, by name
	version   int
	layouts   map[string]*v1alpha1.NodeLayout
	plugin    string // the plugin that places tasks; Name, unless a test changes it
	arguments framework.Arguments
	preempt   map[string]any // arguments of the action preempt
}

func TestMain(m *testing.M) {
	metrics.InitKubeSchedulerRelatedMetrics()
	m.Run()
}

// topologyAware is an argument of the action preempt, which keeps its arguments from one session to the next.
const topologyAware = "enableTopologyAwarePreemption"

// nobody is the cache's binder and evictor. It does nothing: tests bind and evict by themselves.
type nobody struct{}

func (nobody) Bind(kubernetes.Interface, []*api.TaskInfo) map[api.TaskID]string { return nil }
func (nobody) Evict(*v1.Pod, string) error                                      { return nil }

func newCluster(t testing.TB) *cluster {
	c := &cluster{TB: t, plugin: Name, pods: map[string]*v1.Pod{}, layouts: map[string]*v1alpha1.NodeLayout{},
		preempt: map[string]any{topologyAware: false}}
	c.startScheduler()
	c.sched.Sources().Begin()
	c.cache = cache.NewCustomMockSchedulerCache("volcano", nobody{}, nobody{}, &util.FakeStatusUpdater{}, nil, nil)
	c.queue("default", 1)
	return c
}

// startScheduler starts a scheduler with an empty ledger.
func (c *cluster) startScheduler() {
	c.sched = New(c.Context(), nil)
	framework.RegisterPluginBuilder(Name, c.sched.Build)
}

// restart replaces the scheduler by one that reads layouts and pods anew. Volcano's cache has forgotten which tasks it
// was about to bind.
func (c *cluster) restart() {
	c.startScheduler()
	for _, l := range c.layouts {
		c.sched.Sources().Feed.Layout(l)
	}
	for name, p := range c.pods {
		c.sched.Sources().Feed.Pod(p)
		if p.Spec.NodeName == "" {
			c.again(name)
		}
	}
	c.sched.Sources().Begin()
}

// lose removes a node.
func (c *cluster) lose(name string) {
	if err := c.cache.RemoveNode(name); err != nil {
		c.Fatal(err)
	}
	c.sched.Sources().Feed.LayoutGone(c.layouts[name])
	delete(c.layouts, name)
}

func (c *cluster) queue(name string, weight int32) {
	c.cache.AddQueueV1beta1(util.BuildQueue(name, weight, nil))
}

// node adds a node of a machine with static managers.
func (c *cluster) node(name, machine string, policy place.Policy) {
	c.Helper()
	c.ruled(name, machine, place.Rules{Topology: place.TopologyRules{Policy: policy}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}})
}

func (c *cluster) ruled(name, machine string, r place.Rules) {
	c.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		c.Fatal(err)
	}
	amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(m.CPUs().Len()), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Ti"), v1.ResourcePods: resource.MustParse("110")}
	for _, d := range m.Resources() {
		amounts[v1.ResourceName(d.Name)] = *resource.NewQuantity(int64(len(d.Devices)), resource.DecimalSI)
	}
	if err := c.cache.AddOrUpdateNode(util.BuildNode(name, amounts, nil)); err != nil {
		c.Fatal(err)
	}
	c.report(name, m, r)
}

// report sends a node's report with the holdings of its pods.
func (c *cluster) report(node string, m *topo.Machine, r place.Rules, entries ...state.Entry) {
	c.version++
	l := v1alpha1.FromCore(node, m, r, entries, nil)
	l.ResourceVersion = fmt.Sprint(c.version)
	c.layouts[node] = l
	c.sched.Sources().Feed.Layout(l)
}

// job adds a job of tasks that differ only in their names, such as "cpu=4 memory=1Gi x3". At least min of them run
// together.
func (c *cluster) job(name, queue string, min int32, amounts string, mutate ...func(*v1.Pod)) {
	c.Helper()
	tasks := 1
	list := v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
	for _, f := range strings.Fields(amounts) {
		if n, ok := strings.CutPrefix(f, "x"); ok {
			if _, err := fmt.Sscan(n, &tasks); err != nil {
				c.Fatal(err)
			}
			continue
		}
		key, q, _ := strings.Cut(f, "=")
		list[v1.ResourceName(key)] = resource.MustParse(q)
	}
	group := util.BuildPodGroup(name, "default", queue, min, nil, scheduling.PodGroupInqueue)
	for i := range tasks {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i),
			Annotations: map[string]string{scheduling.KubeGroupNameAnnotationKey: name, "volcano.sh/preemptable": "true",
				"volcano.sh/task-spec": "worker"}},
			Spec: v1.PodSpec{SchedulerName: "volcano", Containers: []v1.Container{{Name: "c",
				Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}},
			Status: v1.PodStatus{Phase: v1.PodPending}}
		p.UID = types.UID("uid-" + p.Name)
		for _, m := range mutate {
			m(p)
		}
		if p.Spec.Priority != nil {
			group.Spec.PriorityClassName = fmt.Sprintf("priority-%d", *p.Spec.Priority)
			c.cache.AddPriorityClass(&schedulingv1.PriorityClass{Value: *p.Spec.Priority,
				ObjectMeta: metav1.ObjectMeta{Name: group.Spec.PriorityClassName}})
		}
		c.pods[p.Name] = p
		c.cache.AddPod(p.DeepCopy())
	}
	c.cache.AddPodGroupV1beta1(group)
}

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func annotated(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

// outcome is the result of one session.
type outcome struct {
	bound     map[string]string // node by name of the pod, for tasks that were committed
	pipelined map[string]string
	evicted   []string
	why       map[string]string // reasons by name of the pod, for tasks that fit nowhere
	binds     []*cache.BindContext
}

// session runs one session with some actions.
func (c *cluster) session(actions ...string) outcome {
	c.Helper()
	ssn := framework.OpenSession(c.cache, c.tiers(), []conf.Configuration{{Name: "preempt", Arguments: c.preempt}})
	conf.EnabledActionMap = map[string]bool{}
	for _, name := range actions {
		conf.EnabledActionMap[name] = true
		a, ok := framework.GetAction(name)
		if !ok {
			c.Fatalf("Volcano has no action %s", name)
		}
		a.Execute(ssn)
	}
	out := outcome{bound: map[string]string{}, pipelined: map[string]string{}, why: map[string]string{}}
	for _, job := range ssn.Jobs {
		for _, t := range job.Tasks {
			switch t.Status {
			case api.Binding:
				out.bound[t.Name] = t.NodeName
			case api.Pipelined:
				out.pipelined[t.Name] = t.NodeName
			case api.Releasing:
				out.evicted = append(out.evicted, t.Name)
			case api.Pending:
				if f := job.NodesFitErrors[t.UID]; f != nil {
					out.why[t.Name] = f.Error()
				}
			}
		}
	}
	slices.Sort(out.evicted)
	framework.CloseSession(ssn)
	for len(c.cache.BindFlowChannel) > 0 {
		out.binds = append(out.binds, <-c.cache.BindFlowChannel)
	}
	return out
}

func (c *cluster) tiers() []conf.Tier {
	var out []conf.Tier
	first := []string{"priority", "gang", "conformance", "predicates", c.plugin}
	second := []string{"proportion", "nodeorder"}
	for _, names := range [][]string{first, second} {
		var tier conf.Tier
		for _, name := range names {
			o := conf.PluginOption{Name: name}
			if name == c.plugin {
				o.Arguments = c.arguments
			}
			plugins.ApplyPluginConfDefaults(&o)
			tier.Plugins = append(tier.Plugins, o)
		}
		out = append(out, tier)
	}
	return out
}

var errAPI = errors.New("the API server is away")

// bind binds the tasks that a session has committed, one after the other, as Volcano's cache does. Kubelets admit them
// at once. The API server rejects the bindings of the pods in rejected. bind returns the errors by the pods' names.
func (c *cluster) bind(o outcome, rejected ...string) map[string]error {
	failed := map[string]error{}
	for _, b := range o.binds {
		name := b.TaskInfo.Pod.Name
		err := c.sched.PreBind(context.Background(), b)
		if err == nil && slices.Contains(rejected, name) {
			c.sched.PreBindRollBack(context.Background(), b)
			err = errAPI
		}
		if err != nil {
			failed[name] = err
			c.again(name)
			continue
		}
		c.run(name, b.TaskInfo.NodeName)
	}
	return failed
}

// run runs a pod on a node, which gives it what the ledger predicts.
func (c *cluster) run(name, node string) {
	before := c.pods[name]
	p := before.DeepCopy()
	p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = node, v1.PodRunning, &metav1.Time{}
	c.pods[name] = p
	c.cache.UpdatePod(before, p.DeepCopy())
	c.sched.Sources().Feed.Pod(p)
	n := c.sched.Sources().Book.Snapshot().Node(node)
	var run []state.Entry
	for _, e := range n.Entries {
		if p := c.pods[e.Pod.Name]; p != nil && p.Spec.NodeName == node {
			run = append(run, e)
		}
	}
	c.report(node, n.Machine, n.Rules, run...)
}

// again puts back a pod that was not bound, as the cache does by reading it again.
func (c *cluster) again(name string) {
	p := c.pods[name].DeepCopy()
	c.cache.DeletePod(p)
	c.cache.AddPod(p.DeepCopy())
}

// terminate deletes a pod, which then leaves its node: the kubelet writes its last phase before.
func (c *cluster) terminate(name string) {
	p := c.pods[name].DeepCopy()
	p.DeletionTimestamp, p.Status.Phase = &metav1.Time{}, v1.PodSucceeded
	delete(c.pods, name)
	c.cache.DeletePod(p)
	c.sched.Sources().Feed.PodGone(p)
}

// booked returns the names of pods that the ledger has on nodes, in ascending order.
func (c *cluster) booked() (out []string) {
	for n := range c.sched.Sources().Book.Snapshot().All() {
		for _, e := range n.Entries {
			out = append(out, e.Pod.Name)
		}
	}
	slices.Sort(out)
	return out
}
