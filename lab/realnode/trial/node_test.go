// Real nodes under both schedulers: what the kernel allows every process is compared with what Tenon
// predicted and with what kubectl tenon draws.
package trial_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/guest"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/realnode"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const tenon = "tenon-scheduler" // beside the default scheduler, which sends pods to their death

// names are the nodes, each named like its machine in testdata.
var names = []string{"four", "two"}

// world is a cluster of real nodes.
type world struct {
	plane  *control.Plane
	client kubernetes.Interface
	pods   *workload.Watch
	seen   *outcomes
	nodes  map[string]*realnode.Node
	made   map[string]machines.Machine // what the nodes were made of
}

// One cluster serves all its tests: a start takes a minute.
func TestRealNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("boots two machines")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	w := start(ctx, t)
	t.Run("what the agent finds is what was built", func(t *testing.T) { found(ctx, t, w) })
	t.Run("the default scheduler sends pods to their death", func(t *testing.T) { deaths(ctx, t, w) })
	t.Run("Tenon does not", func(t *testing.T) { lives(ctx, t, w) })
	t.Run("a pod gets what another leaves", func(t *testing.T) { next(ctx, t, w) })
	t.Run("a kubelet restarts", func(t *testing.T) { restart(ctx, t, w) })
	t.Run("a storm", func(t *testing.T) { storm(ctx, t, w) })
	w.seen.check(t)
}

func start(ctx context.Context, t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	redirectLogs(t, filepath.Join(dir, "kubernetes.log"))
	say := func(line string) { t.Log(line) }
	if runtime.GOARCH != "amd64" && os.Getenv("CI") == "" {
		t.Skip("the programs of a node are built for amd64")
	}
	disk, err := realnode.BuildDisk(ctx, dir, say)
	if missing := (*guest.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	w := &world{seen: &outcomes{changed: make(chan struct{})}, nodes: map[string]*realnode.Node{}, made: map[string]machines.Machine{}}
	for _, name := range names {
		if w.made[name], err = machines.Read(os.DirFS("testdata"), name); err != nil {
			t.Fatal(err)
		}
	}
	w.plane, err = control.Start(ctx, control.Options{Dir: dir, Nodes: names,
		CRDs: [][]byte{crd.YAML(), crd.NodeResourceTopology()}, Manifests: deploy.Access()})
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, w.plane.Stop)
	say("control plane ready")
	w.client = kubernetes.NewForConfigOrDie(w.plane.Admin)
	w.schedule(ctx, t, dir)
	w.boot(ctx, t, disk, say)
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	return w
}

func cleanup(t *testing.T, stop func() error) {
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// schedule starts both schedulers, with the rights that a user gives Tenon's.
func (w *world) schedule(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	access, err := control.As(ctx, w.plane.Admin, control.Account{Namespace: deploy.Namespace, Name: deploy.Scheduler})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "scheduler.kubeconfig")
	if err := control.WriteKubeconfig(file, deploy.Scheduler, access); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.Start(dir, file, scheduler.Both, w.seen.add)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, s.Stop)
}

// boot boots all nodes at once.
func (w *world) boot(ctx context.Context, t *testing.T, disk *realnode.Disk, say func(string)) {
	t.Helper()
	var wg sync.WaitGroup
	nodes, errs := make([]*realnode.Node, len(names)), make([]error, len(names))
	for i, name := range names {
		access, err := w.plane.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			nodes[i], errs[i] = realnode.Start(ctx, realnode.Config{Name: name, Machine: w.made[name], Disk: disk,
				Kubelet: access, Admin: w.plane.Admin, Progress: say,
				Agent: func(ctx context.Context) (*rest.Config, error) {
					return control.As(ctx, w.plane.Admin, control.Account{Namespace: deploy.Namespace, Name: deploy.Agent, Node: name})
				}})
		})
	}
	wg.Wait()
	for i, n := range nodes {
		if n == nil {
			continue
		}
		w.nodes[names[i]] = n
		cleanup(t, func() error {
			if t.Failed() {
				logs(t, n)
			}
			return n.Stop()
		})
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// logs shows what the programs of a node said last.
func logs(t *testing.T, n *realnode.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, program := range []string{"agent", "kubelet"} {
		out, err := n.Log(ctx, program, 12)
		t.Logf("node %s, log of %s: %v\n%s", n.Name, program, err, out)
	}
}

// redirectLogs sends the log of Kubernetes' libraries in this process to a file.
func redirectLogs(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, f.Close)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(f)
}

