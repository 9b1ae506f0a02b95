package scheduler_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const lists = `
source made up: device plugins that announce unusual lists of NUMA nodes
numa 0 socket 0 cpus 0-15 memory 62Gi
numa 1 socket 1 cpus 16-31 memory 62Gi
distances 10 21
distances 21 10
device acme.com/empty e0,e1 numa 0
device acme.com/empty e2,e3 numa none list empty
device acme.com/sys s0,s1 numa none list negative
device acme.com/gone x0 numa none list unknown
`

const listsConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerScope: container
topologyManagerPolicy: `

// Plugins announce NUMA node -1, one that the machine lacks, or an empty list, which the kubelet's service does not
// list. A pod that the kubelet would refuse waits, and the scheduler reports why; a pod that it would admit runs.
func TestPluginsAnnounceUnusualLists(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes: []lab.Node{{Name: "strict", Machine: "strict"}, {Name: "loose", Machine: "loose"}},
		Machines: fstest.MapFS{
			"strict.txt": {Data: []byte(lists)}, "strict.yaml": {Data: []byte(listsConfig + "restricted")},
			"loose.txt": {Data: []byte(lists)}, "loose.yaml": {Data: []byte(listsConfig + "none")},
		},
	}, scheduler.Tenon)
	devices := func(n, resource string) workload.Amounts { return workload.Amounts{v1.ResourceName(resource): n} }

	w.create(ctx, t, burst("sys", "strict", devices("1", "acme.com/sys"), nil),
		burst("gone", "strict", devices("1", "acme.com/gone"), nil),
		burst("three", "strict", devices("3", "acme.com/empty"), nil))
	for name, why := range map[string]string{
		"sys": "never on this machine: container \"c\" wants 1 acme.com/sys; it has 0 with a NUMA node, and the kubelet " +
			"aligns none of the 2 without one",
		"gone": "wants 1 acme.com/gone; it has 0 with a NUMA node, and the kubelet aligns none of the 1 without one",
		"three": "wants 3 acme.com/empty; it has 2 with a NUMA node, and the kubelet aligns none of the 2 without " +
			"one",
	} {
		_, got := w.await(ctx, t, name, workload.Pending)
		contains(t, "pod "+name, got, why)
	}
	// Without a topology policy the kubelet gives out all of them.
	for _, p := range []*v1.Pod{burst("sys-2", "loose", devices("2", "acme.com/sys"), nil),
		burst("gone-1", "loose", devices("1", "acme.com/gone"), nil),
		burst("empty-3", "loose", devices("3", "acme.com/empty"), nil),
		burst("empty-1", "loose", devices("1", "acme.com/empty"), nil),
		burst("empty-2", "strict", devices("2", "acme.com/empty"), nil)} {
		w.runs(ctx, t, p)
		w.await(ctx, t, p.Name, workload.Running)
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}
