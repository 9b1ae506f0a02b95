package install_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

const pinPage = "docs/howto/pin-containers.md"

// The test follows the page on pinning by the agent, on a node whose kubelet has no static manager: the chart turns it
// on and off, and the kernel allows the sample pod the CPUs that the map shows.
func TestPin(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := start(ctx, t, "pins")
	w.prepare(ctx, t)
	w.shell.exports = append(w.shell.exports, "export NODE="+nodeName)
	install(ctx, t, w)
	w.play(ctx, t, pinPage, "## Requirements")
	sampled := make(chan string, 1)
	go func() { sampled <- w.sample(ctx) }()
	w.play(ctx, t, pinPage, "## Turn it on")
	if got := <-sampled; got != "CPUs 2-3, NUMA nodes 1" {
		t.Errorf("the kernel allows the sample %s", got)
	}
	if out := w.must(ctx, t, "kubectl tenon map "+nodeName); !strings.Contains(out, "the agent decides") {
		t.Error("the map does not say that the agent decides")
	}
	w.measures(ctx, t)
	w.play(ctx, t, pinPage, "## Go back")
	w.must(ctx, t, "kubectl wait layoutbase/"+nodeName+" --for=jsonpath='{.rules.cpuManagerPolicy}'=none --timeout=2m")
	data, err := os.ReadFile(filepath.Join(w.root, pinPage))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claimed(string(data)) {
		if !w.played[c.text] {
			t.Errorf("%s: did not run: %s", pinPage, c.text)
		}
	}
}

// measures has the agent read the sockets of all pods, and of one in the node's own network namespace.
func (w *world) measures(ctx context.Context, t *testing.T) {
	t.Helper()
	p := workload.Pod("edge", v1.Container{Name: "c", Image: realnode.Image, ImagePullPolicy: v1.PullNever,
		Args: []string{"1", "talk"}})
	p.Spec.NodeName, p.Spec.HostNetwork = nodeName, true
	if err := workload.Create(ctx, w.client, p); err != nil {
		t.Fatal(err)
	}
	w.must(ctx, t, `kubectl wait pod/edge --for=condition=Ready --timeout=3m
helm upgrade tenon dist/tenon-*.tgz --namespace tenon-system --reset-then-reuse-values --wait --timeout 10m \
  --set agent.pin.affinity.enabled=true --set agent.pin.affinity.hostNetwork=true --set 'agent.pin.affinity.namespaces={*}'
kubectl wait nodeaffinity/$NODE --for=create --timeout=3m
kubectl wait nodeaffinity/$NODE --for=jsonpath='{.pods[?(@.name=="edge")].outcome}'=silent --timeout=3m
kubectl get nodeaffinity $NODE -o yaml`)
	// The API server does not reach the kubelet of a virtual machine for its logs.
	if out, err := w.node.Run(ctx, "cat /var/log/pods/tenon-agents_*/agent/*.log"); err != nil ||
		strings.Contains(out, "in part only") {
		t.Errorf("the agent could not read all: %v: %s", err, out)
	}
	if out := w.must(ctx, t, "kubectl get nodeaffinity $NODE -o jsonpath='{.sockets}'"); strings.TrimSpace(out) == "" {
		t.Error("the agent has read no socket, and the kubelet's are open")
	}
	w.must(ctx, t, "kubectl delete pod edge")
}

// sample waits until the sample pod runs, and returns what the kernel allows its process.
func (w *world) sample(ctx context.Context) (allowed string) {
	err := wait.PollUntilContextTimeout(ctx, time.Second, 20*time.Minute, true, func(ctx context.Context) (bool, error) {
		p, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "sample", metav1.GetOptions{})
		if err != nil || p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) == 0 {
			return false, nil //nolint:nilerr // it is not there yet
		}
		all, err := w.node.Processes(ctx)
		if err != nil {
			return false, err
		}
		id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
		for _, one := range all {
			if one.Container == id {
				allowed = "CPUs " + one.CPUs.String() + ", NUMA nodes " + one.Mems.String()
			}
		}
		return allowed != "", nil
	})
	if err != nil {
		return err.Error()
	}
	return allowed
}
