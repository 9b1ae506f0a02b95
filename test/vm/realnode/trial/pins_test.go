package trial_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

const pins = "pins"

// A node whose kubelet has no static manager: its agent pins every container through containerd as the scheduler has
// booked it, and whatever is ended and started again, nothing else happens.
func TestPinnedNode(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Minute)
	defer cancel()
	w := start(ctx, t, pins)
	t.Run("pods of many shapes", func(t *testing.T) { pinned(ctx, t, w) })
	t.Run("pod scope", func(t *testing.T) { scoped(ctx, t, w) })
	t.Run("another scheduler's pod", func(t *testing.T) { stranger(ctx, t, w) })
	t.Run("resize in place", func(t *testing.T) { resize(ctx, t, w) })
	t.Run("somebody else changes a cpuset", func(t *testing.T) { changed(ctx, t, w) })
	t.Run("the agent is killed", func(t *testing.T) { killed(ctx, t, w, "agent") })
	t.Run("containerd ends", func(t *testing.T) { killed(ctx, t, w, "containerd") })
	t.Run("the kubelet ends", func(t *testing.T) { killed(ctx, t, w, "kubelet") })
	t.Run("the node boots again", func(t *testing.T) { rebooted(ctx, t, w) })
	t.Run("the runtime holds containers back", func(t *testing.T) { heldBack(ctx, t, w) })
	t.Run("pods that talk", func(t *testing.T) { talking(ctx, t, w) })
	t.Run("a storm", func(t *testing.T) { storm(ctx, t, w) })
	t.Run("programs end while containers start", func(t *testing.T) { interrupted(ctx, t, w) })
	w.seen.check(t)
}

// pinned runs pods of many shapes, and asks the kernel.
func pinned(ctx context.Context, t *testing.T, w *world) {
	if got := w.drawn(ctx, t, pins).Rules.Arbiter; got != place.ByAgent {
		t.Fatalf("the arbiter is the %s", got)
	}
	helped := on(pins, tenon, "helped", guaranteed("main", "2", "64Mi"))
	side := guaranteed("side", "2", "32Mi")
	side.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	side.Image, side.ImagePullPolicy = realnode.Image, v1.PullNever
	helped.Spec.InitContainers = []v1.Container{first("4", "64Mi"), side}
	// First those that fit on few NUMA nodes.
	all := []*v1.Pod{
		on(pins, tenon, "huge", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "64Mi",
			"hugepages-2Mi": "32Mi"})),
		on(pins, tenon, "device", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "64Mi",
			"example.com/vf": "1"})),
		helped,
		on(pins, tenon, "pair", guaranteed("a", "2", "128Mi"), guaranteed("b", "2", "64Mi")),
		on(pins, tenon, "web", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)),
	}
	for _, p := range all {
		w.create(ctx, t, p)
		w.await(ctx, t, p.Name, workload.Running)
	}
	w.seen.await(ctx, t, "pair", "helped", "huge")
	t.Logf("\n%s", w.picture(ctx, t, pins))
	w.compare(ctx, t, pins)
	w.decided(ctx, t, "pair", "helped", "huge")
	if got := w.numas(ctx, t, pins, "device"); got != "2" {
		t.Errorf("pod device is on NUMA nodes %s, want 2: the device is there", got)
	}
	w.remove(ctx, t, "huge", "device", "helped")
}

// decided compares what a node reports of some pods with the decisions that the scheduler wrote with their bindings. It
// only logs a pod that the agent has placed anew, with an event.
func (w *world) decided(ctx context.Context, t *testing.T, pods ...string) {
	t.Helper()
	n, running := w.drawn(ctx, t, pins), w.running(ctx, t, pins)
	for _, name := range pods {
		p := running[name]
		if p == nil {
			t.Errorf("pod %s does not run", name)
			continue
		}
		if w.hasEvent(ctx, t, p, "PlacementReplaced") {
			t.Logf("pod %s was placed anew", name)
			continue
		}
		text := p.Annotations[v1alpha1.DecisionAnnotation]
		want, err := v1alpha1.ParseDecision(text, n.Machine, string(p.UID), pins)
		if err != nil {
			t.Errorf("pod %s: %v", name, err)
			continue
		}
		e, _ := n.Entry(string(p.UID))
		got, err := v1alpha1.DecisionText(n.Machine, string(p.UID), pins, e.Holdings)
		if err != nil {
			t.Fatal(err)
		}
		if said, err := v1alpha1.DecisionText(n.Machine, string(p.UID), pins, want); err != nil || got != said {
			t.Errorf("pod %s: decided %s, reported %s (%v)", name, said, got, err)
		}
	}
}