// outcomes collects how predictions came out.
type outcomes struct {
	mu        sync.Mutex
	confirmed []string // names of pods
	wrong     []string
	changed   chan struct{}
}

func (o *outcomes) add(x ledger.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.Result == ledger.Confirmed {
		o.confirmed = append(o.confirmed, x.Pod.Name)
	} else {
		o.wrong = append(o.wrong, kube.Describe(x))
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// await returns when predictions for the pods came out, one way or another.
func (o *outcomes) await(ctx context.Context, t *testing.T, pods ...string) {
	t.Helper()
	for {
		o.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(pods), func(p string) bool { return slices.Contains(o.confirmed, p) })
		wrong, changed := len(o.wrong), o.changed
		o.mu.Unlock()
		if len(missing) == 0 || wrong > 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no outcome of the predictions for %v: %v", missing, context.Cause(ctx))
		}
	}
}

func (o *outcomes) check(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	t.Logf("predictions confirmed: %d (%s)", len(o.confirmed), strings.Join(o.confirmed, " "))
	for _, x := range o.wrong {
		t.Error(x)
	}
	if len(o.confirmed) == 0 {
		t.Error("no prediction was ever confirmed")
	}
}

// The agent in the guest reads of /sys what the machine was built from.
func found(ctx context.Context, t *testing.T, w *world) {
	for _, name := range names {
		got, want := w.drawn(ctx, t, name).Machine, w.made[name].Topo
		for _, level := range []topo.Level{topo.NUMAs, topo.Sockets, topo.Cores} {
			if g, w := parts(got, level), parts(want, level); g != w {
				t.Errorf("node %s: level %d is %s, want %s", name, level, g, w)
			}
		}
		for i, n := range want.NUMAs() {
			g := got.NUMAs()[i]
			if !slices.Equal(g.Distances, n.Distances) {
				t.Errorf("node %s: distances of numa %d are %v, want %v", name, n.ID, g.Distances, n.Distances)
			}
			if fmt.Sprint(pages(g)) != fmt.Sprint(pages(n)) {
				t.Errorf("node %s: hugepages of numa %d are %v, want %v", name, n.ID, pages(g), pages(n))
			}
			// The kernel keeps some for itself.
			if g.Bytes > n.Bytes || g.Bytes < n.Bytes*3/4 {
				t.Errorf("node %s: numa %d has %s, was built with %s", name, n.ID, topo.FormatBytes(g.Bytes), topo.FormatBytes(n.Bytes))
			}
		}
	}
}

