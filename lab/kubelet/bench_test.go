package kubelet_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"sigs.k8s.io/yaml"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// benchmark is one machine with pods on it, and one more pod that both sides are queried about.
type benchmark struct {
	numas     int
	policy    string
	resources string // cpu, +memory, +gpu
	busy      int    // pods on the machine. On an empty one every mask is a hint: the most work to merge

	machine *topo.Machine
	real    *lab.Managers
	pods    []*v1.Pod // the managers' view
	usage   *place.Usage
	pod     *v1.Pod
	asked   *place.Pod
}

// BenchmarkAgainstTheKubelet queries the kubelet's own code and place about the same pod on the same machine in one
// run, and reports how many times faster place is (x-faster; ns/op is place's mean time):
//
//   - merge: the topology manager's Merge of prepared hints, against place.Fits, which makes the hints too and checks
//     the allocation;
//   - admit: the managers' Admit with their checkpoints in memory, against place.Place with all ids.
//
// A table of all ratios ends the output. Its times are the best of either side, since others may use the computer too.
func BenchmarkAgainstTheKubelet(b *testing.B) {
	klog.SetLogger(logr.Discard())
	rows := []string{fmt.Sprintf("%-6s%-18s%-16s%5s  %-6s%12s%12s%12s", "numas", "policy", "resources", "pods", "what",
		"kubelet", "place", "x faster")}
	for _, c := range benchmarks() {
		c.prepare(b)
		for _, what := range []string{"merge", "admit"} {
			b.Run(fmt.Sprintf("numas=%d/%s/%s/pods=%d/%s", c.numas, c.policy, c.resources, c.busy, what), func(b *testing.B) {
				theirs, ours := c.merge, func() { place.Fits(c.usage, c.asked) }
				if what == "admit" {
					theirs, ours = c.admit, func() { place.Place(c.usage, c.asked) }
				}
				kubelet := theirs(b)
				runtime.GC() // the kubelet's garbage is not place's
				b.ReportAllocs()
				for b.Loop() {
					ours()
				}
				own := bestOf(ours)
				b.ReportMetric(float64(kubelet)/float64(max(1, own)), "x-faster")
				rows = append(rows, fmt.Sprintf("%-6d%-18s%-16s%5d  %-6s%12s%12s%12s", c.numas, c.policy, c.resources, c.busy,
					what, short(kubelet), short(own), times(kubelet, own)))
			})
		}
		c.real.Stop()
	}
	fmt.Println("\n" + strings.Join(rows, "\n") + "\n")
}

func times(kubelet, own time.Duration) string {
	x := float64(kubelet) / float64(max(1, own))
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}

func benchmarks() (out []*benchmark) {
	for _, numas := range []int{2, 4, 8} {
		for _, policy := range []string{"single-numa-node", "restricted"} {
			for _, resources := range []string{"cpu", "cpu+memory", "cpu+memory+gpu"} {
				out = append(out, &benchmark{numas: numas, policy: policy, resources: resources})
				if numas == 8 {
					out = append(out, &benchmark{numas: numas, policy: policy, resources: resources, busy: 20})
				}
			}
		}
	}
	for _, policy := range []string{"single-numa-node", "restricted"} {
		out = append(out, &benchmark{numas: 36, policy: policy, resources: "cpu+gpu", busy: 20})
	}
	return out
}

