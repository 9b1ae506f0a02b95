package kubelet_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// The differential test: the kubelet's own managers and place see the same machine, rules and sequence
// of pods; after every step verdicts, CPU ids, memory blocks and devices must be equal.

var (
	cases = flag.Int("diff.cases", 150, "machines to try in the differential test")
	seed  = flag.Uint64("diff.seed", 1, "first seed of the differential test")
)

func TestPlaceAgreesWithTheManagers(t *testing.T) {
	klog.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp(memoryDir(), "td")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var tally tally
	for i := range *cases {
		s := *seed + uint64(i)
		d := &differ{t: t, seed: s, r: rand.New(rand.NewPCG(s, 1)), dir: filepath.Join(dir, fmt.Sprint(s)), tally: &tally}
		if d.run(); t.Failed() {
			return
		}
	}
	t.Logf("seeds %d to %d: %s", *seed, *seed+uint64(*cases)-1, tally)
}

// memoryDir is a file system that makes the managers' checkpoints cheap, where there is one.
func memoryDir() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// tally counts what a run has seen, so that a run that tries nothing shows.
type tally struct{ machines, admitted, refused, chance int }

func (t tally) String() string {
	return fmt.Sprintf("%d machines, %d pods admitted, %d refused, %d judged only up to where the kubelet draws numas at random",
		t.machines, t.admitted, t.refused, t.chance)
}

// differ is one machine with both sides.
type differ struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	dir   string
	tally *tally

	text    string
	m       *topo.Machine
	config  *configv1beta1.KubeletConfiguration
	rules   place.Rules
	real    *lab.Managers
	mu      sync.Mutex // the CPU manager looks at pods from a goroutine of its own
	pods    []*v1.Pod
	held    [][]place.Holding // by index of pods, as the managers recorded them
	history []string
}

func (d *differ) run() {
	d.machine()
	d.configure()
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	defer os.RemoveAll(d.dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	d.real, err = lab.NewManagers(ctx, d.dir, d.m, d.config, d.active)
	if err != nil {
		d.fail("the managers do not start: %v", err)
		return
	}
	defer d.real.Stop()
	d.tally.machines++
	for step := range 14 {
		if len(d.pods) > 0 && d.r.IntN(4) == 0 {
			d.remove(d.r.IntN(len(d.pods)))
		}
		if d.admit(step); d.t.Failed() {
			return
		}
	}
}

func (d *differ) active() []*v1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.pods)
}

// set exchanges the active pods.
func (d *differ) set(pods []*v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods = pods
}

func (d *differ) fail(format string, args ...any) {
	d.t.Helper()
	d.t.Errorf("seed %d: %s\nmachine:\n%s\nrules: %+v\nhistory:\n  %s", d.seed, fmt.Sprintf(format, args...), d.text, d.rules,
		strings.Join(d.history, "\n  "))
}

func (d *differ) usage() *place.Usage {
	u := place.NewUsage(d.m, d.rules)
	for _, hs := range d.held {
		u = u.Hold(hs...)
	}
	return u.WithGroups(d.groups())
}

