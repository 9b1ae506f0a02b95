// What the pages say about installing, on a real node: the project's images in containerd, the chart by Helm, pods
// that controllers make and a kubelet starts.
package install_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One cluster serves all its tests: a start takes a minute.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	// Most of it is for a first build, which compiles Kubernetes.
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := start(ctx, t, nodeName)
	w.prepare(ctx, t)
	before, err := w.objects(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T, *world)

		needed bool // by the next step
	}{
		{"first cluster", func(ctx context.Context, t *testing.T, w *world) {
			w.play(ctx, t, "docs/howto/first-cluster.md", "# Try Tenon on a cluster")
			w.remain(ctx, t, before)
		}, true},
		{"install", install, true},
		{"an agent is killed", killed, false},
		{"an image cannot be pulled", unpulled, false},
		{"a node is drained", drained, false},
		{"the disk is full", full, false},
		{"upgrade and roll back while pods come and go", upgrade, false},
		{"remove", func(ctx context.Context, t *testing.T, w *world) {
			w.play(ctx, t, installPage, "### Remove with Helm")
			w.remain(ctx, t, before, kept...)
			w.play(ctx, t, installPage, "### Remove the rest")
			w.remain(ctx, t, before)
		}, false},
		{"every command of the pages", whole, false},
	} {
		began := time.Now()
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t, w) }) && step.needed {
			return // the cluster is not in the initial state of the next step
		}
		t.Logf("%s: %s", step.name, time.Since(began).Round(time.Second))
	}
}

const installPage = "docs/howto/install.md"

// install plays the page on installing up to the check, and logs how long the pods took.
func install(ctx context.Context, t *testing.T, w *world) {
	const load = `for i in agent scheduler; do
		ctr -n k8s.io images list -q | grep -q tenon-$i: || ctr -n k8s.io images import /root/tenon-$i.tar >/dev/null
	done`
	if _, err := w.node.Run(ctx, load); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.play(ctx, t, installPage, "### With Helm")
	t.Logf("installed after %s", time.Since(began).Round(time.Second))
	w.play(ctx, t, installPage, "## 3. Check")
	for _, namespace := range []string{"tenon-agents", "tenon-system"} {
		pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			runs, ready := sinceStart(&p)
			t.Logf("%s: its program runs %s after the kubelet began with it, and is ready after %s", p.Name, runs, ready)
		}
	}
	if out := w.must(ctx, t, "kubectl tenon map "+nodeName); strings.Contains(out, "inexact") {
		// On the one CPU of this node the kubelet may be too busy to answer the agent's first request.
		w.must(ctx, t, "kubectl wait nodelayout/"+nodeName+" --for=condition=Exact --timeout=5m")
	}
}

// sinceStart returns how long a pod took to run and to be ready, by its kubelet's clock.
func sinceStart(p *v1.Pod) (runs, ready time.Duration) {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			runs = max(runs, c.State.Running.StartedAt.Sub(p.Status.StartTime.Time))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			ready = c.LastTransitionTime.Sub(p.Status.StartTime.Time)
		}
	}
	return runs, ready
}

// kept are the objects that helm uninstall leaves, according to the page.
var kept = []string{
	"CustomResourceDefinition /nodelayouts.tenon.sh", "CustomResourceDefinition /layoutbases.tenon.sh",
	"CustomResourceDefinition /nodeaffinities.tenon.sh",
	"APIService /v1alpha1.tenon.sh", "NodeLayout /" + nodeName, "LayoutBase /" + nodeName,
	"Namespace /tenon-system", "ServiceAccount tenon-system/default", "ConfigMap tenon-system/kube-root-ca.crt",
	"Lease tenon-system/tenon-scheduler",
}

// prepare makes the node like one of a real cluster before an installation: it approves the certificate of its kubelet,
// and provides an image for samples that cannot be pulled here.
func (w *world) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := w.node.Run(ctx, "ctr -n k8s.io images tag localhost/work:1 registry.k8s.io/pause:3.10"); err != nil {
		t.Fatal(err)
	}
	w.must(ctx, t, "kubectl certificate approve $(kubectl get csr -o name)")
}
