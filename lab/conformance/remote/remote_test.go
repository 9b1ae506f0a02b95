package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/conformance/remote"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	os.Exit(m.Run())
}

const machine = `numa 0 socket 0 cpus 0-15/32-47 memory 32Gi
numa 1 socket 1 cpus 16-31/48-63 memory 32Gi
`

const config = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,32"
topologyManagerPolicy: single-numa-node
`

// pool is the key of a taint of node two.
const pool = "tenon.test/pool"

// world is a lab cluster of two nodes, which the package takes for a cluster with hardware.
type world struct {
	lab     *lab.Cluster
	client  kubernetes.Interface
	machine machines.Machine
	dir     string // of the lab's judge
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.machine, err = machines.Parse("real", machine, config); err != nil {
		t.Fatal(err)
	}
	w.lab, err = lab.Start(t.Context(), lab.Config{Progress: func(line string) { t.Log(line) },
		Nodes:    []lab.Node{{Name: "one", Machine: "real"}, {Name: "two", Machine: "real"}},
		Machines: fstest.MapFS{"real.txt": {Data: []byte(machine)}, "real.yaml": {Data: []byte(config)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	if w.client, err = kubernetes.NewForConfig(w.lab.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	taint := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"numa","effect":"NoSchedule"}]}}`, pool)
	_, err = w.client.CoreV1().Nodes().Patch(t.Context(), "two", types.MergePatchType, []byte(taint),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.dir = filepath.Join(w.lab.Dir, "j")
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("rights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := rights.Apply(t.Context(), w.lab.RESTConfig(), manifest); err != nil {
		t.Fatal(err)
	}
	return w
}

// grader returns the access of the person for whom rights.yaml is.
func (w *world) grader() *rest.Config {
	out := w.lab.RESTConfig()
	out.Impersonate.UserName = "grader"
	return out
}

// options returns the options of a run that compares every verdict with the managers of the lab's kubelets.
func (w *world) options(t *testing.T) remote.Options {
	return remote.Options{Config: w.grader(), SchedulerName: v1.DefaultSchedulerName, Namespace: remote.DefaultNamespace,
		Tolerate: []string{pool + "=numa"}, Image: "lab.invalid/app:1", Settle: time.Second, Pause: 500 * time.Millisecond,
		Progress: func(line string) { t.Log(line) },
		Done: func(r *conformance.Result) {
			t.Log(r.Case.Name, r.Err, r.Findings)
			if r.Err != nil {
				t.Errorf("case %s: %v", r.Case.Name, r.Err)
			}
		},
		Judged: func(ctx context.Context, s *judge.Scene, findings []judge.Finding) error {
			return w.compare(ctx, t, s, findings)
		}}
}

// compare has the managers of the lab's kubelets judge a scene.
func (w *world) compare(ctx context.Context, t *testing.T, s *judge.Scene, findings []judge.Finding) error {
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	known := &judge.Scene{Pods: s.Pods}
	for _, n := range s.Nodes {
		states, err := kubelet.ReadStates(w.lab.NodeDir(n.Object.Name))
		if err != nil {
			return err
		}
		one := &judge.Node{Object: n.Object, Machine: w.machine.Topo, Config: w.machine.Kubelet, States: states}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName == n.Object.Name && p.Status.Phase == v1.PodRunning {
				one.Pods = append(one.Pods, p)
			}
		}
		known.Nodes = append(known.Nodes, one)
	}
	want, err := judge.Judge{Dir: w.dir}.Findings(ctx, known)
	if err != nil {
		return err
	}
	names := func(list []judge.Finding) (out []string) {
		for _, f := range list {
			if f.Kind != judge.AvoidableMisalignment {
				out = append(out, f.Pod+" "+string(f.Kind))
			}
		}
		return out
	}
	if a, b := names(findings), names(want); !slices.Equal(a, b) {
		t.Errorf("the kubelets say %v, and their managers %v: %+v, %+v", a, b, findings, want)
	}
	return nil
}

// grade plays cases, and returns the names of those that failed.
func (w *world) grade(t *testing.T, cases []*remote.Case, change func(*remote.Options)) (lost []string) {
	t.Helper()
	o := w.options(t)
	change(&o)
	found, err := remote.Run(t.Context(), cases, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Results) != len(cases) || !slices.Equal(found.Nodes, []string{"one", "two"}) {
		t.Errorf("%d of %d cases were played, on %v", len(found.Results), len(cases), found.Nodes)
	}
	for _, r := range found.Results {
		if !r.Passed() {
			lost = append(lost, r.Case.Name)
		}
	}
	w.nothingIsLeft(t, o.Namespace)
	return lost
}

func (w *world) nothingIsLeft(t *testing.T, namespace string) {
	t.Helper()
	pods, err := w.client.CoreV1().Pods(namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) > 0 {
		t.Errorf("%d pods are left in namespace %s", len(pods.Items), namespace)
	}
}

