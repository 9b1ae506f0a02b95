package trial_test

import (
	"context"
	"errors"
	"flag"
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
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/guest"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// world is a cluster of real nodes.
type world struct {
	plane  *control.Plane
	client kubernetes.Interface
	pods   *workload.Watch
	seen   *outcomes
	nodes  map[string]*realnode.Node
	names  []string
	made   map[string]machines.Machine // the machines of the nodes
}

// start boots nodes, each named like its machine in testdata. Where there is a file NAME.rules, the agent of the node
// pins containers by it.
func start(ctx context.Context, t *testing.T, names ...string) *world {
	t.Helper()
	dir := t.TempDir()
	redirectLogs(t, filepath.Join(dir, "kubernetes.log"))
	say := func(line string) { t.Log(line) }
	if runtime.GOARCH != "amd64" && os.Getenv("CI") == "" {
		t.Skip("the programs of a node are built for amd64")
	}
	disk, err := disks(ctx, dir, names, say)
	if missing := (*guest.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	w := &world{seen: &outcomes{changed: make(chan struct{})}, nodes: map[string]*realnode.Node{},
		names: names, made: map[string]machines.Machine{}}
	for _, name := range names {
		if w.made[name], err = machines.Read(os.DirFS("testdata"), name); err != nil {
			t.Fatal(err)
		}
	}
	w.plane, err = control.Start(ctx, control.Options{Dir: dir, Nodes: names,
		CRDs:      append(crd.Layouts(), crd.NodeAffinity(), crd.NodeResourceTopology()),
		Manifests: slices.Concat(deploy.Access(), deploy.PinAccess(), deploy.AffinityAccess())})
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

var oldNodes = flag.String("older", "", "names of nodes whose kubelet is "+realnode.OlderKubelet+", such as two,four")

// isOlder reports whether a node has the older kubelet.
func isOlder(name string) bool { return slices.Contains(strings.Split(*oldNodes, ","), name) }

// builderOf returns the name of the disk that a node boots from, and what builds it.
func builderOf(node string) (string, func(context.Context, string, func(string)) (*realnode.Disk, error)) {
	switch {
	case node == cpus:
		return "with dra-driver-cpu", realnode.BuildCPUDriverDisk
	case isOlder(node):
		return "older", realnode.BuildOlderDisk
	}
	return "usual", realnode.BuildDisk
}

// disks builds the disks that nodes boot from, by their names.
func disks(ctx context.Context, dir string, nodes []string, say func(string)) (map[string]*realnode.Disk, error) {
	out := map[string]*realnode.Disk{}
	for _, n := range nodes {
		name, build := builderOf(n)
		if out[name] != nil {
			continue
		}
		d, err := build(ctx, dir, say)
		if err != nil {
			return nil, err
		}
		out[name] = d
	}
	return out, nil
}

func cleanup(t *testing.T, stop func() error) {
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// schedule starts both schedulers, with the rights that a user grants to Tenon's.
func (w *world) schedule(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	access, err := rights.As(ctx, w.plane.Admin, rights.Account{Namespace: deploy.Namespace, Name: deploy.Scheduler})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "scheduler.kubeconfig")
	if err := rights.WriteKubeconfig(file, deploy.Scheduler, access); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.Start(dir, file, scheduler.Both, w.seen.add)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, s.Stop)
}

// boot boots all nodes at once.
func (w *world) boot(ctx context.Context, t *testing.T, disk map[string]*realnode.Disk, say func(string)) {
	t.Helper()
	var wg sync.WaitGroup
	nodes, errs := make([]*realnode.Node, len(w.names)), make([]error, len(w.names))
	for i, name := range w.names {
		access, err := w.plane.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		files := filesOf(t, name)
		image, _ := builderOf(name)
		wg.Go(func() {
			nodes[i], errs[i] = realnode.Start(ctx, realnode.Config{Name: name, Machine: w.made[name], Disk: disk[image],
				Kubelet: access, Admin: w.plane.Admin, Progress: say, Files: files,
				Agent: func(ctx context.Context) (*rest.Config, error) {
					return rights.As(ctx, w.plane.Admin, rights.Account{Namespace: deploy.AgentNamespace,
						Name: deploy.Agent, Node: name})
				}})
		})
	}
	wg.Wait()
	for i, n := range nodes {
		if n == nil {
			continue
		}
		w.nodes[w.names[i]] = n
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

// filesOf returns the files of a node with a driver for claims, and of one whose agent pins containers.
func filesOf(t *testing.T, name string) map[string]guest.File {
	t.Helper()
	out := map[string]guest.File{}
	if list := claimed[name]; list != "" {
		out["/etc/devices"] = guest.File{Data: []byte(list), Mode: 0o644}
	}
	text, err := os.ReadFile(filepath.Join("testdata", name+".rules"))
	if errors.Is(err, os.ErrNotExist) {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	args := "--pin-config /etc/tenon/pin.yaml " + measuring + "\n"
	out["/etc/tenon/pin.yaml"] = guest.File{Data: text, Mode: 0o644}
	out["/etc/tenon/agent.args"] = guest.File{Data: []byte(args), Mode: 0o644}
	return out
}

// logs logs the last output of a node's programs.
func logs(t *testing.T, n *realnode.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, program := range []string{"agent", "containerd", "driver", "dracpu", "kubelet"} {
		out, err := n.Log(ctx, program, 20)
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

// outcomes collects the outcomes of predictions.
type outcomes struct {
	mu        sync.Mutex
	confirmed []string // names of pods
	wrong     []string
	changed   chan struct{}
}

func (o *outcomes) add(x state.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.Result == state.Confirmed {
		o.confirmed = append(o.confirmed, x.Pod.Name)
	} else {
		o.wrong = append(o.wrong, kube.Describe(nil, x))
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// await returns when predictions for the pods have an outcome.
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

// drawn returns a node as in kubectl tenon map.
func (w *world) drawn(ctx context.Context, t *testing.T, name string) *state.Node {
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

// numas returns the NUMA nodes that a pod is on, by the map.
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
