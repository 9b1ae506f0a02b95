package install_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// The pages on installing, as far as an API server and controllers can check them: there are no nodes, so no pod of
// Tenon is made, or none runs.
func TestChart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Helm and kubectl")
	}
	onAMD64(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	w := &world{dir: t.TempDir(), played: map[string]bool{}}
	redirectLogs(t, filepath.Join(w.dir, "kubernetes.log"))
	var err error
	if w.root, err = realnode.Root(ctx); err != nil {
		t.Fatal(err)
	}
	if w.tools, err = realnode.BuildTools(ctx, func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	w.control(ctx, t, control.Options{})
	before := w.settled(ctx, t)

	w.make(ctx, t, "package", "-registry", registry)
	w.play(ctx, t, installPage, "### With kubectl")
	w.takesImages(ctx, t)
	w.play(ctx, t, installPage, "### Remove without Helm")
	w.remain(ctx, t, before)

	w.platforms(ctx, t, before)
	if t.Failed() {
		return // the cluster is not in the initial state
	}
	const upgrade = " tenon dist/tenon-*.tgz --namespace tenon-system --reset-then-reuse-values"
	w.must(ctx, t, "helm install tenon dist/tenon-*.tgz --namespace tenon-system --create-namespace "+
		"--set agent.logLevel=1 --set image.registry="+registry) // the later chart is not of a registry
	w.runsVersion(ctx, t, older, false)
	w.next(ctx, t)
	w.must(ctx, t, "helm upgrade"+upgrade)
	w.runsVersion(ctx, t, newer, true)
	w.must(ctx, t, "helm rollback tenon --namespace tenon-system")
	w.runsVersion(ctx, t, older, false)
	w.must(ctx, t, "helm upgrade"+upgrade+" --set volcano.enabled=true")
	w.runsVersion(ctx, t, newer, true)
	_, err = w.client.AppsV1().Deployments("tenon-system").Get(ctx, "tenon-volcano-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
	}
	w.play(ctx, t, installPage, "### Remove with Helm")
	// No agent has written a layout, and no scheduler has held a lease.
	w.remain(ctx, t, before, without(kept, "NodeLayout ", "LayoutBase ", "Lease ")...)
	w.play(ctx, t, installPage, "### Remove the rest")
	w.remain(ctx, t, before)
}

// settled returns the objects of a new cluster once the controllers have made the standard objects of each namespace.
func (w *world) settled(ctx context.Context, t *testing.T) map[string]bool {
	t.Helper()
	var found map[string]bool
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (_ bool, err error) {
			if found, err = w.objects(ctx); err != nil {
				return false, err
			}
			// Of kube-system, objects leaves out the accounts.
			for _, namespace := range []string{v1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem} {
				account := namespace == metav1.NamespaceSystem || found["ServiceAccount "+namespace+"/default"]
				if !account || !found["ConfigMap "+namespace+"/kube-root-ca.crt"] {
					return false, nil
				}
			}
			return true, nil
		})
	if err != nil {
		t.Fatal("wait for what each namespace has: ", err)
	}
	return found
}

// runsVersion fails unless the agents and the scheduler are to run a version with its definition of NodeLayout, and all
// set values are kept.
func (w *world) runsVersion(ctx context.Context, t *testing.T, version string, next bool) {
	t.Helper()
	agents, err := w.client.AppsV1().DaemonSets("tenon-agents").Get(ctx, "tenon-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	schedulers, err := w.client.AppsV1().Deployments("tenon-system").Get(ctx, "tenon-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	agent := agents.Spec.Template.Spec.Containers[0]
	for _, image := range []string{agent.Image, schedulers.Spec.Template.Spec.Containers[0].Image} {
		if !strings.HasSuffix(image, ":"+version) {
			t.Errorf("image %s, want version %s", image, version)
		}
	}
	if !strings.Contains(strings.Join(agent.Args, " "), "-v=1") {
		t.Errorf("the agent's arguments are %q, want the log level that was set", agent.Args)
	}
	if got := w.served(ctx, t)["next"]; got != next {
		t.Errorf("version %s: the definition of NodeLayout has the property next: %v", version, got)
	}
}

// without returns the names that begin with none of some prefixes.
func without(names []string, prefixes ...string) (out []string) {
	for _, n := range names {
		drop := false
		for _, p := range prefixes {
			drop = drop || strings.HasPrefix(n, p)
		}
		if !drop {
			out = append(out, n)
		}
	}
	return out
}
