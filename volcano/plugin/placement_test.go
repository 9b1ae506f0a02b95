package plugin

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// machine describes NUMA nodes of so many CPUs each.
func machine(cpus ...int) (out string) {
	first := 0
	for i, n := range cpus {
		out += fmt.Sprintf("numa %d socket %d cpus %d-%d memory 64Gi\n", i, i, first, first+n-1)
		first += n
	}
	return out
}

const policyAnnotation = "volcano.sh/numa-topology-policy"

// bound runs one session and returns the node of a job's first task, "" if it is not bound.
func (c *cluster) bound(job string) string {
	o := c.session("allocate")
	if failed := c.bind(o); len(failed) > 0 {
		c.Errorf("not bound: %v", failed)
	}
	return o.bound[job+"-0"]
}

// The examples of Volcano's own guide, and of the matrix of a vendor that has its plugin.
func TestVolcanosOwnExamples(t *testing.T) {
	t.Run("the guide", func(t *testing.T) {
		c := newCluster(t)
		c.node("node-1", machine(12, 12), place.BestEffort)
		c.node("node-2", machine(20, 20), place.BestEffort)
		c.job("job", "default", 1, "cpu=16", annotated(policyAnnotation, "best-effort"))
		if got := c.bound("job"); got != "node-2" {
			t.Errorf("16 CPUs on %q, want node-2, where one NUMA node has them", got)
		}
	})
	for _, x := range []struct {
		cpus         int
		policy, want string
	}{{2, "single-numa-node", ""}, {20, "best-effort", "node-3"}} {
		t.Run(x.policy, func(t *testing.T) {
			c := newCluster(t)
			c.node("node-1", machine(16, 16), place.SingleNUMA)
			c.node("node-2", machine(16, 16), place.BestEffort)
			c.node("node-3", machine(20, 20), place.BestEffort)
			c.job("job", "default", 1, fmt.Sprintf("cpu=%d", x.cpus), annotated(policyAnnotation, x.policy))
			got := c.bound("job")
			if x.want != "" && got != x.want || got == "" {
				t.Errorf("%d CPUs on %q, want %q", x.cpus, got, x.want)
			}
		})
	}
}

// A task that demands one NUMA node may use a node with the policy restricted where it gets one NUMA node. It may not
// use a node with the policy none where it would get two. numa-aware compares only the names of policies.
func TestADemandIsJudgedByItsOutcome(t *testing.T) {
	single := annotated(policyAnnotation, "single-numa-node")
	for _, policy := range []place.Policy{place.Restricted, place.BestEffort, place.None} {
		c := newCluster(t)
		c.node("n", two, policy)
		c.job("job", "default", 1, "cpu=8", single)
		if got := c.bound("job"); got != "n" {
			t.Errorf("8 CPUs are not placed on a node with policy %v that would align them", policy)
		}
		c.job("wide", "default", 1, "cpu=20", single)
		if got := c.bound("wide"); got != "" {
			t.Errorf("20 CPUs that demand one NUMA node are on a node with policy %v whose NUMA nodes have 16", policy)
		}
	}
}

// A Burstable task gets no CPUs of its own anywhere. numa-aware ignores its annotation without a message.
func TestADemandThatNothingCanMeetIsRefusedWithAReason(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("job", "default", 1, "cpu=2", annotated(policyAnnotation, "restricted"),
		func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil })
	o := c.session("allocate")
	if len(o.bound) > 0 || !strings.Contains(o.why["job-0"], "no node can give it CPUs, memory or devices") {
		t.Errorf("bound %v, reasons %v", o.bound, o.why)
	}
}

// After a task of 16 CPUs has come and gone, an idle NUMA node of 24 CPUs takes tasks of 8 and 16. numa-aware loses
// CPUs then.
func TestWhatATaskHeldIsFreeWhenItHasGone(t *testing.T) {
	c := newCluster(t)
	c.node("n", machine(24), place.SingleNUMA)
	c.job("first", "default", 1, "cpu=16")
	if c.bound("first") != "n" {
		t.Fatal("16 CPUs are not placed on the empty node")
	}
	c.job("small", "default", 1, "cpu=8")
	c.terminate("first-0")
	if c.bound("small") != "n" {
		t.Error("8 CPUs are not placed")
	}
	c.job("second", "default", 1, "cpu=16")
	if c.bound("second") != "n" {
		t.Error("16 CPUs beside 8 of 24 are not placed")
	}
}