// text describes a machine of 256 CPUs; one of 36 NUMA nodes has CPUs and GPUs on two, as GB200 has.
func (c *benchmark) text() string {
	var b strings.Builder
	for i := range c.numas {
		with := min(c.numas, 8)
		if c.numas > 8 {
			with = 2
		}
		fmt.Fprintf(&b, "numa %d", i)
		if cores := 128 / with; i < with {
			fmt.Fprintf(&b, " socket %d cpus %d-%d/%d-%d memory %dGi\n", i*2/with,
				i*cores, (i+1)*cores-1, 128+i*cores, 128+(i+1)*cores-1, 512/with)
			fmt.Fprintf(&b, "device acme.com/gpu g%02d,g%02d numa %d", 2*i, 2*i+1, i)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (c *benchmark) prepare(b *testing.B) {
	b.Helper()
	var err error
	if c.machine, err = topo.ParseMachine(c.text()); err != nil {
		b.Fatal(err)
	}
	config, rules := c.configure(b)
	dir, err := os.MkdirTemp(inMemory(), "tb")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if c.real, err = lab.NewManagers(b.Context(), dir, c.machine, config, func() []*v1.Pod { return c.pods }); err != nil {
		b.Fatal(err)
	}
	c.usage = place.NewUsage(c.machine, rules)
	for i := range c.busy {
		pod := guaranteed(fmt.Sprint("busy", i), int64(2+i%3), 0)
		c.pods = append(c.pods, pod)
		if r := c.real.Admit(pod); !r.Admit {
			b.Fatalf("pod %s: %s", pod.Name, r.Message)
		}
		c.usage = c.usage.Hold(c.real.Holding(pod.UID, "app"))
	}
	c.pod = guaranteed("asked", 8, int64(strings.Count(c.resources, "gpu")))
	if c.asked, err = podapi.ToPlace(c.pod); err != nil {
		b.Fatal(err)
	}
	c.pods = append(c.pods, c.pod)
}

// inMemory returns a file system that makes the managers' checkpoints cheap, if there is one.
func inMemory() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func guaranteed(name string, cpus, gpus int64) *v1.Pod {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(4<<30, resource.BinarySI),
	}
	if gpus > 0 {
		list["acme.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	pod.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	return pod
}

// configure returns the kubelet's configuration, and the rules as the node agent reads them from it.
func (c *benchmark) configure(b *testing.B) (*configv1beta1.KubeletConfiguration, place.Rules) {
	b.Helper()
	config := &configv1beta1.KubeletConfiguration{
		TopologyManagerPolicy:        c.policy,
		TopologyManagerPolicyOptions: map[string]string{"max-allowable-numa-nodes": "36"},
		CPUManagerPolicy:             "static",
		ReservedSystemCPUs:           "0",
		MemoryManagerPolicy:          "None",
		SystemReserved:               map[string]string{"memory": "924Mi"},
		EvictionHard:                 map[string]string{"memory.available": "100Mi"},
	}
	if strings.Contains(c.resources, "memory") {
		config.MemoryManagerPolicy = "Static"
		config.ReservedMemory = []configv1beta1.MemoryReservation{
			{NumaNode: 0, Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}}
	}
	config.SetGroupVersionKind(configv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	if err := lab.SetFeatureGates(config); err != nil {
		b.Fatal(err)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := kubelet.ParseConfiguration(text)
	if err != nil {
		b.Fatal(err)
	}
	rules, err := parsed.On(c.machine, 0)
	if err != nil {
		b.Fatal(err)
	}
	return config, rules
}

// merge returns the time of one Merge of the hints that the managers give for the pod.
func (c *benchmark) merge(b *testing.B) time.Duration {
	info := lab.MachineInfo("machine", c.machine)
	numas, err := topologymanager.NewNUMAInfo(info.Topology, topologymanager.PolicyOptions{})
	if err != nil {
		b.Fatal(err)
	}
	policy := topologymanager.NewRestrictedPolicy(numas, topologymanager.PolicyOptions{})
	if c.policy == "single-numa-node" {
		policy = topologymanager.NewSingleNumaNodePolicy(numas, topologymanager.PolicyOptions{})
	}
	var hints []map[string][]topologymanager.TopologyHint
	for _, p := range []topologymanager.HintProvider{c.real.Device, c.real.CPU, c.real.Memory} {
		hints = append(hints, p.GetTopologyHints(klog.Background(), c.pod, &c.pod.Spec.Containers[0],
			lifecycle.AddOperation))
	}
	return clock(func() time.Duration {
		began := time.Now()
		_, admit := policy.Merge(klog.Background(), hints)
		took := time.Since(began)
		if admit != place.Fits(c.usage, c.asked) {
			b.Fatalf("the topology manager admits: %v, place does not agree", admit)
		}
		return took
	})
}

// admit returns the time of one Admit; what it gave is freed before the next.
func (c *benchmark) admit(b *testing.B) time.Duration {
	return clock(func() time.Duration {
		began := time.Now()
		r := c.real.Admit(c.pod)
		took := time.Since(began)
		if r.Admit != place.Fits(c.usage, c.asked) {
			b.Fatalf("the managers admit: %v (%s), place does not agree", r.Admit, r.Message)
		}
		c.pods = c.pods[:len(c.pods)-1]
		c.real.Forget(c.pod)
		c.real.Collect()
		c.pods = append(c.pods, c.pod)
		return took
	})
}

// bestOf returns the shortest mean time of some batches, for what is too short to be timed alone.
func bestOf(f func()) time.Duration {
	const batch = 50
	return clock(func() time.Duration {
		began := time.Now()
		for range batch {
			f()
		}
		return time.Since(began)
	}) / batch
}

// clock returns the shortest of some runs: as many as fit in a tenth of a second, at least one.
func clock(once func() time.Duration) time.Duration {
	best := once()
	for total := best; total < 100*time.Millisecond; {
		took := once()
		best, total = min(best, took), total+took
	}
	return best
}
