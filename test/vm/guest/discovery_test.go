package guest

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// smt is a CPU model that shows threads: without the vendor Linux treats the CPU as one of AMD's, which reports threads
// in a way that QEMU does not emulate.
const smt = "max,vendor=GenuineIntel"

func set(list string) idset.Set[idset.CPU] {
	s, err := idset.Parse[idset.CPU](list)
	if err != nil {
		panic(err)
	}
	return s
}

var machines = []described{
	{
		name: "two sockets with threads, hugepages, devices and a CPU that is offline",
		cpu:  smt, sockets: 2, dies: 1, cores: 2, threads: 2,
		numas: []describedNUMA{
			{cpus: "0-3", mib: 1024, hugepages: map[int]int{2 << 10: 64}},
			{cpus: "4-7", mib: 2560, hugepages: map[int]int{2 << 10: 32, 1 << 20: 1}},
		},
		distances: [][]int{{10, 21}, {21, 10}},
		devices: []describedDevice{
			{qemu: "e1000e", numa: 0, vendor: 0x8086, device: 0x10d3, kind: sysfs.NIC},
			{qemu: "nvme,serial=a,subsys=s,sriov_max_vfs=1,sriov_vq_flexible=2,sriov_vi_flexible=1,max_ioqpairs=4,msix_qsize=5",
				numa: 1, vendor: 0x1b36, device: 0x0010, kind: sysfs.NVMe},
			{qemu: "the nvme's virtual function", virtual: true, numa: 1, vendor: 0x1b36, device: 0x0010, kind: sysfs.NVMe},
			{qemu: "virtio-gpu-pci", numa: 1, vendor: 0x1af4, device: 0x1050, kind: sysfs.Other},
			{qemu: "virtio-rng-pci", numa: -1, vendor: 0x1af4, device: 0x1005, kind: sysfs.Other},
		},
		args:    []string{"-device", "nvme-subsys,id=s"},
		modules: []string{"nvme"},
		script: `echo 0 >/sys/devices/system/cpu/cpu5/online
			for f in /sys/bus/pci/devices/*/sriov_numvfs; do echo 1 >$f; done`,
		offline: set("5"),
	},
	{
		name: "four NUMA nodes of two sockets, each with two dies",
		cpu:  smt, sockets: 2, dies: 2, cores: 2, threads: 1,
		numas: []describedNUMA{{cpus: "0-1", mib: 256}, {cpus: "2-3", mib: 256}, {cpus: "4-5", mib: 256},
			{cpus: "6-7", mib: 256}},
		distances: [][]int{{10, 12, 21, 22}, {12, 10, 22, 23}, {21, 22, 10, 12}, {22, 23, 12, 10}},
		// The kubelet ignores a cache of exactly one NUMA node, and uses the socket instead.
		warnings: []sysfs.Anomaly{sysfs.KubeletL3},
	},
	{
		name: "several L3 groups on each NUMA node, CPUs dealt in turn, distances that differ by direction",
		cpu:  smt, sockets: 4, dies: 2, cores: 1, threads: 2,
		numas:     []describedNUMA{{cpus: "0-3,8-11", mib: 384}, {cpus: "4-7,12-15", mib: 384}},
		distances: [][]int{{10, 25}, {21, 10}},
		warnings:  []sysfs.Anomaly{sysfs.OddDistances},
	},
	{
		name: "far memory: a NUMA node without CPUs, and one whose memory was plugged in",
		cpu:  smt, sockets: 1, dies: 1, cores: 2, threads: 1,
		numas:     []describedNUMA{{cpus: "0-1", mib: 512}, {mib: 512}, {mib: 512, dimm: true, kind: sysfs.MovableMemory}},
		distances: [][]int{{10, 17, 28}, {17, 10, 28}, {28, 28, 10}},
		script:    "for f in /sys/devices/system/node/node2/memory*/state; do echo online_movable >$f; done",
		warnings:  []sysfs.Anomaly{sysfs.SpecialMemory},
	},
	{
		name: "a NUMA node that has only CPUs, and one whose memory is offline",
		cpu:  smt, sockets: 2, dies: 1, cores: 2, threads: 1,
		numas: []describedNUMA{
			{cpus: "0-1", mib: 512},
			{cpus: "2-3", kind: sysfs.NoMemory},
			{mib: 512, dimm: true, offline: true, kind: sysfs.NoMemory},
		},
		distances: [][]int{{10, 20, 30}, {20, 10, 30}, {30, 30, 10}},
	},
	{
		name: "a NUMA node that has nothing, and devices behind it",
		cpu:  smt, sockets: 3, dies: 1, cores: 1, threads: 1,
		numas:     []describedNUMA{{cpus: "0", mib: 384}, {absent: true}, {cpus: "1", mib: 384}, {cpus: "2", mib: 384}},
		distances: [][]int{{10, 12, 13, 14}, {12, 10, 15, 16}, {13, 15, 10, 17}, {14, 16, 17, 10}},
		devices: []describedDevice{
			{qemu: "e1000e", numa: 2, vendor: 0x8086, device: 0x10d3, kind: sysfs.NIC},
			{qemu: "virtio-rng-pci", numa: 3, vendor: 0x1af4, device: 0x1044, kind: sysfs.Other},
		},
	},
	{
		name: "arm64 with hugepages and a NUMA node that has nothing",
		arch: "arm64", cpu: "cortex-a72", sockets: 2, dies: 1, cores: 2, threads: 1,
		numas: []describedNUMA{
			{cpus: "0-1", mib: 512, hugepages: map[int]int{64: 16, 2 << 10: 8}},
			{kind: sysfs.NoMemory},
			{cpus: "2-3", mib: 512, hugepages: map[int]int{2 << 10: 16, 32 << 10: 1}},
		},
		distances: [][]int{{10, 15, 40}, {15, 10, 15}, {40, 15, 10}},
		warnings:  []sysfs.Anomaly{sysfs.NoCache},
	},
	{
		name: "arm64 with threads and ids of NUMA nodes that are not in a row",
		arch: "arm64", cpu: "cortex-a72", sockets: 2, dies: 1, cores: 1, threads: 2,
		numas:    []describedNUMA{{cpus: "0-1", mib: 512}, {absent: true}, {cpus: "2-3", mib: 512}},
		warnings: []sysfs.Anomaly{sysfs.NoCache},
	},
}

