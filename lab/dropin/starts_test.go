package dropin

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

var (
	startsN    = flag.Int("starts.n", 400, "configurations to judge")
	startsSeed = flag.Uint64("starts.seed", 1, "seed of the configurations")
)

// A configuration that is called startable starts in the managers of the release that is linked, and one that does not
// start there is refused, with the reason.
func TestStartableConfigurationsStart(t *testing.T) {
	klog.SetLogger(logr.Discard())
	t.Logf("seed %d, %d configurations", *startsSeed, *startsN)
	machines := startMachines(t)
	starts, wraps := 0, 0
	for i := range *startsN {
		r := &drawn{rand.New(rand.NewPCG(*startsSeed, uint64(i)))}
		at := r.IntN(len(machines))
		text := r.configuration(machines[at])
		theirs := theirs(t, text, machines[at])
		ours, wrong := judged(text, machines[at])
		if wrong && theirs == nil {
			wraps++ // it starts, and serves pods wrongly: both are said
			continue
		}
		if (ours == nil) != (theirs == nil) {
			t.Errorf("configuration %d on machine %d:\n%s\nthe kubelet: %v\nTenon: %v", i, at, text, theirs, ours)
			return
		}
		if theirs == nil {
			starts++
		}
	}
	t.Logf("%d start, %d start and count below zero, %d do not start", starts, wraps, *startsN-starts-wraps)
	if starts < *startsN/10 || starts > *startsN*9/10 {
		t.Error("the configurations are too much alike")
	}
}

// judged returns the faults that simulate and check report of a configuration, and whether a kubelet starts with all of
// them.
func judged(text string, m *topo.Machine) (err error, starts bool) {
	s, err := kubelet.SetUp([]byte(text), m, place.DefaultRelease)
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		return err, !slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(l, "the kubelet starts") })
	}
	for _, o := range s.Rules.Obstacles(m) {
		if o.Code == place.Unsupported || o.Code == place.NoDistances {
			return fmt.Errorf("%s", o.Text()), false
		}
	}
	return nil, false
}

// theirs returns the kubelet's own error.
func theirs(t *testing.T, text string, m *topo.Machine) error {
	dir := shortDir(t)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t.Context(), dir, file, m)
}

// shortDir is for sockets, whose paths have at most 107 bytes.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func startMachines(t *testing.T) (out []*topo.Machine) {
	var nine strings.Builder
	for i := range 9 {
		fmt.Fprintf(&nine, "numa %d socket 0 cpus %d memory 8Gi\n", i, i)
	}
	two := "numa 0 socket 0 cpus 0-3/8-11 memory 16Gi hugepages-2Mi 512\n" +
		"numa 1 socket 1 cpus 4-7/12-15 memory 16Gi hugepages-2Mi 512\n"
	for _, text := range []string{two + "distances 10 21\ndistances 21 10\n", two, nine.String(),
		"numa 0 socket 0 cpus 0-3 memory 16Gi\nnuma 1 socket 0 cpus 4-7 memory 16Gi\nnuma 2 memory 64Gi\n"} {
		m, err := topo.ParseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	spec := topo.Spec{NUMAs: []topo.NUMA{{ID: 0, Bytes: 16 << 30}, {ID: 1, Bytes: 16 << 30}}}
	for i := range 8 { // two sockets in one NUMA node, and another one without CPUs
		spec.Cores = append(spec.Cores, topo.CoreSpec{CPUs: idset.Of(idset.CPU(i)), Socket: idset.Socket(i / 4),
			L3: i / 4 * 4})
	}
	m, err := topo.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return append(out, m)
}

// drawn draws configurations.
type drawn struct{ *rand.Rand }

// rare returns true in one of 25 cases, in which a caller draws a fault.
func (d *drawn) rare() bool { return d.IntN(25) == 0 }

func pick[T any](d *drawn, of ...T) T { return of[d.IntN(len(of))] }