// 40 CPUs in the numbering of two sockets with two threads for each core; 20 CPUs of one NUMA node are free.
func TestAFreeNUMANodeIsFoundWhateverItsNumbers(t *testing.T) {
	c := newCluster(t)
	var text string
	for numa := range 2 {
		text += fmt.Sprintf("numa %d socket %d cpus %d-%d/%d-%d memory 64Gi\n", numa, numa, 10*numa, 10*numa+9,
			20+10*numa, 29+10*numa)
	}
	c.node("n", text, place.SingleNUMA)
	c.job("other", "default", 1, "cpu=20")
	if c.bound("other") != "n" {
		t.Fatal("20 CPUs are not placed on the empty node")
	}
	c.job("job", "default", 1, "cpu=16", annotated(policyAnnotation, "single-numa-node"))
	if c.bound("job") != "n" {
		t.Error("16 CPUs are not placed though a NUMA node has 20")
	}
}

// gpus describes two NUMA nodes with 32 CPUs each, and how many GPUs of each.
func gpus(numa ...int) (out string) {
	out, n := machine(32, 32), 0
	for i, count := range numa {
		for range count {
			out += fmt.Sprintf("device nvidia.com/gpu gpu-%d numa %d\n", n, i)
			n++
		}
	}
	return out
}

// The kubelet counts all devices for the width that it prefers, not only free ones. One NUMA node has two GPUs, and one
// of these is taken. Under restricted the two GPUs of a request then do not come from two NUMA nodes.
func TestTheWidthOfDevicesIsThatOfTheEmptyNode(t *testing.T) {
	c := newCluster(t)
	c.node("n", gpus(2, 1), place.Restricted)
	c.job("one", "default", 1, "cpu=2 nvidia.com/gpu=1")
	if c.bound("one") != "n" {
		t.Fatal("one GPU is not placed")
	}
	c.job("two", "default", 1, "cpu=2 nvidia.com/gpu=2")
	on0 := 0
	for _, e := range c.sched.Sources().Book.Snapshot().Node("n").Entries {
		for _, h := range e.Holdings {
			for _, d := range h.Devices {
				for _, id := range d.IDs {
					if id != "gpu-2" {
						on0++
					}
				}
			}
		}
	}
	got := c.bound("two")
	if want := map[bool]string{true: "", false: "n"}[on0 == 1]; got != want {
		t.Errorf("two GPUs on %q with %d of NUMA node 0 taken, want %q", got, on0, want)
	}
}

// A pod needs one NUMA node for CPUs and two for GPUs. A plugin that was proposed for Volcano admits it under
// restricted, and the kubelet refuses it.
func TestWidthsThatDifferAreRefusedUnderRestricted(t *testing.T) {
	c := newCluster(t)
	c.node("n", gpus(1, 1), place.Restricted)
	c.job("job", "default", 1, "cpu=4 nvidia.com/gpu=2")
	if got := c.bound("job"); got != "" {
		t.Errorf("a task of 4 CPUs and two GPUs of two NUMA nodes is on %q", got)
	}
}

// Tasks of one and two GPUs leave whole NUMA nodes to tasks of four.
func TestSmallTasksLeaveWholeNUMANodes(t *testing.T) {
	c := newCluster(t)
	for i := range 2 {
		c.node(fmt.Sprintf("n%d", i), gpus(4, 4), place.SingleNUMA)
	}
	for i, n := range []int{1, 2, 1, 1, 2, 1} { // eight GPUs: two NUMA nodes of four
		job := fmt.Sprintf("small-%d", i)
		c.job(job, "default", 1, fmt.Sprintf("cpu=2 nvidia.com/gpu=%d", n))
		if c.bound(job) == "" {
			t.Fatalf("%d GPUs are not placed", n)
		}
	}
	for i := range 2 {
		job := fmt.Sprintf("large-%d", i)
		c.job(job, "default", 1, "cpu=2 nvidia.com/gpu=4")
		if c.bound(job) == "" {
			t.Errorf("four GPUs of one NUMA node are not to be had for the task %d of two", i)
		}
	}
}

// A dual-socket node with reserved CPUs, whose core ids repeat in each socket: reserving two CPUs costs one NUMA node
// two CPUs, and no other.
func TestReservedCPUsCostOneNUMANode(t *testing.T) {
	c := newCluster(t)
	text := "numa 0 socket 0 cpus 0-3/8-11 memory 64Gi\nnuma 1 socket 1 cpus 4-7/12-15 memory 64Gi\n"
	c.ruled("n", text, place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)}})
	c.job("a", "default", 1, "cpu=8")
	c.job("b", "default", 1, "cpu=6")
	if a, b := c.bound("a"), c.bound("b"); a == "" && b == "" {
		t.Errorf("8 CPUs on %q and 6 CPUs on %q", a, b)
	}
	if got := len(c.booked()); got != 2 {
		t.Errorf("%d tasks are placed, want both: 8 CPUs on one NUMA node, 6 on the other", got)
	}
}