// groups reads the memory groups from the managers' own state file, as the node agent does.
func (d *differ) groups() map[int]place.MemoryGroup {
	data, err := os.ReadFile(filepath.Join(d.dir, kubelet.MemoryStateFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	state, err := kubelet.ParseMemoryState(data)
	if err != nil {
		d.t.Fatalf("seed %d: %v", d.seed, err)
	}
	out := map[int]place.MemoryGroup{}
	for at, n := range d.m.NUMAs() {
		if mask, err := d.m.MaskOf(state.Cells[n.ID].List()...); err == nil && mask != 0 {
			g := place.MemoryGroup{NUMAs: mask}
			for kind, free := range state.Free[n.ID] {
				g.Free = append(g.Free, place.Amount{Kind: kind, Bytes: int64(free)})
			}
			out[at] = g
		}
	}
	return out
}

func (d *differ) remove(i int) {
	d.history = append(d.history, "remove "+d.pods[i].Name)
	d.real.Forget(d.pods[i])
	d.set(slices.Delete(slices.Clone(d.pods), i, i+1))
	d.held = slices.Delete(d.held, i, i+1)
	d.real.Collect()
}

func (d *differ) admit(step int) {
	pod := d.pod(step)
	p, err := kube.Pod(pod)
	if err != nil {
		d.t.Fatal(err)
	}
	d.history = append(d.history, fmt.Sprintf("admit %s: %s", pod.Name, p.Shape()))
	v := place.Place(d.usage(), p)
	d.set(append(slices.Clone(d.pods), pod))
	got := d.real.Admit(pod)
	if v.Chance {
		d.tally.chance++
		d.judgeUntilChance(pod, p, v, got.Admit)
		return
	}
	if string(v.Error) != got.Reason || v.Fits() != got.Admit {
		d.fail("pod %s: the managers say %q (%s), place says %q (%v)", pod.Name, got.Reason, got.Message, v.Error, v.Reasons)
		return
	}
	if !got.Admit {
		d.tally.refused++
		if len(v.Reasons) == 0 {
			d.fail("pod %s: refused without a reason", pod.Name)
		}
		d.drop(pod)
		return
	}
	d.tally.admitted++
	seen := d.seen(pod, p)
	if !slices.EqualFunc(v.Holdings, seen, func(a, b place.Holding) bool { return a.Container == b.Container && a.Matches(b) }) {
		d.fail("pod %s: the managers gave\n  %s\nplace said\n  %s", pod.Name, kube.Holdings(seen), kube.Holdings(v.Holdings))
	}
	d.held = append(d.held, seen)
}

func (d *differ) drop(pod *v1.Pod) {
	d.set(d.pods[:len(d.pods)-1])
	d.real.Forget(pod)
	d.real.Collect()
}

// judgeUntilChance compares the containers before the first whose device numas the kubelet draws.
func (d *differ) judgeUntilChance(pod *v1.Pod, p *place.Pod, v place.Verdict, admitted bool) {
	if !admitted {
		d.drop(pod)
		return
	}
	seen := d.seen(pod, p)
	d.held = append(d.held, seen)
	for i, h := range v.Holdings {
		if slices.ContainsFunc(h.Devices, func(b place.DeviceBlock) bool { return b.Loose }) {
			return
		}
		// Memory of init containers is left out: later containers reuse it.
		if i >= len(seen) || h.Container != seen[i].Container || !h.CPUs.Equal(seen[i].CPUs) {
			d.fail("pod %s: the managers gave\n  %s\nplace said\n  %s", pod.Name, kube.Holdings(seen), kube.Holdings(v.Holdings))
			return
		}
	}
}

func (d *differ) seen(pod *v1.Pod, p *place.Pod) (out []place.Holding) {
	for _, c := range p.Containers {
		if h := d.real.Holding(pod.UID, c.Name); !h.Empty() {
			h.Kind = c.Kind
			out = append(out, h)
		}
	}
	return out
}

func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// machine draws a machine: few numas mostly, since the managers' merge is exponential in them.
func (d *differ) machine() {
	r := d.r
	n := pick(r, 1, 2, 2, 2, 3, 4, 4)
	smt := pick(r, 1, 2, 2, 4)
	perNUMA := pick(r, 1, 2, 4, 6, 8)
	sockets := pick(r, 1, 2, n)
	ids := []int{0, 1, 2, 3}
	if r.IntN(4) == 0 {
		ids = []int{0, 8, 11, 40}
	}
	var b strings.Builder
	next := 0
	for i := range n {
		cores := perNUMA
		if r.IntN(6) == 0 {
			cores = pick(r, 1, 3, 5)
		}
		fmt.Fprintf(&b, "numa %d", ids[i])
		if i == 0 || r.IntN(8) != 0 { // now and then memory without CPUs
			var lanes []string
			for k := range smt {
				lanes = append(lanes, fmt.Sprintf("%d-%d", next+k*cores, next+(k+1)*cores-1))
			}
			next += smt * cores
			l3 := 1
			if cores%2 == 0 {
				l3 = pick(r, 1, 2)
			}
			fmt.Fprintf(&b, " socket %d cpus %s l3 %d", i*sockets/n, strings.Join(lanes, "/"), l3)
		}
		fmt.Fprintf(&b, " memory %dGi hugepages-2Mi %d hugepages-1Gi %d\n", pick(r, 8, 16, 32), pick(r, 0, 512, 1024), pick(r, 0, 1, 2))
	}
	for i := range n {
		b.WriteString("distances")
		for j := range n {
			fmt.Fprintf(&b, " %d", 10+min(1, abs(i-j))*pick(r, 2, 11, 22))
		}
		b.WriteByte('\n')
	}
	for _, res := range []string{"acme.com/gpu", "acme.com/nic"} {
		for k := range r.IntN(7) {
			at := fmt.Sprint(ids[r.IntN(n)])
			switch r.IntN(12) {
			case 0:
				at = "none"
			case 1:
				at = fmt.Sprintf("%d,%d", ids[0], ids[n-1])
			}
			health := ""
			if r.IntN(10) == 0 {
				health = " unhealthy"
			}
			fmt.Fprintf(&b, "device %s d%d numa %s%s\n", res, k, at, health)
		}
	}
	d.text = b.String()
	m, err := topo.ParseMachine(d.text)
	if err != nil {
		d.t.Fatalf("seed %d: %v\n%s", d.seed, err, d.text)
	}
	d.m = m
}

func abs(n int) int { return max(n, -n) }

// configure draws a kubelet configuration that the managers accept, and reads the rules from it as the
// node agent does.
func (d *differ) configure() {
	r := d.r
	c := &configv1beta1.KubeletConfiguration{
		TopologyManagerPolicy: pick(r, "none", "best-effort", "restricted", "single-numa-node", "restricted", "single-numa-node"),
		TopologyManagerScope:  pick(r, "container", "pod"),
		CPUManagerPolicy:      pick(r, "static", "static", "static", "none"),
		MemoryManagerPolicy:   pick(r, "Static", "Static", "None"),
	}
	cpus := d.m.CPUs().List()
	if n := 1 + r.IntN(max(1, len(cpus)/4)); r.IntN(2) == 0 {
		var ids []idset.CPU
		for range n {
			ids = append(ids, cpus[r.IntN(len(cpus))])
		}
		c.ReservedSystemCPUs = idset.Of(ids...).String()
	} else {
		c.SystemReserved = map[string]string{"cpu": fmt.Sprint(n)}
	}
	if c.CPUManagerPolicy == "static" {
		c.CPUManagerPolicyOptions = d.cpuOptions(c.TopologyManagerPolicy)
		c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true, "CPUManagerPolicyBetaOptions": true}
	}
	if r.IntN(4) == 0 && d.m.NUMAs()[len(d.m.NUMAs())-1].ID < 8 && c.TopologyManagerPolicy != "none" {
		c.TopologyManagerPolicyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
	}
	if c.MemoryManagerPolicy == "Static" {
		d.reserveMemory(c)
	}
	if err := lab.SetFeatureGates(c); err != nil {
		d.t.Fatal(err)
	}
	c.SetGroupVersionKind(configv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	text, err := yaml.Marshal(c)
	if err != nil {
		d.t.Fatal(err)
	}
	parsed, err := kubelet.ParseConfiguration(text)
	if err != nil {
		d.t.Fatalf("seed %d: %v\n%s", d.seed, err, text)
	}
	rules, err := parsed.On(d.m, place.ReserveCPUs)
	if err != nil {
		d.t.Fatalf("seed %d: %v", d.seed, err)
	}
	d.config, d.rules = c, rules
}

// cpuOptions draws options that go together (cpumanager/policy_options.go).
func (d *differ) cpuOptions(policy string) map[string]string {
	out := map[string]string{}
	all := []string{"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores",
		"strict-cpu-reservation", "prefer-align-cpus-by-uncorecache"}
	for _, o := range all {
		if d.r.IntN(4) == 0 {
			out[o] = "true"
		}
	}
	if policy == "single-numa-node" {
		delete(out, "align-by-socket")
	}
	if out["distribute-cpus-across-cores"] != "" {
		delete(out, "full-pcpus-only")
		delete(out, "distribute-cpus-across-numa")
		delete(out, "prefer-align-cpus-by-uncorecache")
	}
	if out["distribute-cpus-across-numa"] != "" {
		delete(out, "prefer-align-cpus-by-uncorecache")
	}
	return out
}

func (d *differ) reserveMemory(c *configv1beta1.KubeletConfiguration) {
	total := int64(0)
	for _, n := range d.m.NUMAs() {
		size := int64(pick(d.r, 1, 2)) << 29
		total += size
		c.ReservedMemory = append(c.ReservedMemory, configv1beta1.MemoryReservation{NumaNode: int32(n.ID),
			Limits: v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(size, resource.BinarySI)}})
	}
	if c.SystemReserved == nil {
		c.SystemReserved = map[string]string{}
	}
	// The kubelet adds the hard eviction threshold to what must be reserved.
	c.EvictionHard = map[string]string{"memory.available": "100Mi"}
	c.SystemReserved["memory"] = fmt.Sprint(total - 100<<20)
}

// pod draws a pod: mostly Guaranteed, with init containers and sidecars now and then.
func (d *differ) pod(step int) *v1.Pod {
	r := d.r
	name := fmt.Sprintf("p%d", step)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	guaranteed := r.IntN(6) != 0
	for i := range pick(r, 0, 0, 0, 1, 2) {
		c := d.container(fmt.Sprintf("i%d", i), guaranteed)
		if r.IntN(3) == 0 {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range pick(r, 1, 1, 1, 2, 3) {
		pod.Spec.Containers = append(pod.Spec.Containers, d.container(fmt.Sprintf("c%d", i), guaranteed))
	}
	pod.Status.QOSClass = v1.PodQOSBurstable
	if guaranteed {
		pod.Status.QOSClass = v1.PodQOSGuaranteed
	}
	return pod
}

func (d *differ) container(name string, guaranteed bool) v1.Container {
	r := d.r
	per := max(1, d.m.CPUs().Len()/len(d.m.NUMAs()))
	milli := int64(1+r.IntN(per+per/2)) * 1000
	if r.IntN(3) == 0 {
		milli = int64(1+r.IntN(3)) * 1000
	}
	if r.IntN(8) == 0 {
		milli += 500
	}
	req := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(pick(r, 1, 2, 4, 10, 20))<<30, resource.BinarySI),
	}
	if r.IntN(5) == 0 {
		req["hugepages-2Mi"] = *resource.NewQuantity(int64(pick(r, 2, 512, 1024))<<20, resource.BinarySI)
	}
	if r.IntN(6) == 0 {
		req["hugepages-1Gi"] = *resource.NewQuantity(int64(pick(r, 1, 2))<<30, resource.BinarySI)
	}
	for _, dev := range []v1.ResourceName{"acme.com/gpu", "acme.com/nic"} {
		if r.IntN(3) == 0 {
			req[dev] = *resource.NewQuantity(int64(pick(r, 1, 1, 2, 3, 0)), resource.DecimalSI)
		}
	}
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: req, Limits: req}}
	if !guaranteed {
		c.Resources.Limits = v1.ResourceList{}
		for k, q := range req {
			if strings.Contains(string(k), "/") {
				c.Resources.Limits[k] = q
			}
		}
	}
	return c
}