func (d *drawn) configuration(m *topo.Machine) string {
	c := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	set := func(name string, value any) {
		if value != "" {
			c[name] = value
		}
	}
	set("topologyManagerPolicy", pick(d, "", "none", "best-effort", "restricted", "single-numa-node"))
	set("topologyManagerScope", pick(d, "", "container", "pod"))
	set("cpuManagerPolicy", pick(d, "", "none", "static", "static", "static"))
	if d.rare() {
		set(pick(d, "topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy", "memoryManagerPolicy"), "other")
	}
	if d.IntN(2) == 0 {
		c["topologyManagerPolicyOptions"] = d.topologyOptions()
	}
	if c["cpuManagerPolicy"] == "static" && d.IntN(2) == 0 || d.rare() {
		c["cpuManagerPolicyOptions"] = d.cpuOptions()
	}
	set("reservedSystemCPUs", pick(d, "", "0", "0-1", "2,4", "0-3"))
	if d.rare() {
		set("reservedSystemCPUs", pick(d, "0-7", "0,99", "x"))
	}
	if d.rare() {
		set(pick(d, "systemReservedCgroup", "kubeReservedCgroup"), "/system.slice")
	}
	d.reservations(c, m)
	if gates := d.gates(); len(gates) > 0 {
		c["featureGates"] = gates
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (d *drawn) topologyOptions() map[string]string {
	out := map[string]string{}
	if d.IntN(2) == 0 {
		out["prefer-closest-numa-nodes"] = pick(d, "true", "false", "1")
	}
	if d.IntN(2) == 0 {
		out["max-allowable-numa-nodes"] = pick(d, "8", "9", "64")
	}
	if d.rare() {
		out[pick(d, "max-allowable-numa-nodes", "prefer-closest-numa-nodes", "other")] = pick(d, "7", "maybe", "")
	}
	return out
}

func (d *drawn) cpuOptions() map[string]string {
	out := map[string]string{}
	for _, o := range place.Options() {
		if !o.Topology && d.IntN(6) == 0 {
			out[o.Name] = pick(d, "true", "true", "false", "t")
		}
	}
	if d.rare() {
		out[pick(d, "full-pcpus-only", "other")] = pick(d, "maybe", "true")
	}
	return out
}

func (d *drawn) gates() map[string]bool {
	out := map[string]bool{}
	for _, name := range []string{"CPUManagerPolicyAlphaOptions", "CPUManagerPolicyAlphaOptions",
		"CPUManagerPolicyBetaOptions", "TopologyManagerPolicyBetaOptions"} {
		if d.IntN(4) == 0 {
			out[name] = d.IntN(3) > 0 || strings.Contains(name, "Alpha")
		}
	}
	if d.rare() {
		// Gates on which others depend are left out: which ones do is not known to Tenon.
		out[pick(d, "MemoryManager", "SidecarContainers", "InPlacePodVerticalScaling", "DRAExtendedResource",
			"PodLevelResourceManagers")] = d.IntN(2) == 0
	}
	return out
}

// reservations are mostly such that they add up.
func (d *drawn) reservations(c map[string]any, m *topo.Machine) {
	bytes := int64(0)
	for _, field := range []string{"systemReserved", "kubeReserved"} {
		if d.IntN(3) == 0 {
			continue
		}
		n := pick(d, int64(1)<<30, 1329<<20+5000, 10050<<20/4, 12345)
		bytes += n
		list := map[string]string{"memory": fmt.Sprint(n), "cpu": pick(d, "1", "500m", "0", "1500m")}
		if d.rare() {
			list[pick(d, "hugepages-2Mi", "ephemeral-storage", "cpu", "pid", "memory")] = pick(d, "1Gi", "100", "-1", "x")
		}
		c[field] = list
	}
	all := int64(0)
	for _, n := range m.NUMAs() {
		all += n.Bytes
	}
	switch d.IntN(5) {
	case 0, 1:
		bytes += 100 << 20
	case 2:
		c["evictionHard"] = map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}
		bytes += 1 << 30
	case 3: // by hand, as the kubelet's float32 makes it of 5 and 12.5 percent
		text := pick(d, "5%", "12.5%", "0%", "100%")
		c["evictionHard"] = map[string]string{"memory.available": text}
		bytes += map[string]int64{"5%": int64(float64(all) * float64(float32(5)/100)), "12.5%": all / 8}[text]
	case 4:
		c["evictionHard"] = map[string]string{"nodefs.available": "10%"}
	}
	if d.rare() {
		c["evictionHard"] = map[string]string{pick(d, "memory.available", "memory"): pick(d, "0", "-1", "101%", "x", "1Gi")}
	}
	if d.IntN(2) == 0 {
		return
	}
	if _, bad := c["memoryManagerPolicy"]; !bad {
		c["memoryManagerPolicy"] = pick(d, "Static", "Static", "Static", "None", "")
	}
	c["reservedMemory"] = d.split(bytes, m)
}

// split reserves bytes on NUMA nodes.
func (d *drawn) split(bytes int64, m *topo.Machine) (out []any) {
	add := func(numa int, kind, amount string) {
		out = append(out, map[string]any{"numaNode": numa, "limits": map[string]string{kind: amount}})
	}
	last := len(m.NUMAs()) - 1
	if last > 0 && bytes > 1 && d.IntN(2) == 0 {
		part := 1 + d.Int64N(bytes-1)
		add(int(m.NUMAs()[last].ID), "memory", fmt.Sprint(part))
		bytes -= part
	}
	if d.rare() {
		bytes += pick(d, int64(1), -1, 4096)
	}
	if bytes > 0 || d.rare() {
		add(0, "memory", fmt.Sprint(bytes))
	}
	if d.rare() {
		add(pick(d, 0, 1, 77), pick(d, "hugepages-2Mi", "memory", "storage"), pick(d, "0", "10Mi", "500m"))
	}
	return out
}
