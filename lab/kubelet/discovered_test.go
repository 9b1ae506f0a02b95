package kubelet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// The managers get cadvisor's report of a snapshot, and place gets what node/sysfs discovers in it. Other tests give
// both the same described machine, so only these tests compare discovery with the kubelet's decisions.

// discoveredTrials is how many configurations are drawn for every snapshot.
const discoveredTrials = 6

// TestDiscoveredMachines admits pods on every machine that node/sysfs has a snapshot of.
func TestDiscoveredMachines(t *testing.T) {
	files, err := filepath.Glob("../../node/sysfs/testdata/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d snapshots, %v", len(files), err)
	}
	admitted, refused, panicked, contradictions := 0, 0, 0, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			found, report, ok := discovered(t, snapshot(t, file))
			if !ok {
				return
			}
			for seed := range uint64(discoveredTrials) {
				d := newDiscovery(t, found, report, seed)
				for range 12 {
					if d.step(t) {
						admitted++
					} else {
						refused++
					}
					if d.over {
						panicked++
						break
					}
					if d.contradicts() {
						contradictions++
						break
					}
				}
				d.end()
			}
		})
	}
	t.Logf("%d pods were admitted, %d refused (on %d a manager panicked), %d machines came to contradict themselves",
		admitted, refused, panicked, contradictions)
	if admitted < 400 || refused < 100 || contradictions > 10 {
		t.Errorf("too few pods were admitted or refused, or too many machines contradict themselves")
	}
}

