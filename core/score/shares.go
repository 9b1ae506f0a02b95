package score

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// cpu is the name of CPUs among resources.
const cpu = "cpu"

// squareUnit is the number of units of a whole when parts are squared: a part is counted in ten-thousandths.
const squareUnit = 10_000

// share scores a node by the parts that the pod takes of what its NUMA nodes have free, resource by resource. The
// formulas and their rounding come from scheduler-plugins (least_allocated.go, most_allocated.go,
// balanced_allocation.go), with these differences:
//
//   - The NUMA nodes are those of the verdict, together, for every policy. scheduler-plugins uses the worst of all
//     zones that would do, under policy single-numa-node only, so a zone that the kubelet will not choose decides.
//   - All containers count together. scheduler-plugins compares each with zones from which the others took nothing,
//     and takes the mean, so two containers that fill a zone score like two that half fill it.
//   - What counts is what the pod will hold, of resources that have NUMA nodes. In scheduler-plugins a resource that
//     the zones do not list gives a pod no score.
//   - A score is at least 2 if the pod has NUMA nodes, or 1 on an estimated node. In scheduler-plugins an exact fit in
//     LeastAllocated scores 0, which also means "does not fit"; such a zone is skipped.
//   - A single resource counts as balanced. In scheduler-plugins its variance is not a number.
func (s Strategy) share(u *place.Usage, v place.Verdict) int64 {
	t := tally{strategy: s}
	if used := v.NUMAs(u.Machine); used != 0 {
		f := newFirsts(v.Holdings)
		t.cpus(u, &f, used)
		t.memory(u, v.Holdings, used)
		t.devices(u, &f, used)
	}
	if t.count == 0 {
		return 0 // nothing is aligned here: any node that aligns something is preferred
	}
	switch s.Type {
	case LeastAllocated:
		return max(leastScore, t.left/t.weights)
	case MostAllocated:
		return max(leastScore, t.taken/t.weights)
	}
	return max(leastScore, t.balance())
}

// tally sums up resources.
type tally struct {
	strategy            Strategy
	count               int64
	weights             int64
	left, taken         int64 // parts of the free amounts, weighted, in hundredths
	parts, squaredParts int64 // the parts taken, and their squares, not weighted, in units of 1/squareUnit
}

// add counts a resource that the pod holds, out of what was free on its NUMA nodes.
func (t *tally) add(resource string, held, free int64) {
	if held <= 0 {
		return
	}
	if free <= 0 { // a device shared with an init container, or without a NUMA node of its own
		held, free = 1, 1
	}
	held = min(held, free)
	w := t.strategy.weight(resource)
	t.count++
	t.weights += w
	t.left += w * part(free-held, free, Max)
	t.taken += w * part(held, free, Max)
	f := part(held, free, squareUnit)
	t.parts += f
	t.squaredParts += f * f
}

// balance returns 100 times (1 - the variance of the parts). It uses the sample variance, as scheduler-plugins does.
// One part has no variance and scores Max.
func (t *tally) balance() int64 {
	if t.count < 2 {
		return Max
	}
	variance := (t.count*t.squaredParts - t.parts*t.parts) / (t.count * (t.count - 1))
	return Max * (squareUnit*squareUnit - variance) / (squareUnit * squareUnit)
}

// part returns held/free in units of 1/unit, rounded down; 0 <= held <= free, 0 < free.
func part(held, free, unit int64) int64 {
	hi, lo := bits.Mul64(uint64(held), uint64(unit))
	q, _ := bits.Div64(hi, lo, uint64(free)) // hi < free, as held <= free
	return int64(q)
}

// cpus counts every CPU once, even if an init container leaves it to another container.
func (t *tally) cpus(u *place.Usage, f *firsts, used topo.Mask) {
	held := int64(0)
	for i := range f.hs {
		held += int64(f.ofCPUs(i).Len())
	}
	t.add(cpu, held, freeCPUs(u, used))
}

// memory counts every kind by itself.
func (t *tally) memory(u *place.Usage, hs []place.Holding, used topo.Mask) {
	for _, kind := range u.Kinds() {
		held, free := int64(0), int64(0)
		for i := range hs {
			for _, b := range hs[i].Memory {
				if b.Kind == kind {
					held += b.Bytes
				}
			}
		}
		for on := used; on != 0 && held > 0; {
			var n int
			n, on = next(on)
			free += u.FreeMemory(n, kind)
		}
		t.add(kind, held, free)
	}
}

// devices counts the devices that have NUMA nodes, each once, even if an init container leaves it to another
// container.
func (t *tally) devices(u *place.Usage, f *firsts, used topo.Mask) {
	for at := range u.Machine.Resources() {
		name, held := u.Machine.Resources()[at].Name, int64(0)
		for i := range f.hs {
			for _, d := range f.hs[i].Devices {
				if d.Resource != name {
					continue
				}
				for _, id := range d.IDs {
					if f.ofDevice(i, name, id) && d.NUMAs != 0 {
						held++
					}
				}
			}
		}
		t.add(name, held, u.FreeDevicesOn(at, used))
	}
}

// holdsDevice reports whether one of the holdings has a device.
func holdsDevice(hs []place.Holding, resource, id string) bool {
	for i := range hs {
		for _, d := range hs[i].Devices {
			if d.Resource != resource {
				continue
			}
			for _, x := range d.IDs {
				if x == id {
					return true
				}
			}
		}
	}
	return false
}
