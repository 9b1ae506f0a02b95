package scheduler_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

var mixed = flag.String("mixed.releases", "",
	"releases of the kubelets in TestMixedReleases besides the linked one, such as 1.34,1.36 (built from source)")

// fleet are the machines of a cluster with kubelets of several releases: each release gets one of each.
var fleet = []string{"xeon-snc2", "epyc-nps4", "gpu-8"}

// A cluster in the middle of an upgrade: kubelets of several releases under one scheduler. No pod is refused and no
// prediction is wrong, neither in a storm nor while each node in turn is drained and gets the newest kubelet. Without
// -mixed.releases all kubelets are of the linked release, and are replaced by the same.
func TestMixedReleases(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	w := startMixed(ctx, t)
	for round := range 3 {
		w.storm(ctx, t, uint64(round+1), fmt.Sprintf("storm%d-", round))
	}
	w.seen.check(t)

	churn := w.churn(ctx, t)
	for _, n := range w.Nodes {
		if n.Release != "" || *mixed == "" {
			churn.more(ctx, t, 5)
			w.upgrade(ctx, t, n)
		}
	}
	churn.stop(t)
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}

// startMixed starts a cluster with a fleet of each release. One pod on each node stays there, as a DaemonSet's would.
func startMixed(ctx context.Context, t *testing.T) *world {
	t.Helper()
	list := []string{releases.Own()}
	if *mixed != "" {
		list = append(strings.Split(*mixed, ","), list...)
	}
	cfg := lab.Config{Apart: true}
	for _, r := range list {
		for _, m := range fleet {
			n := lab.Node{Name: m + "-" + strings.ReplaceAll(r, ".", "-"), Machine: m, Release: r}
			if r == releases.Own() {
				n.Release = ""
			}
			cfg.Nodes = append(cfg.Nodes, n)
		}
	}
	var err error
	cfg.Programs, err = releases.Programs(ctx, func(line string) { t.Log(line) }, lab.Releases(cfg.Nodes)...)
	if err != nil {
		t.Fatal(err)
	}
	w := start(ctx, t, cfg, scheduler.Tenon)
	for _, n := range w.Nodes {
		w.place(ctx, t, "daemon-"+n.Name, n.Name)
	}
	return w
}

// place puts a pod that asks for nothing on a node, and waits until it runs.
func (w *world) place(ctx context.Context, t *testing.T, name, node string) {
	t.Helper()
	p := workload.Pod(name, v1.Container{Name: "c", Image: "example.com/daemon:v1"})
	p.Spec.NodeName, p.Namespace = node, metav1.NamespaceSystem
	if err := workload.Create(ctx, w.client, p); err != nil {
		t.Fatal(err)
	}
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == name && p.Status.Phase == v1.PodRunning })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// storm creates 200 random pods at once, and removes them when each runs or waits.
func (w *world) storm(ctx context.Context, t *testing.T, seed uint64, prefix string) {
	t.Helper()
	const size = 200
	if err := workload.Create(ctx, w.client, workload.Mix(seed, prefix, size)...); err != nil {
		t.Fatal(err)
	}
	seen, err := w.pods.Until(ctx, workload.Settled(size+len(w.Nodes)))
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for _, p := range seen {
		if f, _ := workload.FateOf(p); f == workload.Running {
			on[w.releaseOf(p.Spec.NodeName)]++
		}
	}
	t.Logf("seed %d: %s; running by release: %v", seed, workload.Count(seen), on)
	noRefusal(t, seen)
	none := metav1.ListOptions{}
	err = w.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, none)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool { return len(pods) == len(w.Nodes) }); err != nil {
		t.Fatal(err)
	}
}

func (w *world) releaseOf(node string) string {
	for _, n := range w.Nodes {
		if n.Name == node && n.Release != "" {
			return n.Release
		}
	}
	return releases.Own()
}

// churning creates and deletes pods until it is stopped.
type churning struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	came   chan struct{} // receives a value for each pod
	made   int
	err    error
}

