package sysfs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
	"github.com/tenon-numa/tenon/node/sysfs"
)

const xeon = `
numa 0 socket 0 cpus 0-3/8-11 memory 64Gi hugepages-2Mi 512 hugepages-1Gi 4
numa 1 socket 1 cpus 4-7/12-15 memory 64Gi hugepages-2Mi 0 hugepages-1Gi 4
distances 10 21
distances 21 10
`

// made are machines with properties that occur on real machines, in the form that their kernels show.
var made = map[string]func(testing.TB) kernel{
	"two-sockets": func(t testing.TB) kernel { return show(machine(t, xeon)) },

	// Sub-numa clusters: CPUs alternate between the NUMA nodes, and two NUMA nodes share their socket's L3.
	"snc": func(t testing.TB) kernel {
		s := machine(t, `
numa 0 socket 0 cpus 0,4,8/16,20,24 memory 32Gi
numa 1 socket 1 cpus 1,5,9/17,21,25 memory 32Gi
numa 2 socket 0 cpus 2,6,10/18,22,26 memory 32Gi
numa 3 socket 1 cpus 3,7,11/19,23,27 memory 32Gi
distances 10 21 11 21
distances 21 10 21 11
distances 11 21 10 21
distances 21 11 21 10
`).Spec()
		for i, c := range s.Cores {
			s.Cores[i].L3 = int(c.Socket)
		}
		m, err := topo.New(s)
		if err != nil {
			t.Fatal(err)
		}
		return show(m)
	},

	"sparse": func(t testing.TB) kernel {
		return show(machine(t, `
numa 0 socket 0 cpus 0,1/2,3 memory 16Gi
numa 8 socket 8 cpus 88,89/90,91 memory 16Gi
numa 16 socket 16 cpus 176,177/178,179 memory 16Gi
distances 10 20 40
distances 20 10 40
distances 40 40 10
`))
	},

	// Rows of distances count NUMA nodes, not ids.
	"very-sparse": func(t testing.TB) kernel {
		var text strings.Builder
		for i, id := range []int{0, 1, 2, 33, 34, 45, 72, 73} {
			fmt.Fprintf(&text, "numa %d socket %d cpus %d-%d memory 8Gi\ndistances", id, i/2, 2*i, 2*i+1)
			for j := range 8 {
				fmt.Fprintf(&text, " %d", 10+2*max(i-j, j-i))
			}
			text.WriteString("\n")
		}
		return show(machine(t, text.String()))
	},

	// NUMA node 2 is a CXL expander, NUMA node 9 the memory of a GPU, and the kind of NUMA node 10 is unknown.
	"special-memory": func(t testing.TB) kernel {
		k := show(machine(t, `
numa 0 socket 0 cpus 0-3 memory 64Gi
numa 1 socket 1 cpus 4-7 memory 64Gi
numa 2 memory 128Gi
numa 9 memory 96Gi
numa 10 memory 1Gi
numa 11
distances 10 21 14 80 30 30
distances 21 10 24 80 30 30
distances 14 24 10 80 30 30
distances 80 80 80 10 30 30
distances 30 30 30 30 10 30
distances 30 30 30 30 30 10
`))
		k.put(nodeDir+"/has_normal_memory", "0-1")
		k.put("sys/bus/dax/devices/dax0.0/target_node", "2")
		k.put("proc/driver/nvidia/gpus/0008:01:00.0/numa_status", "Node: 9\nStatus: online")
		return k
	},

	// CPU 9, a thread of core 1, is offline: NUMA nodes still list it, siblings and caches do not.
	"offline-cpu": func(t testing.TB) kernel {
		s := machine(t, xeon).Spec()
		for i, c := range s.Cores {
			s.Cores[i].CPUs = c.CPUs.Minus(cpuList(t, "9"))
		}
		m, err := topo.New(s)
		if err != nil {
			t.Fatal(err)
		}
		k := show(m)
		k.put(nodeDir+"/node0/cpulist", "0-3,8-11")
		k.put(cpuDir+"/cpu9/online", "0")
		return k
	},

	"offline-numa": func(t testing.TB) kernel {
		k := show(machine(t, "numa 1 socket 1 cpus 1,3,5,7 memory 64Gi\ndistances 10"))
		k.put(nodeDir+"/possible", "0-1")
		return k
	},

	// Firmware that gives all CPUs to every NUMA node.
	"lying-firmware": func(t testing.TB) kernel {
		k := show(machine(t, `
numa 0 socket 0 cpus 0-7 memory 8Gi
numa 1 memory 8Gi
numa 2 memory 8Gi
numa 10 memory 8Gi
distances 10 10 10 10
distances 10 10 10 10
distances 10 10 10 10
distances 10 10 10 10
`))
		for _, id := range []int{0, 1, 2, 10} {
			dir := fmt.Sprintf("%s/node%d", nodeDir, id)
			k.put(dir+"/cpulist", "0-7")
			for cpu := range 8 {
				k.link(fmt.Sprintf("%s/cpu%d", dir, cpu), fmt.Sprintf("../../cpu/cpu%d", cpu))
			}
		}
		return k
	},

	// A kernel whose lists give all CPUs to every NUMA node, while each CPU is linked in one.
	"links-unlike-lists": func(t testing.TB) kernel {
		k := show(machine(t, `
numa 0 socket 0 cpus 0,2 memory 8Gi
numa 1 socket 0 cpus 1 memory 8Gi
numa 2 socket 1 cpus 3 memory 8Gi
distances 10 20 20
distances 20 10 20
distances 20 20 10
`))
		for id := range 3 {
			k.put(fmt.Sprintf("%s/node%d/cpulist", nodeDir, id), "0-3")
		}
		return k
	},

	// Two modules of a package have the same core ids, so that the kubelet merges cores (AMD family 15h).
	"merged-cores": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 0 cpus 0-7 l3 2 memory 16Gi\ndistances 10"))
		for id := range 8 {
			k.put(fmt.Sprintf("%s/cpu%d/topology/core_id", cpuDir, id), "%d", id%4)
		}
		return k
	},

	// Cache ids that are not in the order of CPUs, so that the kubelet begins with the cache of CPUs 4-7.
	"cache-ids-descend": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 0 cpus 0-11 l3 3 memory 16Gi\ndistances 10"))
		for id := range 12 {
			k.put(fmt.Sprintf("%s/cpu%d/cache/index3/id", cpuDir, id), "%d", []int{1 << 24, 7, 9}[id/4])
		}
		return k
	},

	// A NUMA node has hugepages and no meminfo.
	"hugepages-without-memory": func(t testing.TB) kernel {
		k := show(machine(t, xeon))
		delete(k, nodeDir+"/node0/meminfo")
		return k
	},

	// A kernel without NUMA nodes on a board without package ids.
	"no-numas-no-packages": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 0 cpus 0-1 memory 1Gi\ndistances 10"))
		k.remove(nodeDir)
		for id := range 2 {
			k.put(fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, id), "-1")
		}
		k.put("proc/meminfo", "MemTotal:        1048576 kB")
		return k
	},

	// Four L3 groups on a NUMA node without ids of caches.
	"no-cache-ids": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 36 cpus 0-7 l3 4 memory 16Gi hugepages-64Ki 0 hugepages-512Mi 2\ndistances 10"))
		k.remove(cpuDir + "/cpu*/cache/index*/id")
		return k
	},

	// A small board: no package ids, no caches, and trailing NUL bytes.
	"board": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 0 cpus 0-3 memory 2Gi\ndistances 10"))
		for id := range 4 {
			k.put(fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, id), "-1")
			k.remove(fmt.Sprintf("%s/cpu%d/cache", cpuDir, id))
		}
		for name := range k {
			k[name].Data = append(k[name].Data, 0)
		}
		return k
	},

	// Distances that depend on the direction; one row also counts the offline NUMA node.
	"odd-distances": func(t testing.TB) kernel {
		k := show(machine(t, `
numa 0 socket 0 cpus 0,1 memory 8Gi
numa 2 socket 1 cpus 2,3 memory 8Gi
distances 10 21
distances 31 10
`))
		k.put(nodeDir+"/possible", "0-2")
		k.put(nodeDir+"/node0/distance", "10 14 21")
		return k
	},

	// Files that are missing, empty, or contain impossible values.
	"holes": func(t testing.TB) kernel {
		k := show(machine(t, xeon))
		k.put(cpuDir+"/online", "")
		delete(k, nodeDir+"/node0/meminfo")
		k.remove(nodeDir + "/node0/hugepages")
		k.put(nodeDir+"/node1/distance", "")
		k.put(nodeDir+"/node1/cpulist", "4-6,12-15")
		k.put(nodeDir+"/node1/hugepages/hugepages-2048kB/nr_hugepages", "-1")
		delete(k, cpuDir+"/cpu1/topology/core_cpus_list")
		k.put(cpuDir+"/cpu2/topology/core_id", "many")
		k.put(cpuDir+"/cpu5/cache/index3/shared_cpu_list", "0-99999")
		return k
	},

	// Pages that take more memory than there is are an error.
	"too-many-pages": func(t testing.TB) kernel {
		k := show(machine(t, xeon))
		k.put(nodeDir+"/node0/hugepages/hugepages-1048576kB/nr_hugepages", "65")
		return k
	},

	// A kernel without NUMA nodes: memory is known for the whole machine alone.
	"no-numas": func(t testing.TB) kernel {
		k := show(machine(t, "numa 0 socket 3 cpus 0-1 memory 1Gi\ndistances 10"))
		k.remove(nodeDir)
		k.put("proc/meminfo", "MemTotal:        1048576 kB\nMemFree:         1000 kB")
		k.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16")
		return k
	},
	"no-numas-two-sockets": func(t testing.TB) kernel {
		k := show(machine(t, xeon))
		k.remove(nodeDir)
		k.put("proc/meminfo", "MemTotal:        1048576 kB")
		return k
	},

	"devices": devices,
}