// The kubelets of a cluster answer as their managers do: for kube-scheduler, for Tenon, and for a scheduler that does
// nothing. A person with the documented rights may ask.
func TestKubeletsAgreeWithTheirManagers(t *testing.T) {
	w := start(t)
	cases, err := remote.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, profiles string
		change         func(*remote.Options)
		lost           []string
	}{
		{"kube-scheduler", scheduler.Plain, func(o *remote.Options) { o.NUMA = "2x32" },
			[]string{"burst-after-end", "burst-equal", "foreign-pods", "full-halves", "other-node", "too-wide",
				"two-containers"}},
		{"Tenon", scheduler.Tenon, func(*remote.Options) {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			access := w.lab.KubeconfigPath
			if c.profiles == scheduler.Tenon {
				access = w.lab.SchedulerKubeconfig
			}
			s, err := scheduler.Start(w.lab.Dir, access, c.profiles, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			lost := w.grade(t, cases, c.change)
			if !slices.Equal(lost, c.lost) {
				t.Errorf("failed cases %v, want %v", lost, c.lost)
			}
		})
	}
	t.Run("a lazy scheduler", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go bindFirst(ctx, w.client, "lazy")
		some := slices.DeleteFunc(slices.Clone(cases), func(c *remote.Case) bool {
			return !slices.Contains([]string{"full-halves", "burst-after-end", "other-node"}, c.Name)
		})
		lost := w.grade(t, some, func(o *remote.Options) { o.SchedulerName = "lazy" })
		// Cases of the level safe do not count waits.
		if want := []string{"burst-after-end", "full-halves"}; !slices.Equal(lost, want) {
			t.Errorf("failed cases %v, want %v", lost, want)
		}
	})
}

// bindFirst is a scheduler that binds only the pods with which a run begins.
func bindFirst(ctx context.Context, client kubernetes.Interface, name string) {
	pods, err := workload.Follow(ctx, client)
	if err != nil {
		return
	}
	defer pods.Stop()
	for {
		now, changed := pods.Pods()
		for _, p := range now {
			if p.Spec.SchedulerName == name && p.Spec.NodeName == "" && strings.HasPrefix(p.Name, "first-") &&
				len(p.Spec.Containers[0].Resources.Limits) == 0 {
				terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
				_ = client.CoreV1().Pods(p.Namespace).Bind(ctx, &v1.Binding{ObjectMeta: p.ObjectMeta,
					Target: v1.ObjectReference{Kind: "Node", Name: terms[0].MatchFields[0].Values[0]}}, metav1.CreateOptions{})
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// An interrupted run deletes its pods and its namespace, and no pod of others.
func TestAnInterruptedRunCleansUp(t *testing.T) {
	w := start(t)
	s, err := scheduler.Start(w.lab.Dir, w.lab.KubeconfigPath, scheduler.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	other := workload.Pod("other", workload.Guaranteed("c", workload.Amounts{"cpu": "500m", "memory": "1Gi"}))
	if err := workload.Create(t.Context(), w.client, other); err != nil {
		t.Fatal(err)
	}
	cases, err := remote.Cases()
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	stopped := errors.New("interrupted")
	o := w.options(t)
	o.Config, o.Namespace, o.NUMA, o.Done = w.lab.RESTConfig(), "own", "2x32", nil
	o.Judged = func(_ context.Context, s *judge.Scene, _ []judge.Finding) error {
		if len(s.Pods) > 1 {
			interrupt(stopped)
		}
		return nil
	}
	if _, err := remote.Run(ctx, cases, o); !errors.Is(err, stopped) {
		t.Errorf("error %v, want the interruption", err)
	}
	w.nothingIsLeft(t, "own")
	n, err := w.client.CoreV1().Namespaces().Get(t.Context(), "own", metav1.GetOptions{})
	if err == nil && n.DeletionTimestamp == nil {
		t.Error("the namespace is left")
	}
	if _, err := w.client.CoreV1().Pods("default").Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod of somebody else: %v", err)
	}
	w.refusesNodes(t, cases)
}

// refusesNodes finds that a run without suitable nodes ends with an error before it creates anything.
func (w *world) refusesNodes(t *testing.T, cases []*remote.Case) {
	for i, node := range []string{"one", "two"} {
		p := workload.Pod(fmt.Sprint("held-", i), workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
		p.Spec.NodeName = node
		if err := workload.Create(t.Context(), w.client, p); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(*remote.Options)
		want   string
	}{
		"pods of others": {func(*remote.Options) {}, "runs pod default/held-0, which may have exclusive CPUs"},
		"no toleration": {func(o *remote.Options) { o.Tolerate = nil },
			"two has the taint " + pool + "=numa:NoSchedule"},
		"no such node": {func(o *remote.Options) { o.Selector = "no=such" }, "none of 0 nodes"},
		"a wrong NUMA": {func(o *remote.Options) { o.NUMA = "two" }, `"two" is not`},
	} {
		o := w.options(t)
		o.Config, o.Namespace = w.lab.RESTConfig(), "never"
		c.change(&o)
		if _, err := remote.Run(t.Context(), cases, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	if _, err := w.client.CoreV1().Namespaces().Get(t.Context(), "never", metav1.GetOptions{}); err == nil {
		t.Error("a namespace was created")
	}
}
