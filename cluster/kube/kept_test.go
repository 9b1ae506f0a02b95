package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
)

// staged returns a pod whose init container requests 6 CPUs and 12Gi, and the other 2 CPUs and 2Gi.
func staged(name string) *v1.Pod {
	p := bind(podtest.Pod(name, podtest.Exact("c", "cpu=2 memory=2Gi")), "n", noon)
	p.Spec.InitContainers = []v1.Container{podtest.Exact("i", "cpu=6 memory=12Gi")}
	return p
}

// running returns the pod as its kubelet reports it once its container runs.
func running(p *v1.Pod) *v1.Pod {
	p = start(p)
	p.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}
	return p
}

// withMemory adds 16Gi of memory to every NUMA node, with these amounts free.
func withMemory(o *v1alpha2.NodeResourceTopology, free ...string) *v1alpha2.NodeResourceTopology {
	for i := range o.Zones {
		all := resource.MustParse("16Gi")
		o.Zones[i].Resources = append(o.Zones[i].Resources, v1alpha2.ResourceInfo{Name: "memory",
			Capacity: all, Allocatable: all, Available: resource.MustParse(free[i])})
	}
	return o
}

func freeGiB(b *ledger.Book, node string) (out []int64) {
	n := b.Snapshot().Node(node)
	for i := range n.Machine.NUMAs() {
		out = append(out, n.Usage.FreeMemory(i, topo.Memory)>>30)
	}
	return out
}

// Exporters report the holdings of the other container. What the init container leaves is nevertheless not free,
// whether the pod was bound before the feed began, by this scheduler, or by another one.
func TestInitContainersThatNoTopologyShows(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(f *Feed)
		cpus  string
	}{
		"there before": {func(f *Feed) {
			f.Pod(start(staged("p")))
			f.Begin()
		}, "coarse free 2 8 somebody=2(counted) p=4(counted)"},
		"foreign": {func(f *Feed) {
			f.Begin()
			f.Topology(signed(withMemory(topologyOf("n", 1, 8, 8), "16Gi", "16Gi")))
			f.Pod(start(staged("p")))
		}, "coarse free 2 8 p=8(counted)"},
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			f := NewFeed(book, nil, nil)
			var freed []string
			f.OnFreed(func(node string) { freed = append(freed, node) })
			f.later = func(d time.Duration, do func()) {
				if d == 0 {
					do()
				}
			}
			c.begin(f)
			f.Topology(signed(withMemory(topologyOf("n", 2, 6, 8), "14Gi", "16Gi"), "p"))
			wantAmounts(t, book, "n", c.cpus)
			if got := freeGiB(book, "n"); !slices.Equal(got, []int64{4, 16}) {
				t.Errorf("%v GiB are free while the init container runs", got)
			}
			f.Pod(running(staged("p")))
			f.Pod(running(staged("p")))
			if got := freeGiB(book, "n"); !slices.Equal(got, []int64{14, 16}) || !slices.Equal(freed, []string{"n"}) {
				t.Errorf("%v GiB are free when it is over; told of %v", got, freed)
			}
			wantAmounts(t, book, "n", c.cpus)
			f.Topology(signed(withMemory(topologyOf("n", 3, 6, 8), "14Gi", "16Gi"), "p"))
			f.PodGone(running(staged("p")))
			f.Topology(signed(withMemory(topologyOf("n", 4, 8, 8), "16Gi", "16Gi")))
			wantAmounts(t, book, "n", "coarse free 8 8")
		})
	}
}

// A koordlet lists the pods that hold CPUs, init containers included: nothing is guessed, and no pod that holds CPUs is
// missed.
func TestAKoordletListsPodsThatHoldCPUs(t *testing.T) {
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	f.Pod(start(staged("p")))
	f.Pod(start(cpus("q", 3)))
	f.Begin()
	object := func(version int, allocs string) *v1alpha2.NodeResourceTopology {
		o := topologyOf("n", version, 8, 8)
		var detail []string
		for i := range 16 {
			detail = append(detail, fmt.Sprintf(`{"id":%d,"node":%d}`, i, i/8))
		}
		o.Labels = map[string]string{"app.kubernetes.io/managed-by": "Koordinator"}
		o.Annotations = map[string]string{"kubelet.koordinator.sh/cpu-manager-policy": `{"policy":"static"}`,
			"node.koordinator.sh/cpu-topology":   `{"detail":[` + strings.Join(detail, ",") + `]}`,
			"node.koordinator.sh/pod-cpu-allocs": allocs}
		typed, err := nrt.Typed(o)
		if err != nil {
			t.Fatal(err)
		}
		return typed.(*v1alpha2.NodeResourceTopology)
	}
	f.Topology(object(1, `[{"uid":"uid-p","cpuset":"0-5"},{"uid":"uid-q","cpuset":"8-10"}]`))
	wantAmounts(t, book, "n", "coarse free 2 5 somebody=9(counted)")
	f.Pod(cpus("late", 4))
	wantAmounts(t, book, "n", "coarse free 2 1 somebody=9(counted) late=4(predicted)")
	f.Topology(object(2, `[{"uid":"uid-p","cpuset":"0-5"},{"uid":"uid-q","cpuset":"8-10"},`+
		`{"uid":"uid-late","cpuset":"11-14"}]`))
	wantAmounts(t, book, "n", "coarse free 2 1 late=4(counted) somebody=9(counted)")
}
