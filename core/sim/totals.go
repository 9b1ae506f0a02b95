package sim

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file models kube-scheduler's NodeResourcesFit: amounts of whole nodes, without NUMA nodes. Every contender
// respects its result, since the plugin runs in every profile.

const cpuName = "cpu"

// amounts are indexed like resources: thousandths of CPUs, bytes, devices.
type amounts []int64

// resources are all resources in the machines and shapes of a trace, "cpu" first, then by name.
type resources []string

func resourcesOf(t *Trace) resources {
	seen := map[string]bool{}
	for _, f := range t.Fleets {
		for _, k := range f.Machine.Kinds() {
			seen[k] = true
		}
		for _, r := range f.Machine.Resources() {
			seen[r.Name] = true
		}
	}
	for _, s := range t.Shapes {
		for _, c := range s.Pod.Containers {
			for _, a := range c.Memory {
				seen[a.Kind] = true
			}
			for _, d := range c.Devices {
				seen[d.Resource] = true
			}
		}
	}
	delete(seen, cpuName)
	return append(resources{cpuName}, slices.Sorted(maps.Keys(seen))...)
}

func (rs resources) index(name string) int { return slices.Index(rs, name) }

// allocatable returns what pods may have on an empty machine.
func (rs resources) allocatable(u *place.Usage) amounts {
	out := make(amounts, len(rs))
	out[0] = int64(u.FreeCPUs().Len()) * 1000
	for i := range u.Machine.NUMAs() {
		for _, k := range u.Kinds() {
			out[rs.index(k)] += u.Allocatable(i, k)
		}
	}
	for _, r := range u.Machine.Resources() {
		out[rs.index(r.Name)] = int64(len(u.FreeDevices(r.Name)))
	}
	return out
}

// request returns the requests of a pod as a whole: its app containers and sidecars together, or an init container
// with the sidecars before it, whichever is more (KEP-753).
func (rs resources) request(p *place.Pod) amounts {
	apps, sidecars, inits := make(amounts, len(rs)), make(amounts, len(rs)), make(amounts, len(rs))
	for i := range p.Containers {
		c := rs.container(&p.Containers[i])
		for r, n := range c {
			switch p.Containers[i].Kind {
			case place.Init:
				inits[r] = max(inits[r], sidecars[r]+n)
			case place.Sidecar:
				sidecars[r] += n
			default:
				apps[r] += n
			}
		}
	}
	for r := range apps {
		apps[r] = max(apps[r]+sidecars[r], inits[r])
	}
	return apps
}

// container returns the requests of one container.
func (rs resources) container(c *place.Container) amounts {
	out := make(amounts, len(rs))
	out[0] = c.MilliCPU
	for _, a := range c.Memory {
		out[rs.index(a.Kind)] += a.Bytes
	}
	for _, d := range c.Devices {
		out[rs.index(d.Resource)] += d.N
	}
	return out
}

// hasRoom reports whether a request fits in what the requests in asked leave of a node.
func hasRoom(allocatable, asked, request amounts) bool {
	for r, n := range request {
		if n > 0 && asked[r]+n > allocatable[r] {
			return false
		}
	}
	return true
}

// leastAllocated returns the default score of NodeResourcesFit: the mean of the parts of CPU and memory that will be
// left, in hundredths. memory is the index of ordinary memory in the amounts.
func leastAllocated(allocatable, asked, request amounts, memory int) (score int64) {
	for _, r := range []int{0, memory} {
		if all := allocatable[r]; all > 0 {
			score += 100 * max(0, all-asked[r]-request[r]) / all
		}
	}
	return score / 2
}

// mostAllocated returns the score of NodeResourcesFit with the strategy MostAllocated: the mean of the parts of CPU and
// memory that will be requested, in hundredths. Its parameters are those of leastAllocated.
func mostAllocated(allocatable, asked, request amounts, memory int) (score int64) {
	for _, r := range []int{0, memory} {
		if all := allocatable[r]; all > 0 {
			score += 100 * min(all, asked[r]+request[r]) / all
		}
	}
	return score / 2
}

// Scarce returns the resource that decides the results of a trace: GPUs if shapes request some, else CPUs.
func (t *Trace) Scarce() string {
	for _, name := range resourcesOf(t) {
		if strings.HasSuffix(name, "/gpu") && t.requestsDevices(name) {
			return name
		}
	}
	return cpuName
}

func (t *Trace) requestsDevices(resource string) bool {
	return slices.ContainsFunc(t.Shapes, func(s Shape) bool {
		return slices.ContainsFunc(s.Pod.Containers, func(c place.Container) bool {
			return slices.ContainsFunc(c.Devices, func(d place.Count) bool { return d.Resource == resource })
		})
	})
}

// fullness compares the requests of pods with what all machines have.
type fullness struct {
	requests []amounts // by shape
	capacity amounts
	asked    amounts
}

// newFullness returns the capacity of all machines of a trace, without requests so far.
func newFullness(t *Trace) *fullness {
	rs := resourcesOf(t)
	f := &fullness{capacity: make(amounts, len(rs)), asked: make(amounts, len(rs))}
	for _, s := range t.Shapes {
		f.requests = append(f.requests, rs.request(&s.Pod))
	}
	for _, fl := range t.Fleets {
		for r, n := range rs.allocatable(place.NewUsage(fl.Machine, fl.Rules)) {
			for range fl.Count {
				f.capacity[r] = saturated(f.capacity[r], n)
			}
		}
	}
	return f
}

// add adds the requests of one pod.
func (f *fullness) add(shape int) {
	for r, n := range f.requests[shape] {
		f.asked[r] = saturated(f.asked[r], n)
	}
}

// saturated adds two amounts that are not negative, up to the largest int64.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// beyond reports whether requests exceed the capacity of some resource by a quarter. Resources that no machine has do
// not count.
func (f *fullness) beyond() bool {
	for r, n := range f.asked {
		if all := f.capacity[r]; all > 0 && n > saturated(all, all/4) {
			return true
		}
	}
	return false
}

// meanDistance returns the mean distance over all pairs of NUMA nodes, pairs of a NUMA node with itself included, in
// hundredths. It returns 0 if the machine reports no distances.
func meanDistance(m *topo.Machine, on topo.Mask) int64 {
	sum, pairs := int64(0), int64(0)
	for _, i := range on.Positions() {
		for _, j := range on.Positions() {
			if row := m.NUMAs()[i].Distances; j < len(row) {
				sum += int64(row[j])
				pairs++
			}
		}
	}
	return 100 * sum / max(1, pairs)
}