// parts writes the parts of a level, in order.
func parts(m *topo.Machine, level topo.Level) string {
	var out []string
	for _, g := range m.Groups(level) {
		out = append(out, g.CPUs.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// pages returns the sizes of which there are hugepages.
func pages(n topo.NUMA) (out []topo.Hugepages) {
	return slices.DeleteFunc(slices.Clone(n.Hugepages), func(h topo.Hugepages) bool { return h.Count == 0 })
}

// on returns a pod for one node and one scheduler, with containers that run.
func on(node, scheduler, name string, containers ...v1.Container) *v1.Pod {
	p := workload.Pod(name, containers...)
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	p.Spec.SchedulerName = scheduler
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image, c.ImagePullPolicy, c.Args = realnode.Image, v1.PullNever, []string{"16"}
	}
	return p
}

// first returns an init container, which ends by itself.
func first(cpu, memory string) v1.Container {
	c := guaranteed("first", cpu, memory)
	c.Image, c.ImagePullPolicy, c.Args = realnode.Image, v1.PullNever, []string{"8", "end"}
	return c
}

func guaranteed(name, cpu, memory string) v1.Container {
	return workload.Guaranteed(name, workload.Amounts{"cpu": cpu, "memory": memory})
}

// fatal are pods that fit by the sums of what is free, with the error of the kubelet that gets them, and
// what Tenon says instead.
var fatal = []struct {
	node, name  string
	first       string // CPUs of an init container
	wants       workload.Amounts
	why, reason string
}{
	{"two", "wide", "", workload.Amounts{"cpu": "6", "memory": "128Mi"},
		"TopologyAffinityError", "wants 6 cpu on one numa; best numa has 4 free"},
	{"two", "odd", "", workload.Amounts{"cpu": "3", "memory": "128Mi"},
		"SMTAlignmentError", "wants 3 cpu as whole cores; has 6"},
	// The container would get the CPUs of its init container, but the kubelet asks first whether there are
	// as many whole cores beside them (cpumanager/policy_static.go, Allocate).
	{"two", "again", "4", workload.Amounts{"cpu": "4", "memory": "128Mi"},
		"SMTAlignmentError", "wants 4 cpu as whole cores; has 2"},
	// The pages are on one numa, the network function on the other.
	{"two", "torn", "", workload.Amounts{"cpu": "2", "memory": "128Mi", "hugepages-2Mi": "96Mi", "example.com/vf": "1"},
		"TopologyAffinityError", "example.com/vf"},
	// Eight CPUs need two numas, and the memory one.
	{"four", "lean", "", workload.Amounts{"cpu": "8", "memory": "64Mi"},
		"TopologyAffinityError", "needs one numa for memory but 2 for cpu"},
}

// The nodes are empty, so by the sums of what is free each of these pods fits.
func deaths(ctx context.Context, t *testing.T, w *world) {
	create := func(scheduler, prefix string) {
		for _, f := range fatal {
			p := on(f.node, scheduler, prefix+f.name, workload.Guaranteed("c", f.wants))
			if f.first != "" {
				p.Spec.InitContainers = []v1.Container{first(f.first, "64Mi")}
			}
			w.create(ctx, t, p)
		}
	}
	create("default-scheduler", "default-")
	for _, f := range fatal {
		p := w.await(ctx, t, "default-"+f.name, workload.Refused)
		if _, why := workload.FateOf(p); why != f.why {
			t.Errorf("pod %s was refused with %q, want %q: %s", p.Name, why, f.why, p.Status.Message)
		}
		t.Logf("%s: %s: %s", p.Name, p.Status.Reason, p.Status.Message)
	}
	create(tenon, "")
	for _, f := range fatal {
		_, why := workload.FateOf(w.await(ctx, t, f.name, workload.Pending))
		if !strings.Contains(why, f.reason) {
			t.Errorf("pod %s waits because %q, want %q in it", f.name, why, f.reason)
		}
		t.Logf("%s: %s", f.name, why)
		w.remove(ctx, t, f.name, "default-"+f.name)
	}
}

// lives runs pods of many shapes, and asks the kernel what their processes may use.
func lives(ctx context.Context, t *testing.T, w *world) {
	// The CPUs follow the devices; those on no numa bind nothing.
	solo := on("two", tenon, "solo", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "128Mi", "example.com/vf": "2", "example.com/seat": "1"}))
	solo.Spec.InitContainers = []v1.Container{first("2", "128Mi")}
	pods := []*v1.Pod{
		// The other numa has too few pages.
		on("two", tenon, "huge", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "128Mi", "hugepages-2Mi": "96Mi"})),
		solo,
		on("two", tenon, "web-two", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)),
		// Too much for one numa: of two, those on one socket.
		on("four", tenon, "broad", guaranteed("c", "8", "900Mi")),
		on("four", tenon, "pair", guaranteed("a", "2", "128Mi"), guaranteed("b", "500m", "64Mi")),
		on("four", tenon, "small", guaranteed("c", "2", "64Mi")),
		on("four", tenon, "web-four", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)),
	}
	var created []string
	for _, p := range pods {
		w.create(ctx, t, p)
		created = append(created, p.Name)
	}
	for _, name := range created {
		w.await(ctx, t, name, workload.Running)
	}
	w.seen.await(ctx, t, "huge", "solo", "broad", "pair", "small")
	for _, name := range names {
		t.Logf("\n%s", w.picture(ctx, t, name))
		w.compare(ctx, t, name)
	}
	if got := w.numas(ctx, t, "two", "huge"); got != "0" {
		t.Errorf("pod huge is on numas %s, want 0: the other has 64Mi of hugepages", got)
	}
	if got := w.numas(ctx, t, "two", "solo"); got != "1" {
		t.Errorf("pod solo is on numas %s, want 1: the devices are there", got)
	}
	if got := w.numas(ctx, t, "four", "broad"); got != "2-3" {
		t.Errorf("pod broad is on numas %s, want 2-3: the only two on one socket that have 8 CPUs", got)
	}
}

