package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
)

// configKind is the beginning of a KubeletConfiguration.
const configKind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// described is a machine that needs no discovery.
type described struct{ m *topo.Machine }

func (d described) ReadMachine(context.Context) (*topo.Machine, v1alpha1.Detail, error) {
	return d.m, v1alpha1.Detail{}, nil
}

// node is a kubelet's root directory and service, filled by the test.
type node struct {
	t       *testing.T
	name    string
	root    string
	service *kubelettest.Service
	stop    func()
}

func newNode(t *testing.T, name string) *node {
	t.Helper()
	n := emptyNode(t, name)
	n.serve()
	return n
}

// emptyNode is a node whose kubelet does not answer yet.
func emptyNode(t *testing.T, name string) *node {
	t.Helper()
	n := &node{t: t, name: name, root: t.TempDir(), service: &kubelettest.Service{}}
	for _, dir := range []string{"pod-resources", "device-plugins"} {
		if err := os.Mkdir(filepath.Join(n.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.write("config.yaml", configKind+`topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
kubeReserved: {cpu: "1"}
`)
	n.cpus(`{}`)
	n.service.SetDevices(kubelettest.Device("x.io/gpu", "g0", 0), kubelettest.Device("x.io/gpu", "g1", 1))
	return n
}

func (n *node) socket() string { return filepath.Join(n.root, "pod-resources", "kubelet.sock") }

func (n *node) serve() { n.stop = n.service.Serve(n.t, n.socket()) }

// write replaces a file as the kubelet does.
func (n *node) write(file, text string) {
	n.t.Helper()
	path := filepath.Join(n.root, file)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) cpus(entries string) {
	n.t.Helper()
	text := `{"policyName":"static","defaultCpuSet":%q,"entries":` + entries + `}`
	s, err := kubelet.ParseCPUState(fmt.Appendf(nil, text, "0-7"))
	if err != nil {
		n.t.Fatal(err)
	}
	shared := s.Shared // all CPUs that no container has, as in a kubelet's file
	for _, byName := range s.Containers {
		for _, held := range byName {
			shared = shared.Minus(held)
		}
	}
	n.write(kubelet.CPUStateFile, fmt.Sprintf(text, shared.String()))
}

func (n *node) config(rc *rest.Config, log logr.Logger) Config {
	n.t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi")
	if err != nil {
		n.t.Fatal(err)
	}
	return Config{NodeName: n.name, Machine: described{m}, KubeletConfig: filepath.Join(n.root, "config.yaml"),
		PodResourcesSocket: n.socket(), StateDir: n.root, REST: rc, Logger: log, Interval: MinInterval}
}

func (n *node) pod(name string, started int64) v1.Pod {
	at := metav1.Unix(started, 0)
	return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:   v1.PodSpec{NodeName: n.name, Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &at}}
}

func listed(name string) *podresources.PodResources {
	return kubelettest.Pod("ns", name, &podresources.ContainerResources{Name: "main"})
}

// start runs an agent until the test ends.
func start(t *testing.T, cfg Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent ended with %v", err)
		}
	})
}

// await returns the first written layout for which ok is true.
func await(t *testing.T, a *api, what string, ok func(*v1alpha1.NodeLayout) bool) *v1alpha1.NodeLayout {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		select {
		case l := <-a.written:
			if ok(l) {
				return l
			}
		case <-deadline:
			t.Fatalf("no layout %s was written", what)
		}
	}
}

func held(l *v1alpha1.NodeLayout) string {
	var out []string
	for _, p := range l.Holdings {
		out = append(out, fmt.Sprintf("%s/%s=%s", p.Namespace, p.Name, p.Containers[0].CPUs))
	}
	return strings.Join(out, " ")
}

func TestAgentPublishesWhatTheKubeletDoes(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	start(t, n.config(rc, testr.New(t)))
	l := await(t, a, "at the start", func(*v1alpha1.NodeLayout) bool { return true })
	if l.Name != "node-a" || l.Sequence != 2 || l.Rules.TopologyManagerPolicy != "single-numa-node" ||
		l.Rules.ReservedCPUs != "0" {
		t.Errorf("first layout is %+v", l)
	}
	if o := l.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "node-a" || o[0].UID != "uid-of-node" {
		t.Errorf("owners are %+v", o)
	}
	if got := fmt.Sprint(l.Machine.Devices); got != "[{x.io/gpu [{0   false [g0]} {1   false [g1]}]}]" {
		t.Errorf("devices are %s", got)
	}

	a.addPod(t, n.pod("first", 200))
	n.service.SetPods(listed("first"))
	n.cpus(`{"uid-first":{"main":"5"}}`)
	l = await(t, a, "with the first pod", func(l *v1alpha1.NodeLayout) bool { return held(l) == "ns/first=5" })
	if l.Sequence < 2 {
		t.Errorf("sequence is %d", l.Sequence)
	}
	// The second pod has an earlier start time, but the agent observes it later.
	a.addPod(t, n.pod("second", 100))
	n.service.SetPods(listed("second"), listed("first"))
	n.cpus(`{"uid-first":{"main":"5"},"uid-second":{"main":"6-7"}}`)
	await(t, a, "in the order of admission", func(l *v1alpha1.NodeLayout) bool {
		return held(l) == "ns/first=5 ns/second=6-7"
	})

	n.service.SetPods(listed("second"))
	n.cpus(`{"uid-first":{"main":"5"},"uid-second":{"main":"6-7"} }`)
	await(t, a, "without the pod that is gone", func(l *v1alpha1.NodeLayout) bool { return held(l) == "ns/second=6-7" })
}

