package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const pinnedMachine = `
source made up: a GPU on the second of two NUMA nodes
numa 0 socket 0 cpus 0-15 memory 32Gi
numa 1 socket 1 cpus 16-31 memory 32Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g1 numa 1
`

// Container scope: the containers of a pod may be on different NUMA nodes, each on one.
const pinnedConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
systemReserved: {memory: 924Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi}}
`

// Where the agent decides, every container is pinned to exactly what the scheduler has booked, whatever the pod is made
// of, and still is after the agent was away.
func TestContainersArePinnedAsBooked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "own", Machine: "pinned", Pinned: true}},
		Machines: fstest.MapFS{"pinned.txt": {Data: []byte(pinnedMachine)}, "pinned.yaml": {Data: []byte(pinnedConfig)}},
	}, scheduler.Tenon)
	always := v1.ContainerRestartPolicyAlways
	six := workload.Amounts{"cpu": "6", "memory": "4Gi"}
	two := workload.Amounts{"cpu": "2", "memory": "1Gi"}
	wide := workload.Pod("two-containers", workload.Guaranteed("a", six), workload.Guaranteed("b", six))
	helped := workload.Pod("helped", workload.Guaranteed("main", two))
	helped.Spec.InitContainers = []v1.Container{workload.Guaranteed("prepare", six), workload.Guaranteed("proxy", two)}
	helped.Spec.InitContainers[1].RestartPolicy = &always
	shares := workload.Pod("shares", workload.Burstable("c", workload.Amounts{"cpu": "100m", "memory": "64Mi"}, nil))
	gpu := workload.Pod("gpu", workload.Guaranteed("c",
		workload.Amounts{"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}))

	// The agent places a pod with devices when the kubelet has chosen them, and may give it CPUs that the scheduler
	// decides at that moment for another: that one gets others, with an event. So the pod with the GPU comes last.
	for _, together := range [][]*v1.Pod{{wide, helped, shares}, {gpu}} {
		w.runs(ctx, t, together...)
		for _, p := range together {
			w.await(ctx, t, p.Name, workload.Running)
		}
	}
	w.pinnedAsBooked(ctx, t, 3)

	if err := w.StopAgent(ctx, "own"); err != nil {
		t.Fatal(err)
	}
	late := workload.Pod("late", workload.Guaranteed("c", two))
	w.runs(ctx, t, late)
	w.await(ctx, t, "late", workload.Running)
	if err := w.StartAgent(ctx, "own"); err != nil {
		t.Fatal(err)
	}
	w.pinnedAsBooked(ctx, t, 4)
	w.ends(ctx, t, "two-containers")
	w.runs(ctx, t, workload.Pod("again", workload.Guaranteed("a", six), workload.Guaranteed("b", six)))
	w.await(ctx, t, "again", workload.Running)
	w.pinnedAsBooked(ctx, t, 4)
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}

// Where the agent decides, small pods that have to be apart are pinned to different NUMA nodes of one node, and pods
// that have to be together to one.
func TestRelatedPodsArePinned(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "own", Machine: "pinned", Pinned: true}},
		Machines: fstest.MapFS{"pinned.txt": {Data: []byte(pinnedMachine)}, "pinned.yaml": {Data: []byte(pinnedConfig)}},
	}, scheduler.Tenon)
	uids := map[string]string{}
	for _, name := range []string{"rank-0", "rank-1", "server", "worker", "rank-2"} {
		p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": "4", "memory": "1Gi"}))
		p.Annotations = map[string]string{pod.TogetherAnnotation: "pair"}
		if strings.HasPrefix(name, "rank") {
			p.Annotations = map[string]string{pod.ApartAnnotation: "ranks"}
		}
		w.create(ctx, t, p)
		if name == "rank-2" {
			w.says(ctx, t, name, "apart from pods on NUMA node")
			continue
		}
		bound, _ := w.await(ctx, t, name, workload.Running)
		uids[name] = string(bound.UID)
	}
	w.pinnedAsBooked(ctx, t, 4)
	sets := w.cpusets(t)
	on := func(name string) string { return sets[uids[name]+"/c"].Mems }
	if on("rank-0") == on("rank-1") || on("server") != on("worker") || on("server") == "" {
		t.Errorf("the ranks are on NUMA nodes %s and %s, the pair on %s and %s", on("rank-0"), on("rank-1"), on("server"),
			on("worker"))
	}
}

// cpusets returns what the runtime has of containers that run, by "UID/CONTAINER".
func (w *world) cpusets(t *testing.T) map[string]kubelet.CPUSet {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.NodeDir("own"), kubelet.CPUSetsFile))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]kubelet.CPUSet{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pinnedAsBooked waits until the node has reported some pods with CPUs of their own. It compares the scheduler's
// decision on the pod, the node's report, and the pins that the runtime received.
func (w *world) pinnedAsBooked(ctx context.Context, t *testing.T, exclusive int) {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var l *v1alpha1.NodeLayout
	faults := ""
	err = wait.PollUntilContextTimeout(ctx, tick, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		if l, err = layouts.Get(ctx, "own", metav1.GetOptions{}); err != nil {
			return false, err
		}
		faults = w.compare(t, l, exclusive)
		return faults == "", nil
	})
	if err != nil {
		t.Fatalf("the node does not become as it was booked:\n%s%v", faults, err)
	}
	if l.Rules.Arbiter != "agent" || len(l.Inexact) > 0 {
		t.Errorf("arbiter %q, warnings %v", l.Rules.Arbiter, l.Inexact)
	}
}

// compare returns a line for each difference.
func (w *world) compare(t *testing.T, l *v1alpha1.NodeLayout, exclusive int) (faults string) {
	t.Helper()
	core, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	m, sets := core.Machine, w.cpusets(t)
	shared := m.CPUs()
	reported := map[string][]place.Holding{}
	for _, e := range core.Entries {
		reported[e.Pod.UID] = e.Holdings
		for _, h := range e.Holdings {
			shared = shared.Minus(h.CPUs)
		}
	}
	if len(reported) != exclusive {
		faults += fmt.Sprintf("%d pods are reported, want %d\n", len(reported), exclusive)
	}
	pods, _ := w.pods.Pods()
	for _, p := range pods {
		uid := string(p.UID)
		got, want := pinText(m, reported[uid]), booked(t, m, p)
		switch p.Name {
		case "shares":
			if set := (kubelet.CPUSet{CPUs: shared.String(), Mems: "0-1"}); sets[uid+"/c"] != set {
				faults += fmt.Sprintf("who shares is pinned to %v, want %v\n", sets[uid+"/c"], set)
			}
		case "gpu": // the scheduler leaves it to the agent, which follows the device
			if !strings.HasPrefix(got, "c: ") || !strings.HasSuffix(got, " on 1;") {
				faults += "the pod with the GPU of NUMA node 1 has " + got + "\n"
			}
		default:
			if got != want {
				faults += fmt.Sprintf("%s: booked %s, reported %s\n", p.Name, want, got)
			}
		}
		for _, h := range reported[uid] {
			set, runs := sets[uid+"/"+h.Container]
			if text := fmt.Sprintf("%s: %s on %s;", h.Container, set.CPUs, set.Mems); runs && !strings.Contains(got, text) {
				faults += fmt.Sprintf("%s: pinned to %s reported %s\n", p.Name, text, got)
			}
		}
	}
	return faults
}

// booked returns what the scheduler wrote with a pod, as pinText does.
func booked(t *testing.T, m *topo.Machine, p *v1.Pod) string {
	t.Helper()
	text := p.Annotations[v1alpha1.DecisionAnnotation]
	if text == "" {
		return ""
	}
	hs, err := v1alpha1.ParseDecision(text, m, string(p.UID), "own")
	if err != nil {
		t.Fatal(err)
	}
	return pinText(m, hs)
}

// pinText returns "CONTAINER: CPUS on NUMA-NODES;" of each container.
func pinText(m *topo.Machine, hs []place.Holding) (out string) {
	for _, h := range hs {
		var numas topo.Mask
		for _, b := range h.Memory {
			numas |= b.NUMAs
		}
		out += fmt.Sprintf("%s: %s on %s;", h.Container, h.CPUs, idset.Of(m.IDs(numas)...))
	}
	return out
}
