package sysfs

import (
	"fmt"
	"path"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads /sys/devices/system/cpu/cpuN/cache (Documentation/ABI/testing/sysfs-devices-system-cpu).

// cache is a last-level cache.
type cache struct {
	cpus  cpuSet // that share it
	level int
	id    int // unknown where the kernel tells none; unique per level
	sized bool
}

const maxCacheLevel = 16

// lastLevel finds the cache of level 3 of a CPU, or else its highest unified one above level 1.
func (t *tree) lastLevel(id idset.CPU) (c cache, ok bool) {
	dir := fmt.Sprintf("%s/cpu%d/cache", cpuDir, id)
	best := ""
	for _, i := range t.numbered(dir, "index") {
		index := fmt.Sprintf("%s/index%d", dir, i)
		level := t.number(index+"/level", 0, 1, maxCacheLevel)
		if level < 2 || c.level == 3 || level != 3 && level <= c.level {
			continue
		}
		if kind, _ := t.text(index + "/type"); kind != "Unified" && level != 3 {
			continue
		}
		c.level, best = level, index
	}
	if best == "" {
		return cache{}, false
	}
	if c.cpus, ok = t.cpus(best, []string{"shared_cpu_list"}, []string{"shared_cpu_map"}); !ok || !c.cpus.Has(id) {
		t.warn(Malformed, best+"/shared_cpu_list", "the list lacks CPU %d itself: the cache is not believed", id)
		return cache{}, false
	}
	c.id = t.number(best+"/id", unknown, 0, maxKernelID)
	size, _ := t.text(best + "/size")
	c.sized = size != ""
	return c, true
}

// groups numbers the L3 groups of the cores: CPUs that share a cache are one group, named by the lowest
// CPU of it that is known. Cores without such a cache are grouped by socket, as the kubelet does.
func (t *tree) groups(cores []topo.CoreSpec, cpus map[idset.CPU]cpu) {
	caches := make([]cache, len(cores))
	found := 0
	for i := range cores {
		c, ok := t.lastLevel(cores[i].CPUs.Min())
		if !ok {
			cores[i].L3 = idset.Max + 1 + int(cores[i].Socket)
			continue
		}
		found++
		caches[i] = c
		for id := range c.cpus.All() {
			if _, ok := cpus[id]; ok {
				cores[i].L3 = int(id)
				break
			}
		}
	}
	if found < len(cores) {
		t.warn(NoCache, path.Join(cpuDir, "cpu*/cache"), "%d of %d cores tell of no last-level cache: their L3 group is the socket",
			len(cores)-found, len(cores))
	}
	t.checkShared(cores, caches, cpus)
	t.checkGroups(cores, caches)
}

// checkShared says where CPUs of one cache disagree on which CPUs share it.
func (t *tree) checkShared(cores []topo.CoreSpec, caches []cache, cpus map[idset.CPU]cpu) {
	groups := map[int]cpuSet{}
	for _, c := range cores {
		groups[c.L3] = groups[c.L3].Union(c.CPUs)
	}
	var known []idset.CPU
	for id := range cpus {
		known = append(known, id)
	}
	all := idset.Of(known...)
	for i, c := range cores {
		if caches[i].level > 0 && !caches[i].cpus.And(all).Equal(groups[c.L3]) {
			t.warn(Caches, fmt.Sprintf("%s/cpu%d/cache", cpuDir, c.CPUs.Min()), "CPUs %s share it, but CPUs %s say that they do",
				clip(caches[i].cpus.String()), clip(groups[c.L3].String()))
			return
		}
	}
}

// checkGroups says where the kubelet sees other L3 groups. cadvisor drops the caches of a core that lack
// an id or a size, and those of exactly the numa's CPUs; a core without one is grouped by its socket
// (cadvisor utils/sysinfo, addCacheInfo; kubelet cpumanager/topology, getUncoreCacheID).
func (t *tree) checkGroups(cores []topo.CoreSpec, caches []cache) {
	perNUMA := map[idset.NUMA]int{}
	for _, c := range cores {
		perNUMA[c.NUMA]++
	}
	theirs, ours := map[int]int{}, map[int]int{}
	for i, c := range cores {
		group := int(c.Socket)
		if x := caches[i]; x.level > 2 && x.id != unknown && x.sized && x.cpus.Len() != perNUMA[c.NUMA]*c.CPUs.Len() {
			group = x.id
		}
		a, seenA := theirs[group]
		b, seenB := ours[c.L3]
		if seenA && a != c.L3 || seenB && b != group {
			t.warn(KubeletL3, fmt.Sprintf("%s/cpu%d/cache", cpuDir, c.CPUs.Min()),
				"the kubelet groups CPUs by other caches than the hardware has; only prefer-align-cpus-by-uncorecache minds")
			return
		}
		theirs[group], ours[c.L3] = c.L3, group
	}
}