// On a real kernel the agent finds what QEMU was configured to show, and what the kubelet finds.
func TestDiscovery(t *testing.T) {
	programs := map[string]func() (map[string]File, error){}
	for _, arch := range []string{"amd64", "arm64"} {
		dir := t.TempDir()
		programs[arch] = sync.OnceValues(func() (map[string]File, error) { return build(dir, arch) })
	}
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Find(m.arch); err != nil {
				skip(t, err)
			}
			c := m.config()
			var err error
			if c.Files, err = programs[cmp.Or(m.arch, "amd64")](); err != nil {
				t.Fatal(err)
			}
			g := booted(t, c)
			if m.script != "" {
				run(t, g, m.script)
			}
			text := run(t, g, "/tenon-agent snapshot")
			fsys, err := sysfs.ReadSnapshot(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			found, err := sysfs.Discover(fsys)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			m.check(t, found)
			if balances(t, g) {
				m.warnings = append(slices.Clone(m.warnings), sysfs.NUMABalancing)
			}
			m.checkWarnings(t, found, said(text))
			m.checkDevices(t, fsys)
			checkKubelet(t, found, run(t, g, "/cadvisor 2>/dev/null"))
			if t.Failed() {
				t.Logf("the snapshot:\n%s", text)
			}
		})
	}
}

