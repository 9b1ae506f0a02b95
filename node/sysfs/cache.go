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
	cpus  cpuSet // the CPUs that share it
	level int
}

const maxCacheLevel = 16

// lastLevel returns a CPU's cache of level 3 or, if it has none, its highest unified cache above level 1. ok is false
// if there is no such cache, or if its list of CPUs cannot be used.
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
	return c, true
}

// groups finds the L3 groups of the hardware: CPUs that share a cache form one group, numbered by its lowest known CPU.
// Cores without such a cache are grouped by socket, as the kubelet groups them.
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
		t.warn(NoCache, path.Join(cpuDir, "cpu*/cache"),
			"%d of %d cores tell of no last-level cache: their L3 group is the socket",
			len(cores)-found, len(cores))
	}
	t.checkShared(cores, caches, cpus)
}

// checkShared warns if CPUs that share a cache contradict each other about which CPUs share it.
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