// hasEvent reports whether a pod has an event.
func (w *world) hasEvent(ctx context.Context, t *testing.T, p *v1.Pod, reason string) bool {
	t.Helper()
	all, err := w.client.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(p.UID) + ",reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Items) > 0
}

// stranger is a pod that comes without a decision.
func stranger(ctx context.Context, t *testing.T, w *world) {
	w.create(ctx, t, on(pins, "default-scheduler", "stranger", guaranteed("c", "2", "64Mi")))
	p := w.await(ctx, t, "stranger", workload.Running)
	if text := p.Annotations[v1alpha1.DecisionAnnotation]; text != "" {
		t.Errorf("the default scheduler decided %s", text)
	}
	w.compare(ctx, t, pins)
	if got := w.kernel(ctx, t, pins)["stranger/c"]; got.CPUs.Len() != 2 {
		t.Errorf("the kernel allows it CPUs %s", got.CPUs)
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		return w.hasEvent(ctx, t, p, "PlacedByAgent"), nil
	})
	if err != nil {
		t.Errorf("the pod has no event of the agent: %v", err)
	}
	w.remove(ctx, t, "stranger")
}

// resize grows and shrinks exclusive CPUs, which a kubelet with the static policy finds infeasible.
func resize(ctx context.Context, t *testing.T, w *world) {
	w.create(ctx, t, on(pins, tenon, "db", guaranteed("c", "2", "64Mi")))
	w.await(ctx, t, "db", workload.Running)
	w.compare(ctx, t, pins)
	before := w.kernel(ctx, t, pins)["db/c"]
	for _, cpus := range []string{"4", "2"} {
		p, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := &p.Spec.Containers[0].Resources
		r.Requests[v1.ResourceCPU], r.Limits[v1.ResourceCPU] = resource.MustParse(cpus), resource.MustParse(cpus)
		if _, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).UpdateResize(ctx, "db", p,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		want := resource.MustParse(cpus)
		after := before
		err = wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
			after = w.kernel(ctx, t, pins)["db/c"]
			return int64(after.CPUs.Len()) == want.Value(), nil
		})
		if err != nil || after.PID != before.PID {
			t.Fatalf("resized to %s CPUs, the kernel allows %s (process %d, was %d): %v", cpus, after.CPUs, after.PID,
				before.PID, err)
		}
		t.Logf("resized to %s CPUs: from %s to %s", cpus, before.CPUs, after.CPUs)
		w.compare(ctx, t, pins)
		before = after
	}
	w.remove(ctx, t, "db")
}

// killed ends a program of the node, lets a pod come meanwhile where that is possible, and starts the program again:
// processes keep their CPUs, and the pod has its own in the end.
func killed(ctx context.Context, t *testing.T, w *world, program string) {
	stays, comes := program+"-stays", program+"-comes"
	w.create(ctx, t, on(pins, tenon, stays, guaranteed("c", "2", "64Mi")))
	w.await(ctx, t, stays, workload.Running)
	w.compare(ctx, t, pins)
	before := w.kernel(ctx, t, pins)
	n := w.nodes[pins]
	if err := n.StopProgram(ctx, program); err != nil {
		t.Fatal(err)
	}
	w.create(ctx, t, on(pins, tenon, comes, guaranteed("c", "2", "64Mi")))
	if program == "agent" {
		w.await(ctx, t, comes, workload.Running)
		t.Logf("while the agent is away, the kernel allows the new pod CPUs %s", w.kernel(ctx, t, pins)[comes+"/c"].CPUs)
	}
	if err := n.StartProgram(ctx, program); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, comes, workload.Running)
	w.compare(ctx, t, pins)
	w.decided(ctx, t, stays, comes)
	after := w.kernel(ctx, t, pins)
	for c, p := range before {
		q := after[c]
		if q.PID != p.PID || !q.Mems.Equal(p.Mems) || !strings.HasPrefix(c, "web/") && !q.CPUs.Equal(p.CPUs) {
			t.Errorf("%s was process %d on CPUs %s, and is %d on %s", c, p.PID, p.CPUs, q.PID, q.CPUs)
		}
	}
	w.remove(ctx, t, stays, comes)
}
