package sysfs_test

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// drawSpec draws a machine: sparse NUMA node ids, NUMA nodes without CPUs or memory, CPU ids in any order, cores
// of one to four threads, L3 groups and sockets across NUMA nodes, hugepages, distances.
func drawSpec(t *rapid.T) topo.Spec {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 1, 6, rapid.ID).Draw(t, "numas")
	slices.Sort(ids)
	sizes := rapid.SliceOfNDistinct(rapid.SampledFrom([]int64{64 << 10, 2 << 20, 1 << 30}), 0, 3,
		rapid.ID).Draw(t, "sizes")
	slices.Sort(sizes)
	var s topo.Spec
	for range ids {
		n := topo.NUMA{ID: idset.NUMA(ids[len(s.NUMAs)]), Bytes: rapid.Int64Range(0, 1<<32).Draw(t, "kB") << 10}
		for _, size := range sizes {
			count := rapid.Int64Range(0, n.Bytes/size/int64(len(sizes))).Draw(t, "pages")
			n.Hugepages = append(n.Hugepages, topo.Hugepages{PageSize: size, Count: count})
		}
		for range ids {
			n.Distances = append(n.Distances, rapid.IntRange(1, 255).Draw(t, "distance"))
		}
		s.NUMAs = append(s.NUMAs, n)
	}
	cpus := rapid.Permutation(slices.Collect(func(yield func(idset.CPU) bool) {
		for id := range 40 {
			if !yield(idset.CPU(id * 3)) {
				return
			}
		}
	})).Draw(t, "cpus")
	for range rapid.IntRange(1, 10).Draw(t, "cores") {
		n := rapid.IntRange(1, 4).Draw(t, "threads")
		s.Cores = append(s.Cores, topo.CoreSpec{
			NUMA:   rapid.SampledFrom(s.NUMAs).Draw(t, "numa").ID,
			Socket: idset.Socket(rapid.IntRange(0, 3).Draw(t, "socket")),
			L3:     rapid.IntRange(0, 3).Draw(t, "l3"),
			CPUs:   idset.Of(cpus[:n]...),
		})
		cpus = cpus[n:]
	}
	// Hardware has no numbers for caches, so each cache has the number of its lowest CPU.
	low := map[int]int{}
	for _, c := range s.Cores {
		if old, ok := low[c.L3]; !ok || int(c.CPUs.Min()) < old {
			low[c.L3] = int(c.CPUs.Min())
		}
	}
	for i := range s.Cores {
		s.Cores[i].L3 = low[s.Cores[i].L3]
	}
	return s
}

// hardware describes the machine in the hardware's view, L3 groups by their lowest CPUs.
func hardware(f *sysfs.Found) topo.Spec {
	m := f.Machine
	if f.Hardware != nil {
		m = f.Hardware
	}
	s := m.Spec()
	for i, c := range s.Cores {
		s.Cores[i].L3 = int(m.GroupOf(topo.L3s, c.CPUs.Min()).CPUs.Min())
	}
	return s
}

func drawMachine(t *rapid.T) *topo.Machine {
	m, err := topo.New(drawSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Discovery finds the same machine that a kernel shows.
func TestDiscoverReadsWhatAKernelShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		found, err := sysfs.Discover(show(m))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m.Spec(), hardware(found)) {
			t.Fatalf("shown %+v, found %+v", m.Spec(), hardware(found))
		}
	})
}

// A kernel with a broken file is still read, or refused, or a warning is given: the machine never differs without a
// warning.
func TestNoOtherMachineInSilence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		k := show(m)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(k))).Draw(t, "file")
		switch harm := rapid.SampledFrom([]string{"removed", "empty", "NUL", "garbage", "huge", "a directory"}).Draw(t,
			"harm"); harm {
		case "removed":
			delete(k, name)
			k[path.Dir(name)] = &fstest.MapFile{Mode: fs.ModeDir} // a file can be missing, its directory stays
		case "empty":
			k[name].Data = nil
		case "NUL":
			k[name].Data = append(k[name].Data, 0)
		case "garbage":
			k[name].Data = rapid.SliceOf(rapid.Byte()).Filter(func(b []byte) bool {
				return len(b) > 0 && (b[0] < '0' || b[0] > '9') && b[0] != ' ' && b[0] != 0 && b[0] > 13
			}).Draw(t, "garbage")
		case "huge":
			k[name].Data = make([]byte, 1<<20)
		case "a directory":
			delete(k, name)
			k[name+"/file"] = &fstest.MapFile{}
		}
		found, err := sysfs.Discover(k)
		if err == nil && len(found.Warnings) == 0 && !reflect.DeepEqual(m.Spec(), hardware(found)) {
			t.Fatalf("shown %+v, found %+v without a warning", m.Spec(), hardware(found))
		}
	})
}

// Discovery and snapshot find the same in any tree, including harmed ones.
func TestSnapshotKeepsWhatDiscoveryReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := show(drawMachine(t))
		for range rapid.IntRange(0, 5).Draw(t, "harms") {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(k))).Draw(t, "file")
			if rapid.Bool().Draw(t, "remove") && len(k) > 1 {
				delete(k, name)
			} else {
				k[name].Data = []byte(rapid.SampledFrom([]string{"", "0", "0-3", "x\ny", "-1", "99999"}).Draw(t, "text"))
			}
		}
		if a, b := summary(k), summary(snapshotOf(t, k)); a != b {
			t.Fatalf("the kernel shows\n%s\nand its snapshot\n%s", a, b)
		}
	})
}

// A written snapshot reads back as the same tree, whatever names, links and texts the tree has.
func TestSnapshotWritesOnlyWhatItReadsBack(t *testing.T) {
	odd := rapid.SampledFrom([]string{"a", " ", " -> ", "\\", "\n", "\r", "-- x --", "\n-- x --\n", "..", "\x00",
		strings.Repeat("long", 150)})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(odd, 1, 3).Draw(t, "parts"), "") })
	written, refused := 0, 0
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		k := devices(outer)
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				k.put(cpuDir+"/cpu0/cache/index"+text.Draw(t, "name")+"/level", "2")
			case 1:
				k.link("sys/devices/pci0000:00/0000:00:06.0/driver", "../../../bus/pci/drivers/"+text.Draw(t, "target"))
			case 2:
				k.put("sys/bus/dax/devices/"+text.Draw(t, "device")+"/target_node", "2")
				k.put(nodeDir+"/has_normal_memory", "0")
			default:
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(k))).Draw(t, "file")
				k[name].Data = []byte("1" + text.Draw(t, "text"))
			}
		}
		var b bytes.Buffer
		if err := sysfs.Snapshot(k, &b); err != nil {
			refused++
			return
		}
		written++
		again, err := sysfs.ReadSnapshot(&b)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := summary(k), summary(again); a != b {
			t.Fatalf("the kernel shows\n%s\nand its snapshot\n%s", a, b)
		}
	})
	if written == 0 || refused == 0 {
		t.Errorf("%d snapshots were written, %d refused: one side was not tried", written, refused)
	}
}