// balances reports whether the kernel balances NUMA nodes. By default it does where it has several.
func balances(t *testing.T, g *Guest) bool {
	t.Helper()
	text := strings.TrimSpace(run(t, g, "cat /proc/sys/kernel/numa_balancing 2>/dev/null || echo none"))
	return text != "none" && text != "0"
}

// said returns the warnings of the agent in the guest.
func said(snapshot string) (out []string) {
	comment, _, _ := strings.Cut(snapshot, "\n-- ")
	for line := range strings.Lines(comment) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "warning: "); ok {
			out = append(out, text)
		}
	}
	return out
}

func (m described) check(t *testing.T, found *sysfs.Found) {
	machine := found.Machine
	if found.Hardware != nil {
		machine = found.Hardware
	}
	got, want := machine.Spec(), m.spec()
	if g, w := describe(got), describe(want); !slices.Equal(g, w) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
	}
	for i, d := range m.numas {
		at, ok := found.Machine.Position(m.id(i))
		if d.absent || !ok {
			continue
		}
		n := got.NUMAs[at]
		// The kernel reserves some of the memory for itself.
		most := int64(d.mib) << 20
		if d.offline {
			most = 0
		}
		if n.Bytes > most || n.Bytes < most/4*3 {
			t.Errorf("NUMA node %d has %d bytes, want nearly %d", n.ID, n.Bytes, most)
		}
		if kind := found.Kinds[n.ID]; kind != cmp.Or(d.kind, sysfs.OrdinaryMemory) {
			t.Errorf("memory of NUMA node %d is %q, want %q", n.ID, kind, d.kind)
		}
	}
}

func (m described) checkWarnings(t *testing.T, found *sysfs.Found, said []string) {
	var odd []sysfs.Anomaly
	var here []string
	for _, w := range found.Warnings {
		odd = append(odd, w.Name)
		here = append(here, w.String())
	}
	slices.Sort(odd)
	want := slices.Sorted(slices.Values(m.warnings))
	if odd = slices.Compact(odd); !slices.Equal(odd, want) {
		t.Errorf("warnings %q, want %q:\n%v", odd, want, found.Warnings)
	}
	if !slices.Equal(here, said) {
		t.Errorf("warnings of the snapshot %q, and in the guest %q", here, said)
	}
}

func (m described) checkDevices(t *testing.T, fsys fs.FS) {
	functions, warnings, err := sysfs.PCI(fsys, nil)
	if err != nil || len(warnings) > 0 {
		t.Errorf("PCI: %v, warnings %v", err, warnings)
	}
	for _, d := range m.devices {
		var numas []string
		for _, f := range functions {
			if f.Vendor == d.vendor && f.Device == d.device && (f.Physical != "") == d.virtual {
				numas = append(numas, fmt.Sprintf("%s on NUMA node %d", f.Kind, f.NUMA))
			}
		}
		if want := []string{fmt.Sprintf("%s on NUMA node %d", d.kind, m.id(d.numa))}; !slices.Equal(numas, want) {
			t.Errorf("%s is %q, want %q", d.qemu, numas, want)
		}
	}
}

// build builds the agent as it is released, without a C library, and the program that prints the kubelet's view of a
// machine.
func build(dir, arch string) (map[string]File, error) {
	files := map[string]File{}
	for _, source := range []string{"../../../cmd/tenon-agent", "./testdata/cadvisor"} {
		// go test takes a result from its cache unless a file that the test itself opened has changed.
		sources, err := filepath.Glob(source + "/*.go")
		if err != nil {
			return nil, fmt.Errorf("list sources: %w", err)
		}
		if len(sources) == 0 {
			return nil, fmt.Errorf("no sources in %s", source)
		}
		for _, file := range sources {
			if _, err := os.ReadFile(file); err != nil {
				return nil, err
			}
		}
		program := filepath.Join(dir, filepath.Base(source))
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w\n%s", source, arch, err, out)
		}
		files["/"+filepath.Base(source)] = File{Host: program, Mode: 0o755}
	}
	return files, nil
}