// next gives a pod the place of one that ends.
func next(ctx context.Context, t *testing.T, w *world) {
	w.create(ctx, t, on("four", tenon, "heir", guaranteed("c", "8", "900Mi")))
	_, why := workload.FateOf(w.await(ctx, t, "heir", workload.Pending))
	t.Log(why)
	w.remove(ctx, t, "broad")
	w.await(ctx, t, "heir", workload.Running)
	w.seen.await(ctx, t, "heir")
	w.compare(ctx, t, "four")
}

// restart ends a kubelet and starts it again. Right after that it does not know yet what its containers
// hold; whoever believed that they hold nothing would predict CPUs for the next pod that another has.
func restart(ctx context.Context, t *testing.T, w *world) {
	w.remove(ctx, t, "heir")
	w.create(ctx, t, on("four", tenon, "left", guaranteed("c", "4", "64Mi")))
	w.await(ctx, t, "left", workload.Running)
	w.seen.await(ctx, t, "left")
	before := w.kernel(ctx, t, "four")
	if err := w.nodes["four"].RestartKubelet(ctx); err != nil {
		t.Fatal(err)
	}
	w.create(ctx, t, on("four", tenon, "late", guaranteed("c", "4", "64Mi")), on("four", tenon, "later", guaranteed("c", "300m", "64Mi")))
	w.await(ctx, t, "late", workload.Running)
	w.await(ctx, t, "later", workload.Running)
	w.seen.await(ctx, t, "late", "later")
	w.compare(ctx, t, "four")
	after := w.kernel(ctx, t, "four")
	for c, p := range before {
		if q := after[c]; p.PID != q.PID || !p.Mems.Equal(q.Mems) {
			t.Errorf("%s was process %d on numas %s, and is %d on %s", c, p.PID, p.Mems, q.PID, q.Mems)
		}
	}
}

func (w *world) create(ctx context.Context, t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	if err := workload.Create(ctx, w.client, pods...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) remove(ctx context.Context, t *testing.T, pods ...string) {
	t.Helper()
	for _, name := range pods {
		if err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// await returns a pod once it has the fate; another fate than waiting or pending fails the test.
func (w *world) await(ctx context.Context, t *testing.T, name string, want workload.Fate) *v1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var found *v1.Pod
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Name == name })
		if i < 0 {
			return false
		}
		found = pods[i]
		got, _ := workload.FateOf(found)
		return got == want || got == workload.Refused
	})
	if err != nil {
		why := ""
		if found != nil {
			_, why = workload.FateOf(found)
		}
		t.Fatalf("pod %s is not %s: %v: %s", name, want, err, why)
	}
	if got, why := workload.FateOf(found); got != want {
		t.Fatalf("pod %s is %s, want %s: %s: %s", name, got, want, why, found.Status.Message)
	}
	return found
}

// drawn returns a node as kubectl tenon map has it.
func (w *world) drawn(ctx context.Context, t *testing.T, name string) *ledger.Node {
	t.Helper()
	nodes, problems, err := w.reader(t).Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("node %s is not drawn: %v", name, problems)
	return nil
}

func (w *world) reader(t *testing.T) *kube.Reader {
	t.Helper()
	r, err := kube.NewReader(w.plane.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// numas returns the numas that a pod is on, by the map.
func (w *world) numas(ctx context.Context, t *testing.T, node, pod string) string {
	t.Helper()
	n := w.drawn(ctx, t, node)
	for _, e := range n.Entries {
		if e.Pod.Name == pod {
			var on topo.Mask
			for _, h := range e.Holdings {
				on |= h.NUMAs(n.Machine)
			}
			return idset.Of(n.Machine.IDs(on)...).String()
		}
	}
	t.Fatalf("pod %s is not on node %s", pod, node)
	return ""
}