func devices(t testing.TB) kernel {
	k := show(machine(t, xeon))
	k.pci("0000:00/0000:00:1f.0", 0x060100, 0x8086, 0x1bc9, -1)
	k.pci("0000:00/0000:00:02.0", 0x030000, 0x1a03, 0x2000, 0) // the console of a baseboard controller
	k.pci("0000:00/0000:00:06.0", 0x0b4000, 0x8086, 0x4940, 0)
	// The bridge has a NUMA node, the switch below it and the GPU have none.
	k.pci("0000:16/0000:16:01.0", 0x060400, 0x8086, 0x352a, 1)
	k.pci("0000:16/0000:16:01.0/0000:17:00.0", 0x060400, 0x11f8, 0x4128, -1)
	gpu := k.pci("0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0", 0x030200, 0x10de, 0x2330, -1)
	k.link(gpu+"/driver", "../../../../../bus/pci/drivers/nvidia")
	// Two functions of one card on two NUMA nodes, and virtual functions of the second.
	k.pci("0000:00/0000:00:03.0", 0x060400, 0x8086, 0x3c04, 0)
	k.pci("0000:00/0000:00:03.0/0000:05:00.0", 0x020000, 0x8086, 0x1521, 0)
	nic := k.pci("0000:00/0000:00:03.0/0000:05:00.1", 0x020000, 0x8086, 0x1521, 1)
	k.link(nic+"/driver", "../../../../bus/pci/drivers/igb")
	for _, n := range []string{"10.1", "10.5"} {
		vf := k.pci("0000:00/0000:00:03.0/0000:05:"+n, 0x020000, 0x8086, 0x1520, 1)
		k.link(vf+"/physfn", "../0000:05:00.1")
	}
	k.pci("0000:80/0000:80:01.0", 0x020700, 0x15b3, 0x1021, 1)
	k.pci("0000:80/0000:80:02.0", 0x120000, 0x1002, 0x74a1, 7) // no such NUMA node
	k.pci("10000:00/10000:00:04.0", 0x010802, 0x144d, 0xa80a, -1)
	return k
}