func snapshot(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// olderKernel changes a snapshot into that of a kernel which shows hugepages only on NUMA nodes with memory
// (mm/hugetlb.c, hugetlb_register_all_nodes), and allocates 8 of 2 MiB there.
func olderKernel(t *testing.T, text string) string {
	t.Helper()
	bare := regexp.MustCompile(`(node/node\d+)/meminfo --\n[^-]*MemTotal: +0 kB`).FindAllStringSubmatch(text, -1)
	if len(bare) == 0 {
		t.Fatal("every NUMA node has memory")
	}
	for _, m := range bare {
		text = regexp.MustCompile(`-- [^ ]*`+m[1]+`/hugepages/[^ ]* --\n\d+\n`).ReplaceAllString(text, "")
	}
	return regexp.MustCompile(`(hugepages-2048kB/nr_hugepages --\n)\d+\n`).ReplaceAllString(text, "${1}8\n")
}

// An older kernel shows no hugepages on a NUMA node without memory. The managers panic on exactly the pods for which
// place predicts it.
func TestOlderKernels(t *testing.T) {
	for _, name := range []string{"kernel-arm64", "kernel-offline-memory"} {
		text := olderKernel(t, snapshot(t, "../../node/sysfs/testdata/"+name+".txtar"))
		found, report, ok := discovered(t, text)
		if !ok {
			t.Fatal(name, found.Warnings)
		}
		admitted, panicked := 0, 0
		for seed := range uint64(60) {
			d := newDiscovery(t, found, report, seed)
			for range 6 {
				if d.step(t) {
					admitted++
				}
				if d.over {
					panicked++
					break
				}
			}
			d.end()
		}
		t.Logf("%s: %d pods admitted, %d machines panicked", name, admitted, panicked)
		if admitted < 60 || panicked < 15 {
			t.Errorf("%s: %d pods admitted, %d machines panicked", name, admitted, panicked)
		}
	}
}

// discovered reads a snapshot on both sides; ok is false if one of them has no machine, and the other reports that.
func discovered(t *testing.T, text string) (*sysfs.Found, *cadvisorapi.MachineInfo, bool) {
	t.Helper()
	tree, err := sysfs.ReadSnapshot(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	found, err := sysfs.Discover(tree)
	if err != nil {
		if !strings.Contains(err.Error(), "hugepages take") {
			t.Fatal(err)
		}
		return nil, nil, false
	}
	report, ok := reported(t, tree, found)
	if blind := warned(found, sysfs.KubeletBlind); blind == ok {
		t.Errorf("cadvisor reports a machine: %v, but the warnings are %v", ok, found.Warnings)
	}
	return found, report, ok
}

func warned(found *sysfs.Found, name sysfs.Anomaly) bool {
	return slices.ContainsFunc(found.Warnings, func(w sysfs.Warning) bool { return w.Name == name })
}

// discovery is a machine with pods on it, on both sides.
type discovery struct {
	r     *rand.Rand
	about string
	s     *scenario.Scenario
	usage *place.Usage
	real  *lab.Managers
	dir   string
	names int

	mu      sync.Mutex
	pods    []*v1.Pod
	held    map[string][]place.Holding
	looping chan struct{}
	looped  bool
	over    bool // a manager has panicked
}

func newDiscovery(t *testing.T, found *sysfs.Found, report *cadvisorapi.MachineInfo, seed uint64) *discovery {
	t.Helper()
	d := &discovery{r: rand.New(rand.NewPCG(seed, 7)), held: map[string][]place.Holding{}, looping: make(chan struct{})}
	d.s = &scenario.Scenario{Machine: found.Machine}
	d.rules(seed, warned(found, sysfs.NUMAIDs))
	d.about = fmt.Sprintf("seed %d, %+v", seed, d.s.Rules)
	d.usage = place.NewUsage(d.s.Machine, d.s.Rules)
	var err error
	if d.dir, err = os.MkdirTemp(judgeDir(t), "d"); err != nil {
		t.Fatal(err)
	}
	d.real, err = lab.NewReportedManagers(t.Context(), d.dir, d.s.Machine, report, configuration(d.s), d.active)
	if err != nil {
		t.Fatalf("%s: the managers do not start: %v", d.about, err)
	}
	<-d.looping
	return d
}

// active lists the active pods. The first caller is the CPU manager's loop, which would keep the managers in memory.
func (d *discovery) active() []*v1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.looped {
		d.looped = true
		close(d.looping)
		runtime.Goexit()
	}
	return slices.Clone(d.pods)
}

// rules draws a configuration that the machine's kubelet accepts. With ids of NUMA nodes outside 0..63 it works only
// without hints.
func (d *discovery) rules(seed uint64, noHints bool) {
	r, m := &d.s.Rules, d.s.Machine
	r.CPU = place.CPURules{Static: true, Reserved: idset.Of(m.CPUs().Min())}
	switch seed % 3 {
	case 0:
		r.CPU.PreferAlignByUncoreCaches = true
	case 1:
		r.CPU.FullPCPUsOnly = true
	}
	if noHints {
		return
	}
	if len(m.NUMAs()) <= 8 {
		r.Topology.Policy = pick(d.r, place.None, place.BestEffort, place.Restricted, place.SingleNUMA)
	}
	if r.Memory.Static = d.r.IntN(3) > 0; !r.Memory.Static {
		return
	}
	at := max(0, slices.IndexFunc(m.NUMAs(), func(n topo.NUMA) bool { return n.Capacity(topo.Memory) >= 1<<28 }))
	r.Memory.Reserved = []place.Reserved{{NUMA: m.NUMAs()[at].ID, Kind: topo.Memory, Bytes: 128 << 20}}
}

// step admits a pod on both sides, or first ends one; it reports whether the pod was admitted.
func (d *discovery) step(t *testing.T) bool {
	t.Helper()
	if len(d.pods) > 0 && d.r.IntN(3) == 0 {
		d.drop(d.pods[d.r.IntN(len(d.pods))])
	}
	d.names++
	st := scenario.Step{Name: fmt.Sprintf("p%d", d.names), Pod: d.pod()}
	v := place.Place(d.usage, &st.Pod)
	if d.over = panics(v); d.over {
		d.crash(t, st)
		return false
	}
	pod := podOf(st)
	d.mu.Lock()
	d.pods = append(d.pods, pod)
	d.mu.Unlock()
	got := d.real.Admit(pod)
	if v.Fits() != got.Admit || string(v.Refusal) != got.Reason {
		t.Fatalf(
			"%s: pod %s: the managers say %q (%s), place says %q %v",
			d.about,
			st.Pod.Shape(),
			got.Reason,
			got.Message,
			v.Refusal,
			v.Reasons,
		)
	}
	if !got.Admit {
		d.drop(pod)
		return false
	}
	var seen []place.Holding
	for _, c := range st.Pod.Containers {
		if h := d.real.Holding(pod.UID, c.Name); !h.Empty() {
			seen = append(seen, h)
		}
	}
	if !slices.EqualFunc(v.Holdings, seen, func(a, b place.Holding) bool {
		return a.Container == b.Container &&
			a.Matches(b)
	}) {
		t.Fatalf("%s: pod %s: the managers gave %v, place said %v", d.about, st.Pod.Shape(), seen, v.Holdings)
	}
	d.held[pod.Name] = seen
	d.count()
	return true
}

// pod draws a Guaranteed pod that takes a part of the machine.
func (d *discovery) pod() place.Pod {
	m := d.s.Machine
	p := place.Pod{QoS: place.Guaranteed}
	for i := range pick(d.r, 1, 1, 2) {
		c := place.Container{Name: fmt.Sprintf("c%d", i), MilliCPU: 1000 * int64(1+d.r.IntN(max(1, m.CPUs().Len()/3)))}
		bytes := int64(64 << 20)
		if n := m.NUMAs()[d.r.IntN(len(m.NUMAs()))]; n.Bytes > 1<<30 {
			bytes = n.Bytes / int64(pick(d.r, 2, 4, 8)) >> 20 << 20
		}
		c.Memory = []place.Amount{{Kind: topo.Memory, Bytes: bytes}}
		if kinds := m.Kinds()[1:]; len(kinds) > 0 && d.r.IntN(3) == 0 {
			c.Memory = append(c.Memory, d.pages(kinds[d.r.IntN(len(kinds))]))
			slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// pages draws a request of hugepages: none, or a part of what some NUMA node has.
func (d *discovery) pages(kind string) place.Amount {
	n := d.s.Machine.NUMAs()[d.r.IntN(len(d.s.Machine.NUMAs()))]
	at := slices.IndexFunc(n.Hugepages, func(h topo.Hugepages) bool { return h.Kind() == kind })
	if at < 0 || n.Hugepages[at].Count == 0 {
		return place.Amount{Kind: kind}
	}
	h := n.Hugepages[at]
	return place.Amount{Kind: kind, Bytes: h.PageSize * (1 + d.r.Int64N(h.Count))}
}

// crash has the managers admit a pod on which place expects a panic.
func (d *discovery) crash(t *testing.T, st scenario.Step) {
	pod := podOf(st)
	d.mu.Lock()
	d.pods = append(d.pods, pod)
	d.mu.Unlock()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: pod %s: place expects a panic", d.about, st.Pod.Shape())
		}
	}()
	d.real.Admit(pod)
}

func (d *discovery) drop(pod *v1.Pod) {
	d.real.Forget(pod)
	d.mu.Lock()
	d.pods = slices.DeleteFunc(d.pods, func(p *v1.Pod) bool { return p == pod })
	d.mu.Unlock()
	d.real.Collect()
	delete(d.held, pod.Name)
	d.count()
}

// contradicts reports whether the managers have given a CPU to two containers, or have a held CPU among the free ones,
// as they do on machines with cores of unequal size (cpumanager/cpu_assignment.go, takeFullCores). Then holdings do not
// show which CPUs the managers regard as free.
func (d *discovery) contradicts() bool {
	var free []idset.CPU
	for _, id := range d.real.CPU.State().GetDefaultCPUSet().List() {
		free = append(free, idset.CPU(id))
	}
	taken := idset.Of(free...)
	for _, p := range d.pods {
		for _, h := range d.held[p.Name] {
			if h.CPUs.AndLen(taken) > 0 {
				return true
			}
			taken = taken.Union(h.CPUs)
		}
	}
	return false
}

// count computes the usage of the managers' records, in the order of admission.
func (d *discovery) count() {
	d.usage = place.NewUsage(d.s.Machine, d.s.Rules)
	for _, p := range d.pods {
		d.usage = d.usage.Hold(d.held[p.Name]...)
	}
}

func (d *discovery) end() {
	_ = d.real.Stop()
	_ = os.RemoveAll(d.dir)
}

// The warning about ids of NUMA nodes outside 0..63 is right: the managers panic.
func TestManagersFailOnLargeIDs(t *testing.T) {
	found, report, ok := discovered(t, snapshot(t, "../../node/sysfs/testdata/very-sparse.txtar"))
	if !ok || !warned(found, sysfs.NUMAIDs) {
		t.Fatalf("the warnings are %v", found.Warnings)
	}
	d := newDiscovery(t, found, report, 2)
	d.end()
	d.s.Rules.Topology.Policy = place.Restricted
	d.looping, d.looped = make(chan struct{}), false
	var err error
	if d.dir, err = os.MkdirTemp(judgeDir(t), "d"); err != nil {
		t.Fatal(err)
	}
	if d.real, err = lab.NewReportedManagers(t.Context(), d.dir, d.s.Machine, report, configuration(d.s),
		d.active); err != nil {
		t.Fatal(err)
	}
	defer d.end()
	<-d.looping
	defer func() {
		if recover() == nil {
			t.Error("the managers admit a pod")
		}
	}()
	d.real.Admit(podOf(scenario.Step{Name: "p", Pod: d.pod()}))
}
