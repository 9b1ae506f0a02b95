package sysfs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file derives the CPUs of the machine in the view of the kubelet's CPU manager. cadvisor reports cores and caches
// (utils/sysinfo, getCoresInfo and addCacheInfo), and the kubelet makes its topology of the report
// (pkg/kubelet/cm/cpumanager/topology, Discover). The rules are:
//
//   - CPUs are read in the order of their directories' names: cpu0, cpu1, cpu10, cpu2.
//   - CPUs of one NUMA node with equal core_id and physical_package_id are one core.
//   - A CPU without one of these files is left out.
//   - A NUMA node's caches are read until one cannot be; the cores from there on have no cache.
//   - A cache above level 2 is a core's uncore cache, unless it has as many CPUs as the NUMA node.
//   - A core's L3 group is the id of its first uncore cache, or else the id of its package.
//   - If several NUMA nodes have a CPU, the last one by name keeps it.

// reportedCore is a core as cadvisor reports it. l3 is the id of its uncore cache, or else of its package.
type reportedCore struct {
	numa    idset.NUMA
	id, pkg int
	threads []idset.CPU // by name
	l3      int
}

// byName orders numbers as directories are ordered that end in them: 0, 1, 10, 2.
func byName(a, b int) int { return cmp.Compare(strconv.Itoa(a), strconv.Itoa(b)) }

// kubeletCores returns the cores of the kubelet's topology. Their sockets and L3 groups have the kubelet's numbers, or
// their ranks if topo cannot hold these numbers.
func (t *tree) kubeletCores(nodes []node, cpus map[idset.CPU]cpu) []topo.CoreSpec {
	last := map[idset.CPU]reportedCore{}
	counted := 0
	named := func(a, b node) int { return byName(int(a.id), int(b.id)) }
	for _, n := range slices.SortedFunc(slices.Values(nodes), named) {
		for _, c := range t.reportedCores(n, cpus) {
			counted += len(c.threads)
			for _, id := range c.threads {
				last[id] = c
			}
		}
	}
	if t.counted > 0 {
		counted = t.counted
	}
	if counted != len(last) && len(last) > 0 {
		t.warn(KubeletCount, cpuDir, "the kubelet counts %d CPUs, but has %d: "+
			"it takes cores and sockets for free by a wrong size", counted, len(last))
	}
	type key struct {
		numa idset.NUMA
		core idset.CPU // the kubelet names a core by its lowest CPU (getUniqueCoreID)
	}
	at := map[key]int{}
	var out []topo.CoreSpec
	for id := range idset.Of(keys(last)...).All() {
		c := last[id]
		k := key{c.numa, slices.Min(c.threads)}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, topo.CoreSpec{NUMA: c.numa, Socket: idset.Socket(c.pkg), L3: c.l3})
		}
		out[i].CPUs = out[i].CPUs.With(id)
	}
	renumber(out, func(c *topo.CoreSpec) *idset.Socket { return &c.Socket }, idset.Max)
	renumber(out, func(c *topo.CoreSpec) *int { return &c.L3 }, topo.MaxL3)
	return out
}

