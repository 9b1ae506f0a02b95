// What the pages say about installing, on a real node: the project's images in containerd, the chart by Helm, pods
// that controllers make and a kubelet starts.
package install_test

import (
	"context"
	"testing"
	"time"
)

// One cluster serves all its tests: a start takes a minute.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	// Most of it is for a first build, which compiles Kubernetes.
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := start(ctx, t)
	w.prepare(ctx, t)
	before, err := w.objects(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("quickstart", func(t *testing.T) {
		w.play(ctx, t, "docs/quickstart.md", "## On a real cluster")
		w.remain(ctx, t, before)
	})
}

// prepare makes of the node what a cluster has before anybody installs anything: the certificate of its kubelet, and
// an image for samples that cannot be pulled here and does what the node's own does.
func (w *world) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := w.node.Run(ctx, "ctr -n k8s.io images tag localhost/work:1 registry.k8s.io/pause:3.10"); err != nil {
		t.Fatal(err)
	}
	w.must(ctx, t, "kubectl certificate approve $(kubectl get csr -o name)")
}
