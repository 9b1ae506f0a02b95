package plugin

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	nodeinfo "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware"

	"github.com/tenon-numa/tenon/core/place"
)

var (
	costNodes = flag.Int("nodes", 1000, "nodes of BenchmarkSession")
	costTasks = flag.Int("tasks", 5000, "its tasks")
)

// BenchmarkSession measures a session that allocates all tasks, first with Volcano's own numa-aware,
// then with tenon, on a cluster of its own each. The metric tenon/numa-aware is the ratio of the times. The nodes are
// described to both: by Numatopology, and by layouts.
func BenchmarkSession(b *testing.B) {
	var total [2]time.Duration
	for b.Loop() {
		for i, plugin := range []string{numaaware.PluginName, Name} {
			took, bound := sessionOf(b, plugin)
			b.Logf("%s: %v", plugin, took)
			if total[i] += took; bound != *costTasks {
				b.Fatalf("%s has allocated %d of %d tasks", plugin, bound, *costTasks)
			}
		}
	}
	b.ReportMetric(total[0].Seconds()/float64(b.N), "s/numa-aware")
	b.ReportMetric(total[1].Seconds()/float64(b.N), "s/tenon")
	b.ReportMetric(total[1].Seconds()/total[0].Seconds(), "tenon/numa-aware")
}

// sessionOf measures the first session of a cluster, and counts the tasks that it allocates.
func sessionOf(b *testing.B, plugin string) (took time.Duration, bound int) {
	c := newCluster(b)
	c.cache.Recorder = &record.FakeRecorder{} // without room for events, it drops them
	c.plugin, c.arguments = plugin, framework.Arguments{"weight": 10}
	for i := range *costNodes {
		name := fmt.Sprintf("node-%04d", i)
		c.node(name, two, place.SingleNUMA)
		c.idleNumatopology(name)
	}
	for i, tasks := 0, 0; tasks < *costTasks; i++ {
		gang := min([]int{1, 2, 4, 8}[i%4], *costTasks-tasks)
		amounts := fmt.Sprintf("cpu=%d x%d", []int{2, 4, 8}[i%3], gang)
		c.job(fmt.Sprintf("job-%04d", i), "default", int32(gang), amounts,
			annotated("volcano.sh/numa-topology-policy", "single-numa-node"))
		tasks += gang
	}
	allocate, ok := framework.GetAction("allocate")
	if !ok {
		b.Fatal("Volcano has no action allocate")
	}
	conf.EnabledActionMap = map[string]bool{"allocate": true}
	began := time.Now()
	ssn := framework.OpenSession(c.cache, c.tiers(), nil)
	allocate.Execute(ssn)
	for _, job := range ssn.Jobs {
		bound += len(job.TaskStatusIndex[api.Binding])
	}
	framework.CloseSession(ssn)
	return time.Since(began), bound
}

// idleNumatopology describes an idle node as Volcano's exporter does.
func (c *cluster) idleNumatopology(node string) {
	m := c.sched.Sources().Book.Snapshot().Node(node).Machine
	cpus := nodeinfo.ResourceInfo{Allocatable: m.CPUs().String(), Capacity: m.CPUs().Len()}
	t := &nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: nodeinfo.NumatopoSpec{
		Policies: map[nodeinfo.PolicyName]string{nodeinfo.CPUManagerPolicy: "static",
			nodeinfo.TopologyManagerPolicy: "single-numa-node"},
		NumaResMap: map[string]nodeinfo.ResourceInfo{"cpu": cpus}, CPUDetail: map[string]nodeinfo.CPUInfo{}}}
	for id := range m.CPUs().All() {
		at, _ := m.CPU(id)
		t.Spec.CPUDetail[strconv.Itoa(int(id))] = nodeinfo.CPUInfo{NUMANodeID: int(m.NUMAs()[at.NUMA].ID),
			SocketID: int(at.Socket), CoreID: int(at.Core)}
	}
	c.cache.AddNumaInfoV1alpha1(t)
}