func TestAgentOutlivesTheKubeletAndTheServer(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	a.refuseNext(3)
	start(t, n.config(rc, logr.Discard()))
	await(t, a, "after the server was down", func(*v1alpha1.NodeLayout) bool { return true })

	n.stop()
	a.addPod(t, n.pod("p", 1))
	n.cpus(`{"uid-p":{"main":"5"}}`)
	n.service.SetPods(listed("p"))
	n.write("config.yaml", configKind+"topologyManagerPolicy: restricted\n")
	n.serve()
	await(t, a, "after the kubelet restarted", func(l *v1alpha1.NodeLayout) bool {
		return held(l) == "ns/p=5" && l.Rules.TopologyManagerPolicy == "restricted"
	})
}

func TestManyAgentsInOneProcess(t *testing.T) {
	a, rc := newAPI(t)
	for i := range 5 {
		n := newNode(t, fmt.Sprintf("node-%d", i))
		a.addPod(t, n.pod(fmt.Sprintf("p%d", i), 1))
		n.service.SetPods(listed(fmt.Sprintf("p%d", i)))
		n.cpus(fmt.Sprintf(`{"uid-p%d":{"main":"%d"}}`, i, i+1))
		start(t, n.config(rc, logr.Discard()))
	}
	got := map[string]string{}
	await(t, a, "of every node", func(l *v1alpha1.NodeLayout) bool {
		got[l.Name] = held(l)
		return len(got) == 5
	})
	for i := range 5 {
		if want := fmt.Sprintf("ns/p%d=%d", i, i+1); got[fmt.Sprintf("node-%d", i)] != want {
			t.Errorf("node-%d holds %q, want %q", i, got[fmt.Sprintf("node-%d", i)], want)
		}
	}
}

func TestUnchangedLayoutIsNotWritten(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	n.service.SetPods(listed("x"), listed("y"))
	a.addPod(t, n.pod("x", 10))
	a.addPod(t, n.pod("y", 20))
	n.cpus(`{"uid-x":{"main":"5"},"uid-y":{"main":"6"}}`)
	reconcile := func(r *reconciler, wantWrite bool, what string) {
		t.Helper()
		wrote, err := r.reconcile(t.Context(), true)
		if err != nil || wrote != wantWrite {
			t.Fatalf("%s: wrote %v, %v; want %v", what, wrote, err, wantWrite)
		}
	}
	first := newTestReconciler(t, n.config(rc, logr.Discard()))
	reconcile(first, true, "first reconcile")
	reconcile(first, false, "second reconcile")
	n.cpus(`{"uid-y":{"main":"6"},"uid-x":{"main":"5"}}`)
	reconcile(first, false, "the same content in another order")
	a.deleteLayout("node-a")
	reconcile(first, true, "deleted layout")
	second := newTestReconciler(t, n.config(rc, logr.Discard()))
	reconcile(second, false, "a new agent on the same node")
	n.cpus(`{"uid-y":{"main":"7"},"uid-x":{"main":"5"}}`)
	reconcile(second, true, "another CPU")
	var l *v1alpha1.NodeLayout
	for range 3 {
		l = <-a.written
	}
	if l.Sequence != firstSequence(3)+2 || held(l) != "ns/x=5 ns/y=7" {
		t.Errorf("last layout has sequence %d and %s", l.Sequence, held(l))
	}
}

// newTestReconciler returns a reconciler that has the pods, without a loop.
func newTestReconciler(t *testing.T, cfg Config) *reconciler {
	t.Helper()
	r, err := newReconciler(cfg.withDefaults(), newTriggers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.observer.service.Close() })
	go r.observer.pods.run(t.Context())
	if !r.observer.pods.wait(t.Context()) {
		t.Fatal("pods are not known")
	}
	return r
}

func TestBadConfigIsRefused(t *testing.T) {
	err := Run(t.Context(), Config{NodeName: "n", PodResourcesSocket: "relative"})
	for _, w := range []string{"KubeletConfigDir", "relative", "StateDir", "Machine", "REST"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not say %s", err, w)
		}
	}
}

func TestPace(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	p := pace{settle: 8 * time.Millisecond, maxSettle: 25 * time.Millisecond, observe: 50 * time.Millisecond,
		write: 200 * time.Millisecond}
	want := func(what string, got time.Time, ms int) {
		t.Helper()
		if !got.Equal(at(ms)) {
			t.Errorf("%s: reconcile at %d ms, want %d ms", what, got.Sub(at(0)).Milliseconds(), ms)
		}
	}
	want("first change", p.change(at(0)), 8)
	want("another one", p.change(at(5)), 13)
	want("more without rest", p.change(at(20)), 25)
	if again := p.reconciled(at(25), true, nil); !again.IsZero() {
		t.Errorf("reconciles again without a change")
	}
	want("a change after a write", p.change(at(30)), 225)
	p.reconciled(at(225), false, nil)
	want("a change after a reconcile", p.change(at(230)), 275)
	fail := fmt.Errorf("down")
	for i, most := range []int{100, 200, 400} {
		again := p.reconciled(at(1000), false, fail)
		if again.Before(at(1000+most/2)) || again.After(at(1000+most)) {
			t.Errorf("failure %d: next reconcile %s later, want about %d ms", i, again.Sub(at(1000)), most)
		}
	}
	for range 100 {
		if again := p.reconciled(at(0), false, fail); again.After(at(0).Add(lastRetry)) {
			t.Fatalf("retry after %s", again.Sub(at(0)))
		}
	}
}