// The discovery of every snapshot in testdata matches its text file; the made ones match their kernels, and discovery
// finds the same in kernel and snapshot. Those named kernel-* were taken on real kernels that test/vm/guest booted.
func TestSnapshots(t *testing.T) {
	for name, make := range made {
		var b bytes.Buffer
		k := make(t)
		if err := sysfs.Snapshot(k, &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden.Check(t, filepath.Join("testdata", name+".txtar"), b.String())
		snapshot, err := sysfs.ReadSnapshot(&b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a, b := summary(k), summary(snapshot); a != b {
			t.Errorf("%s: the kernel shows\n%s\nand its snapshot\n%s", name, a, b)
		}
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < len(made)+1 {
		t.Fatalf("%d snapshots, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := sysfs.ReadSnapshot(data)
		data.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		golden.Check(t, strings.TrimSuffix(file, "ar"), summary(snapshot))
	}
}

// summary returns all that is found in a tree.
func summary(fsys fs.FS) string {
	var b strings.Builder
	found, err := sysfs.Discover(fsys)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	m := found.Machine
	for i, n := range m.NUMAs() {
		fmt.Fprintf(&b, "numa %d cpus %q %s %s", n.ID, n.CPUs, topo.FormatBytes(n.Bytes), found.Kinds[n.ID])
		for _, h := range n.Hugepages {
			fmt.Fprintf(&b, ", %d %s", h.Count, h.Kind())
		}
		fmt.Fprintf(&b, ", distances %v\n", n.Distances)
		for _, core := range m.Cores() {
			if c, _ := m.CPU(m.CoreCPUs(core).Min()); c.NUMA == i {
				fmt.Fprintf(&b, "  core %s socket %d l3 %d\n", m.CoreCPUs(core), c.Socket, c.L3)
			}
		}
	}
	if h := found.Hardware; h != nil {
		for _, core := range h.Cores() {
			c, _ := h.CPU(h.CoreCPUs(core).Min())
			fmt.Fprintf(&b, "hardware core %s socket %d l3 %d\n", h.CoreCPUs(core), c.Socket, c.L3)
		}
		for _, n := range h.NUMAs() {
			fmt.Fprintf(&b, "hardware numa %d %s %v\n", n.ID, topo.FormatBytes(n.Bytes), n.Hugepages)
		}
	}
	functions, odd, err := sysfs.PCI(fsys, m)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, f := range functions {
		fmt.Fprintf(&b, "pci %s %s %06x %04x:%04x numa %d", f.Address, f.Kind, f.Class, f.Vendor, f.Device, f.NUMA)
		if f.Root != "" {
			b.WriteString(" root " + f.Root)
		}
		if f.Driver != "" {
			b.WriteString(" driver " + f.Driver)
		}
		if f.Physical != "" {
			b.WriteString(" of " + f.Physical)
		}
		b.WriteString("\n")
	}
	for _, w := range append(found.Warnings, odd...) {
		fmt.Fprintf(&b, "! %s\n", w)
	}
	return b.String()
}

// Discovery can read the machine that this test runs on, directly and as a snapshot.
func TestHost(t *testing.T) {
	found, err := sysfs.Discover(sysfs.Host())
	if err != nil {
		t.Fatalf("no Linux here, or one whose CPUs are hidden: %v", err)
	}
	var b bytes.Buffer
	if err := sysfs.Snapshot(sysfs.Host(), &b); err != nil {
		t.Fatal(err)
	}
	again, err := sysfs.Read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(found.Machine.Spec(), again.Machine.Spec()) {
		t.Errorf("the host is %+v, its snapshot %+v", found.Machine.Spec(), again.Machine.Spec())
	}
}
