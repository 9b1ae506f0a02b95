package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// mapCluster implements the map command's cluster.
type mapCluster struct {
	cli.Cluster
	reader *kube.Reader
}

func (c mapCluster) Nodes(ctx context.Context) ([]*state.Node, []document.Problem, error) {
	nodes, problems, err := c.reader.Nodes(ctx)
	var out []document.Problem
	for _, p := range problems {
		out = append(out, document.Problem{Node: p.Node, Reason: p.Reason})
	}
	return nodes, out, err
}

// Pods returns none: misaligned pods are not compared here.
func (c mapCluster) Pods(context.Context, string) ([]view.Pod, error) { return nil, nil }

// kubectl runs a command of kubectl tenon.
func (w *world) kubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	var out, complaint strings.Builder
	code := cli.Run(ctx, args, &out, &complaint, cli.Setup{Connect: func(cli.Kubeconfig) (cli.Cluster, string, error) {
		return mapCluster{reader: w.reader(t)}, metav1.NamespaceDefault, nil
	}})
	if code != 0 {
		t.Fatalf("kubectl tenon %s: exit code %d: %s", strings.Join(args, " "), code, complaint.String())
	}
	return out.String()
}

func (w *world) picture(ctx context.Context, t *testing.T, node string) string {
	t.Helper()
	return w.kubectl(ctx, t, "map", node)
}

// mapDocument is the part of kubectl tenon map -o json that is compared.
type mapDocument struct{ Nodes []document.Node }

// allowed are the CPUs and NUMA nodes that a container may use.
type allowed struct {
	cpus idset.Set[idset.CPU]
	mems idset.Set[idset.NUMA]
}

func (a allowed) String() string { return fmt.Sprintf("CPUs %s mems %s", a.cpus, a.mems) }

// promised returns what the containers of a node may use according to the map, by POD/CONTAINER: their holdings, and
// otherwise the CPUs that are not held, and all memory. late are the pods whose holdings the node has not reported yet.
func (w *world) promised(ctx context.Context, t *testing.T, node string) (out map[string]allowed, late []string) {
	t.Helper()
	var doc mapDocument
	if err := json.Unmarshal([]byte(w.kubectl(ctx, t, "map", node, "-o", "json")), &doc); err != nil ||
		len(doc.Nodes) != 1 {
		t.Fatalf("map of node %s: %d nodes, %v", node, len(doc.Nodes), err)
	}
	n := doc.Nodes[0]
	rest := allowed{cpus: ids[idset.CPU](t, n.FreeCPUs).Union(ids[idset.CPU](t, n.Rules.ReservedCPUs))}
	for _, numa := range n.NUMAs {
		rest.mems = rest.mems.With(idset.NUMA(numa.ID))
	}
	out = map[string]allowed{}
	for name, p := range w.running(ctx, t, node) {
		for _, c := range p.Spec.Containers {
			out[name+"/"+c.Name] = rest
		}
		for _, c := range p.Spec.InitContainers {
			if c.RestartPolicy != nil { // a sidecar
				out[name+"/"+c.Name] = rest
			}
		}
	}
	for _, p := range n.Holdings {
		if p.Source != "observed" {
			late = append(late, "what pod "+p.Name+" holds is "+p.Source)
		}
		for _, h := range p.Containers {
			a, ok := out[p.Name+"/"+h.Name]
			if !ok {
				continue
			}
			if h.CPUs != "" {
				a.cpus = ids[idset.CPU](t, h.CPUs)
			}
			if len(h.Memory) > 0 {
				a.mems = idset.Set[idset.NUMA]{}
			}
			for _, b := range h.Memory {
				a.mems = a.mems.Union(ids[idset.NUMA](t, b.NUMAs))
			}
			out[p.Name+"/"+h.Name] = a
		}
	}
	return out, late
}

// ids reads a list of ids.
func ids[T idset.CPU | idset.NUMA](t *testing.T, list v1alpha1.IDList) idset.Set[T] {
	t.Helper()
	out, err := idset.Parse[T](string(list))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// running returns the pods that run on a node, by name.
func (w *world) running(ctx context.Context, t *testing.T, node string) map[string]*v1.Pod {
	t.Helper()
	list, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*v1.Pod{}
	for i, p := range list.Items {
		if p.Status.Phase == v1.PodRunning {
			out[p.Name] = &list.Items[i]
		}
	}
	return out
}

// kernel returns the kernel's data about the containers' processes on a node, by POD/CONTAINER.
func (w *world) kernel(ctx context.Context, t *testing.T, node string) map[string]realnode.Process {
	t.Helper()
	out, err := w.processes(ctx, t, node)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) processes(ctx context.Context, t *testing.T, node string) (map[string]realnode.Process, error) {
	t.Helper()
	processes, err := w.nodes[node].Processes(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]realnode.Process{}
	for name, p := range w.running(ctx, t, node) {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			id := strings.TrimPrefix(s.ContainerID, "containerd://")
			if i := slices.IndexFunc(processes, func(p realnode.Process) bool { return p.Container == id }); i >= 0 {
				out[name+"/"+s.Name] = processes[i]
			}
		}
	}
	return out, nil
}

// compare compares the kernel with the map. The kubelet takes CPUs away from containers without exclusive ones some
// seconds after it gave them to another, and a node reports a moment after it acts, so compare waits for both.
func (w *world) compare(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	var late []string
	err := wait.PollUntilContextTimeout(ctx, time.Second, 4*time.Minute, true, func(context.Context) (bool, error) {
		want, waits := w.promised(ctx, t, node)
		got, err := w.processes(ctx, t, node)
		if err != nil {
			return false, err
		}
		late = waits
		for _, c := range slices.Sorted(maps.Keys(want)) {
			if p, ok := got[c]; !ok {
				late = append(late, c+" has no process")
			} else if !p.CPUs.Equal(want[c].cpus) || !p.Mems.Equal(want[c].mems) {
				late = append(late, fmt.Sprintf("%s: the kernel allows %s, the map shows %s", c, allowed{p.CPUs, p.Mems}, want[c]))
			}
		}
		return len(late) == 0, nil
	})
	if err != nil {
		t.Errorf("node %s: %v: %s", node, err, strings.Join(late, "; "))
		return
	}
	got := w.kernel(ctx, t, node)
	for _, c := range slices.Sorted(maps.Keys(got)) {
		p := got[c]
		t.Logf("node %s: %s: %s, pages by NUMA node %v", node, c, allowed{p.CPUs, p.Mems}, p.Pages)
		for numa, n := range p.Pages {
			if n > 0 && !p.Mems.Has(numa) {
				t.Errorf("node %s: %s has %d pages on NUMA node %d, may use NUMA nodes %s", node, c, n, numa, p.Mems)
			}
		}
	}
}
