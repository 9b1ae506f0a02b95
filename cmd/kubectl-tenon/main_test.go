package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	os.Exit(m.Run())
}

const machine = `
source made up: two numas of 14 CPUs for pods each
numa 0 socket 0 cpus 0-15 memory 32Gi
numa 1 socket 1 cpus 16-31 memory 32Gi
device acme.com/nic n0,n1 numa 0
device acme.com/nic n2,n3 numa 1
`

const config = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,16-17
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 2Gi}}
- {numaNode: 1, limits: {memory: 2Gi}}
`

// One cluster serves all tests: two machines, one pod that runs on each and one that fits none.
func TestTheCommandsAgreeWithTheCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := begin(ctx, t)
	t.Run("map", func(t *testing.T) { mapSays(ctx, t, c) })
	t.Run("explain a pod that runs", func(t *testing.T) { explainRunning(ctx, t, c) })
	t.Run("explain a pod that waits", func(t *testing.T) { explainPending(ctx, t, c) })
	t.Run("explain a pod that is not there", func(t *testing.T) {
		_, stderr, code := run(ctx, c, "explain", "pod", "nobody")
		if code != cli.ExitError || !strings.HasPrefix(stderr, `Error from server (NotFound): pods "nobody" not found`) {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	})
	t.Run("kubectl get nodelayouts", func(t *testing.T) { columns(ctx, t, c) })
	t.Run("bundle", func(t *testing.T) { bundled(ctx, t, c) })
	t.Run("simulate", func(t *testing.T) { simulates(ctx, t, c) })
}

func begin(ctx context.Context, t *testing.T) *lab.Cluster {
	c, err := lab.Start(ctx, lab.Config{
		Nodes:    []lab.Node{{Name: "a", Machine: "pair"}, {Name: "b", Machine: "pair"}},
		Machines: fstest.MapFS{"pair.txt": {Data: []byte(machine)}, "pair.yaml": {Data: []byte(config)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	s, err := scheduler.Start(c.Dir, c.SchedulerKubeconfig, scheduler.Tenon, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	watch, err := workload.Follow(ctx, user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	pods := []*v1.Pod{
		workload.Pod("run-1", workload.Guaranteed("c", workload.Amounts{"cpu": "10", "memory": "4Gi", "acme.com/nic": "2"})),
		workload.Pod("run-2", workload.Guaranteed("c", workload.Amounts{"cpu": "8", "memory": "4Gi"})),
		workload.Pod("wait", workload.Guaranteed("c", workload.Amounts{"cpu": "15", "memory": "4Gi"})),
	}
	if err := workload.Create(ctx, user, pods...); err != nil {
		t.Fatal(err)
	}
	seen, err := watch.Until(ctx, workload.Settled(len(pods)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seen {
		f, why := workload.FateOf(p)
		if want := map[bool]workload.Fate{true: workload.Pending, false: workload.Running}[p.Name == "wait"]; f != want {
			t.Fatalf("pod %s is %s (%s), want %s", p.Name, f, why, want)
		}
	}
	reported(ctx, t, c, 2)
	return c
}

// reported waits until the nodes report this many pods.
func reported(ctx context.Context, t *testing.T, c *lab.Cluster, pods int) {
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := layouts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		n := 0
		for _, l := range list.Items {
			n += len(l.Holdings)
		}
		return n == pods, nil
	})
	if err != nil {
		t.Fatalf("the nodes do not report %d pods: %v", pods, err)
	}
}

// run runs a command line against the cluster's kubeconfig file, as a user does.
func run(ctx context.Context, c *lab.Cluster, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = cli.Run(ctx, append(args, "--kubeconfig", c.KubeconfigPath), &out, &errs, setup("test"))
	return out.String(), errs.String(), code
}

// ok runs a command line that must succeed.
func ok(ctx context.Context, t *testing.T, c *lab.Cluster, args ...string) string {
	t.Helper()
	stdout, stderr, code := run(ctx, c, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// grant has what the kubelets' podresources API reports for a pod: its node, CPUs and devices.
type grant struct {
	node, cpus string
	devices    []string
}

func grants(ctx context.Context, t *testing.T, c *lab.Cluster) map[string]grant {
	t.Helper()
	out := map[string]grant{}
	for _, n := range c.Nodes {
		conn, err := grpc.NewClient("unix://"+filepath.Join(c.NodeDir(n.Name), "pod-resources", "kubelet.sock"),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.PodResources {
			g := grant{node: n.Name}
			for _, held := range p.Containers {
				var ids []idset.CPU
				for _, id := range held.CpuIds {
					ids = append(ids, idset.CPU(id))
				}
				g.cpus = idset.Of(ids...).String()
				for _, d := range held.Devices {
					g.devices = append(g.devices, d.DeviceIds...)
				}
			}
			slices.Sort(g.devices)
			out[p.Name] = g
		}
	}
	return out
}

// mapDocument is the part of "map -o json" that the test checks.
type mapDocument struct {
	Nodes    []document.Node
	NotDrawn []document.Problem
}

func mapSays(ctx context.Context, t *testing.T, c *lab.Cluster) {
	var doc mapDocument
	if err := json.Unmarshal([]byte(ok(ctx, t, c, "map", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	want := grants(ctx, t, c)
	seen := 0
	for _, n := range doc.Nodes {
		free := idset.Of[idset.CPU](2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
			28, 29, 30, 31)
		for _, e := range n.Holdings {
			seen++
			g, h := want[e.Name], e.Containers[0]
			var devices []string
			for _, d := range h.Devices {
				devices = append(devices, d.IDs...)
			}
			if e.Source != "observed" || n.Name != g.node || string(h.CPUs) != g.cpus || !slices.Equal(devices, g.devices) {
				t.Errorf("map says that pod %s has CPUs %s and devices %v on node %s (%s), its kubelet says %v",
					e.Name, h.CPUs, devices, n.Name, e.Source, g)
			}
			held, err := idset.Parse[idset.CPU](g.cpus)
			if err != nil {
				t.Fatal(err)
			}
			free = free.Minus(held)
		}
		if string(n.FreeCPUs) != free.String() {
			t.Errorf("map says that CPUs %s of node %s are free, want %s", n.FreeCPUs, n.Name, free)
		}
	}
	if len(doc.Nodes) != 2 || seen != 2 || len(doc.NotDrawn) != 0 {
		t.Errorf("map has %d nodes, %d pods, and does not draw %v", len(doc.Nodes), seen, doc.NotDrawn)
	}
	text := ok(ctx, t, c, "map")
	for _, w := range []string{"run-1", "run-2", "acme.com/nic", "single-numa-node"} {
		if !strings.Contains(text, w) {
			t.Errorf("map does not say %s:\n%s", w, text)
		}
	}
	checkWidth(t, text)
}

func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
}

func explainRunning(ctx context.Context, t *testing.T, c *lab.Cluster) {
	g := grants(ctx, t, c)["run-1"]
	text := ok(ctx, t, c, "explain", "pod", "run-1")
	for _, w := range []string{"Pod default/run-1 (Guaranteed) is running on node " + g.node, "It holds (observed",
		g.cpus, g.devices[0], g.devices[1], "Together that is on NUMA node "} {
		if !strings.Contains(text, w) {
			t.Errorf("explain does not say %q:\n%s", w, text)
		}
	}
	checkWidth(t, text)
}

func explainPending(ctx context.Context, t *testing.T, c *lab.Cluster) {
	text := ok(ctx, t, c, "explain", "pod", "default/wait")
	flat := words(text)
	for _, w := range []string{"Pod default/wait (Guaranteed) waits for a node",
		`Never here: container "c" wants 15 cpu on one NUMA node; the largest has 14 (node `,
		"Scheduler default-scheduler has found no node for it since", "Never (TopologyAffinityError) on ",
		`0/2 nodes are available: Never here: container "c" wants 15 cpu`, `By node: 2 never on this machine: container "c" wants 15 cpu on one NUMA node; the largest has 14`,
		"Remedy: ask for at most 14 cpu, or use a node whose policy allows more NUMA nodes"} {
		if !strings.Contains(flat, w) {
			t.Errorf("explain does not say %q:\n%s", w, text)
		}
	}
	checkWidth(t, text)
	var doc struct {
		Verdicts []struct {
			Node    string
			Fits    bool
			Reasons []struct {
				Code, Resource string
				Want, Have     int64
			}
		}
	}
	if err := json.Unmarshal([]byte(ok(ctx, t, c, "explain", "pod", "wait", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	for _, v := range doc.Verdicts {
		if v.Fits || len(v.Reasons) != 1 || v.Reasons[0].Code != "one-numa" || v.Reasons[0].Want != 15 ||
			v.Reasons[0].Have > 14 {
			t.Errorf("verdict of node %s: %+v", v.Node, v)
		}
	}
	if len(doc.Verdicts) != 2 {
		t.Errorf("%d verdicts, want 2", len(doc.Verdicts))
	}
}

// columns reads the table that the API server makes for kubectl.
func columns(ctx context.Context, t *testing.T, c *lab.Cluster) {
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	body, err := user.RESTClient().Get().AbsPath("/apis/tenon.sh/v1alpha1/nodelayouts").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, col := range table.ColumnDefinitions {
		names = append(names, col.Name)
	}
	want := []string{"Name", "Policy", "Scope", "NUMAs", "CPUs", "Free", "Largest NUMA Free", "Pods", "Accepted",
		"Exact", "Age"}
	if !slices.Equal(names, want) {
		t.Fatalf("columns %v, want %v", names, want)
	}
	for i, row := range table.Rows {
		text, err := json.Marshal(row.Cells)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`^\["` + c.Nodes[i].Name + `","single-numa-node","container",2,32,(10|18|20|28),(6|14),[012],` +
			`(null|"True"),(null|"True"|"False"),"[0-9]+s"\]$`)
		if !want.Match(text) {
			t.Errorf("row %s, want %s", text, want)
		}
	}
	if len(table.Rows) != 2 {
		t.Errorf("%d rows, want 2", len(table.Rows))
	}
}