func keys[V any](m map[idset.CPU]V) []idset.CPU {
	out := make([]idset.CPU, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// renumber replaces the numbers in a field of all cores by their ranks, if one of the numbers is below 0 or above the
// given maximum.
func renumber[T ~int](cores []topo.CoreSpec, field func(*topo.CoreSpec) *T, high T) {
	var all []T
	for i := range cores {
		all = append(all, *field(&cores[i]))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 || all[0] >= 0 && all[len(all)-1] <= high {
		return
	}
	for i := range cores {
		f := field(&cores[i])
		rank, _ := slices.BinarySearch(all, *f)
		*f = T(rank)
	}
}

// reportedCores returns the cores of a NUMA node as cadvisor reports them, with their L3 groups.
func (t *tree) reportedCores(n node, cpus map[idset.CPU]cpu) (out []reportedCore) {
	type key struct{ id, pkg int }
	at := map[key]int{}
	for _, id := range slices.SortedFunc(n.claimed.All(), func(a, b idset.CPU) int { return byName(int(a), int(b)) }) {
		c := cpus[id]
		if c.core == unknown || c.pkg == unknown {
			t.warn(KubeletCores, topologyFile(id, "core_id"),
				"the kubelet leaves out CPU %d, which lacks core_id or physical_package_id", id)
			continue
		}
		k := key{c.core, c.pkg}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, reportedCore{numa: n.id, id: c.core, pkg: c.pkg, l3: c.pkg})
		}
		out[i].threads = append(out[i].threads, id)
	}
	for i := range out {
		caches, ok := t.reportedCaches(out[i].threads[0])
		if !ok {
			break
		}
		for _, c := range caches {
			if c.level > 2 && c.cpus != len(out)*len(out[i].threads) {
				out[i].l3 = c.id
				break
			}
		}
	}
	return out
}

// reportedCache is a cache as cadvisor reports it.
type reportedCache struct{ id, level, cpus int }

// reportedCaches reads all caches of a CPU, in the order of their directories' names. ok is false if cadvisor would
// fail to read one of them.
func (t *tree) reportedCaches(id idset.CPU) (out []reportedCache, ok bool) {
	dir := fmt.Sprintf("%s/cpu%d/cache", cpuDir, id)
	names, err := t.list(dir)
	if err != nil {
		return nil, false
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "index") {
			continue
		}
		c, skip, ok := t.reportedCache(path.Join(dir, name))
		switch {
		case !ok:
			return nil, false
		case !skip:
			out = append(out, c)
		}
	}
	return out, true
}

// reportedCache reads one cache; ok is false if cadvisor would fail to read it. Every kernel has shared_cpu_map.
// Snapshots of older releases lack it, and have only the level of caches below the last one. Such a cache cannot be
// an uncore cache, so skip is true for it.
func (t *tree) reportedCache(dir string) (c reportedCache, skip, ok bool) {
	level, known := t.leading(dir + "/level")
	text, hasMap := t.text(dir + "/shared_cpu_map")
	if !hasMap && known && level <= 2 {
		return c, true, true
	}
	id, identified := t.leading(dir + "/id")
	_, sized := t.leading(dir + "/size")
	if _, typed := t.text(dir + "/type"); !known || !identified || !sized || !typed {
		return c, false, false
	}
	c = reportedCache{id: id, level: level}
	if !hasMap {
		set, ok := ids[idset.CPU](t, dir+"/shared_cpu_list")
		c.cpus = set.Len()
		return c, false, ok
	}
	set, err := parseMask(text)
	c.cpus = set.Len()
	return c, false, err == nil
}

// leading reads the number that a file begins with, as fmt.Sscanf does; it returns false if there is none.
func (t *tree) leading(file string) (int, bool) {
	text, ok := t.text(file)
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '-' && r != '+' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.Atoi(text[:end])
	return n, err == nil
}

// compareViews warns if a core or an L3 group in the kubelet's view has other CPUs than in the hardware's view. It
// reports only the first difference of each kind.
func (t *tree) compareViews(inKubelet, inHardware *topo.Machine) {
	for _, level := range []struct {
		kind topo.Level
		name Anomaly
		what string
	}{
		{topo.Cores, KubeletCores, "the kubelet takes CPUs %s for one core, which has CPUs %s"},
		{topo.L3s, KubeletL3, "the kubelet takes CPUs %s for one L3 group, which has CPUs %s; " +
			"only prefer-align-cpus-by-uncorecache minds"},
	} {
		for _, g := range inKubelet.Groups(level.kind) {
			if _, ok := inHardware.CPU(g.CPUs.Min()); !ok {
				continue
			}
			if own := inHardware.GroupOf(level.kind, g.CPUs.Min()).CPUs; !own.Equal(g.CPUs) {
				t.warn(level.name, fmt.Sprintf("%s/cpu%d", cpuDir, g.CPUs.Min()), level.what,
					clip(g.CPUs.String()), clip(own.String()))
				break
			}
		}
	}
}

// recordBlind records, once for a tree, that cadvisor reports no topology at all because it cannot read the file. A
// kubelet with static managers does not start then. format and args describe the problem.
func (t *tree) recordBlind(file, format string, args ...any) {
	if !t.blind {
		t.blind = true
		t.warn(KubeletBlind, file,
			format+": cadvisor reports no topology, and a kubelet with static managers does not start", args...)
	}
}