// churn keeps some sixty pods in the cluster: for each new one the oldest is deleted.
func (w *world) churn(ctx context.Context, t *testing.T) *churning {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c := &churning{cancel: cancel, came: make(chan struct{})}
	c.done.Go(func() {
		var alive []string
		for round := uint64(100); ctx.Err() == nil && c.err == nil; round++ {
			for _, p := range workload.Mix(round, fmt.Sprintf("churn%d-", round), 20) {
				if c.err = w.replace(ctx, p, &alive); c.err != nil {
					break
				}
				c.made++
				select {
				case c.came <- struct{}{}:
				default:
				}
			}
		}
	})
	return c
}

// replace creates a pod, waits until it runs or waits for room, and deletes the oldest if there are many.
func (w *world) replace(ctx context.Context, p *v1.Pod, alive *[]string) error {
	if err := workload.Create(ctx, w.client, p); err != nil {
		return err
	}
	*alive = append(*alive, p.Name)
	known := false
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		at := slices.IndexFunc(pods, func(other *v1.Pod) bool { return other.Name == p.Name })
		if at < 0 {
			return known // a drain has deleted it
		}
		known = true
		f, _ := workload.FateOf(pods[at])
		return f != workload.Waiting
	})
	if err != nil || len(*alive) < 60 {
		return err
	}
	oldest := (*alive)[0]
	*alive = (*alive)[1:]
	err = w.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, oldest, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) { // drained
		return nil
	}
	return err
}

// more waits until so many more pods have come.
func (c *churning) more(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-c.came:
		case <-ctx.Done():
			t.Fatalf("no pods come and go: %v", c.err)
		}
	}
}

func (c *churning) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	c.done.Wait()
	t.Logf("%d pods came and went during the upgrades", c.made)
	if c.err != nil && context.Cause(t.Context()) == nil && !strings.Contains(c.err.Error(), context.Canceled.Error()) {
		t.Error(c.err)
	}
	if c.made == 0 {
		t.Error("no pod came while nodes were upgraded")
	}
}

// upgrade drains a node, gives it the linked kubelet, and uncordons it once its report has the new release.
func (w *world) upgrade(ctx context.Context, t *testing.T, n lab.Node) {
	t.Helper()
	w.cordon(ctx, t, n.Name, true)
	for _, p := range w.on(n.Name) {
		err := w.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if _, err := w.pods.Until(ctx, func([]*v1.Pod) bool { return len(w.on(n.Name)) == 0 }); err != nil {
		t.Fatalf("drain node %s: %v", n.Name, err)
	}
	if err := w.ChangeRelease(ctx, n.Name, ""); err != nil {
		t.Fatal(err)
	}
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	own := "v" + releases.Own() + "."
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		l, err := layouts.Get(ctx, n.Name, metav1.GetOptions{})
		return err == nil && strings.HasPrefix(l.Kubelet.Version, own) && w.ready(ctx, n.Name, own), w.NodeErr(n.Name)
	})
	if err != nil {
		t.Fatalf("node %s does not come back as %s*: %v", n.Name, own, err)
	}
	// Until a kubelet has admitted its first pod, what its files say of gone pods counts (docs/design/kubelet.md).
	w.place(ctx, t, "first-"+n.Name, n.Name)
	w.cordon(ctx, t, n.Name, false)
	t.Logf("node %s has a kubelet of %s", n.Name, releases.Own())
}

// on lists the pods of a node that an upgrade moves.
func (w *world) on(node string) (out []*v1.Pod) {
	pods, _ := w.pods.Pods()
	for _, p := range pods {
		if p.Spec.NodeName == node && p.Namespace != metav1.NamespaceSystem {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) cordon(ctx context.Context, t *testing.T, node string, on bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
	_, err := w.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// ready reports whether a node is ready with a kubelet of a release, and has its devices.
func (w *world) ready(ctx context.Context, node, release string) bool {
	n, err := w.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(n.Status.NodeInfo.KubeletVersion, release) {
		return false
	}
	m, err := machines.Load(w.machineOf(node))
	if err != nil {
		return false
	}
	for _, r := range m.Topo.Resources() {
		if q := n.Status.Allocatable[v1.ResourceName(r.Name)]; q.IsZero() {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

func (w *world) machineOf(node string) string {
	return w.Nodes[slices.IndexFunc(w.Nodes, func(n lab.Node) bool { return n.Name == node })].Machine
}
