package trial_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab/workload"
)

// scoped has the agent align pods as a whole, by a change of its file, and goes back.
func scoped(ctx context.Context, t *testing.T, w *world) {
	w.scope(ctx, t, place.PerPod)
	w.create(ctx, t, on(pins, tenon, "together", guaranteed("a", "2", "64Mi"), guaranteed("b", "2", "64Mi")))
	w.await(ctx, t, "together", workload.Running)
	w.compare(ctx, t, pins)
	w.decided(ctx, t, "together")
	if got := w.numas(ctx, t, pins, "together"); len(got) != 1 {
		t.Errorf("the containers are on NUMA nodes %s, want one", got)
	}
	w.create(ctx, t, on(pins, tenon, "wide", guaranteed("a", "4", "64Mi"), guaranteed("b", "2", "64Mi")))
	w.await(ctx, t, "wide", workload.Pending)
	w.remove(ctx, t, "together", "wide")
	w.scope(ctx, t, place.PerContainer)
}

// scope changes the agent's rules, and waits until the node reports them.
func (w *world) scope(ctx context.Context, t *testing.T, scope place.Scope) {
	t.Helper()
	script := "sed -i 's/^topologyManagerScope: .*/topologyManagerScope: " + scope.String() + "/' /etc/tenon/pin.yaml"
	if _, err := w.nodes[pins].Run(ctx, script); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		return w.drawn(ctx, t, pins).Rules.Topology.Scope == scope, nil
	})
	if err != nil {
		t.Fatalf("the node does not align by %s: %v", scope, err)
	}
}

// changed gives a container CPUs of another one by hand, which the agent mends.
func changed(ctx context.Context, t *testing.T, w *world) {
	w.compare(ctx, t, pins)
	p := w.running(ctx, t, pins)["web"]
	if p == nil {
		t.Fatal("pod web does not run")
	}
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	script := "f=$(find /sys/fs/cgroup -name " + id + ") && cat $f/cpuset.cpus && echo 0-15 >$f/cpuset.cpus"
	out, err := w.nodes[pins].Run(ctx, script)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("web was on CPUs %s", out)
	w.compare(ctx, t, pins)
}

// rebooted boots the node while a pod runs and another one comes: both get what was decided for them.
func rebooted(ctx context.Context, t *testing.T, w *world) {
	again := on(pins, tenon, "stays", guaranteed("c", "2", "64Mi"))
	again.Spec.RestartPolicy = v1.RestartPolicyAlways
	w.create(ctx, t, again)
	w.await(ctx, t, "stays", workload.Running)
	w.compare(ctx, t, pins)
	before := w.kernel(ctx, t, pins)["stays/c"]
	w.create(ctx, t, on(pins, tenon, "comes", guaranteed("c", "2", "64Mi")))
	if err := w.nodes[pins].Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, "comes", workload.Running)
	w.awaitRestart(ctx, t, "stays")
	w.compare(ctx, t, pins)
	w.decided(ctx, t, "stays", "comes")
	if after := w.kernel(ctx, t, pins)["stays/c"]; !after.CPUs.Equal(before.CPUs) {
		t.Errorf("the pod was on CPUs %s, and is on %s", before.CPUs, after.CPUs)
	}
	w.remove(ctx, t, "stays", "comes")
}

// awaitRestart waits until the container of a pod runs again.
func (w *world) awaitRestart(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return slices.ContainsFunc(pods, func(p *v1.Pod) bool {
			return p.Name == name && slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool {
				return s.RestartCount > 0 && s.State.Running != nil
			})
		})
	})
	if err != nil {
		t.Fatalf("pod %s does not start again: %v", name, err)
	}
}

const page = "../../../../docs/howto/pin-containers.md"

// heldBack configures containerd as on the page: while the agent is away, a container starts only with the annotation.
func heldBack(ctx context.Context, t *testing.T, w *world) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```toml\n")
	block, _, _ = strings.Cut(block, "```")
	if !strings.Contains(block, "required_plugins") {
		t.Fatalf("%s has no configuration of containerd", page)
	}
	const file = "/etc/containerd/config.toml"
	w.containerd(ctx, t, "cp "+file+" /run/config.toml\ncat >>"+file+" <<'END'\n"+block+"\nEND\n")
	w.compare(ctx, t, pins) // the agent has connected again
	if err := w.nodes[pins].StopProgram(ctx, "agent"); err != nil {
		t.Fatal(err)
	}
	first := on(pins, tenon, "unpinned", guaranteed("c", "2", "64Mi"))
	first.Annotations = map[string]string{"tenon.sh/unpinned": "true"}
	w.create(ctx, t, first, on(pins, tenon, "held", guaranteed("c", "2", "64Mi")))
	w.await(ctx, t, "unpinned", workload.Running)
	w.awaitReason(ctx, t, "held", "CreateContainerError")
	if err := w.nodes[pins].StartProgram(ctx, "agent"); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, "held", workload.Running)
	w.compare(ctx, t, pins)
	w.decided(ctx, t, "unpinned", "held")
	w.remove(ctx, t, "unpinned", "held")
	w.containerd(ctx, t, "cp /run/config.toml "+file)
}

// containerd changes the configuration of containerd.
func (w *world) containerd(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	n := w.nodes[pins]
	if _, err := n.Run(ctx, script); err != nil {
		t.Fatal(err)
	}
	if err := n.StopProgram(ctx, "containerd"); err != nil {
		t.Fatal(err)
	}
	if err := n.StartProgram(ctx, "containerd"); err != nil {
		t.Fatal(err)
	}
}

// awaitReason waits until a container of a pod waits for a reason.
func (w *world) awaitReason(ctx context.Context, t *testing.T, name, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return slices.ContainsFunc(pods, func(p *v1.Pod) bool {
			return p.Name == name && slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool {
				return s.State.Waiting != nil && s.State.Waiting.Reason == reason
			})
		})
	})
	if err != nil {
		t.Fatalf("pod %s does not wait because of %s: %v", name, reason, err)
	}
}

// interrupted ends programs of the node while the containers of pods are created, start and end.
func interrupted(ctx context.Context, t *testing.T, w *world) {
	r := rand.New(rand.NewPCG(*stormSeed, 4))
	if err := w.pods.Clear(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	n := w.nodes[pins]
	for _, program := range []string{"agent", "containerd", "agent"} {
		var names []string
		for i := range 3 {
			name := fmt.Sprintf("%s-%d-%d", program, i, r.IntN(1000))
			names = append(names, name)
			w.create(ctx, t, on(pins, tenon, name, guaranteed("a", pick(r, "2", "4"), "64Mi"),
				guaranteed("b", pick(r, "300m", "2"), "32Mi")))
		}
		if err := n.StopProgram(ctx, program); err != nil {
			t.Fatal(err)
		}
		if err := n.StartProgram(ctx, program); err != nil {
			t.Fatal(err)
		}
		pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
			return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { f, _ := fateOf(p); return f == workload.Waiting })
		})
		if err != nil {
			t.Fatal(err)
		}
		var runs []string
		for _, p := range pods {
			f, why := fateOf(p)
			if f == workload.Running && slices.Contains(names, p.Name) {
				runs = append(runs, p.Name)
			} else if f == workload.Refused {
				t.Errorf("pod %s was refused: %s: %s", p.Name, why, p.Status.Message)
			}
		}
		w.compare(ctx, t, pins)
		w.decided(ctx, t, runs...)
		t.Logf("while %s was ended and started, %v came\n%s", program, runs, w.picture(ctx, t, pins))
		if err := w.pods.Clear(ctx, w.client); err != nil {
			t.Fatal(err)
		}
	}
}
