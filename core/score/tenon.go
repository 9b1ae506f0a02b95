package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Tenon's cost is a number whose digits are the terms, the most important first: NUMA nodes, distance, devices left
// short, pods to wait for, locality, fragmentation cost, CPUs left free. A digit is capped at its maximum, so it
// never affects the next. An estimated node costs one NUMA node more than the pod will use there: an exact node with
// as many NUMA nodes is preferred, but not one with more. A node without any report costs more than all others.
const (
	maxFree       = 1<<10 - 1   // CPUs left free cost 1 each, up to maxFree
	costDamage    = maxFree + 1 // per unit of fragmentation cost, up to maxDamage
	maxDamage     = 1<<23 - 1
	costLocal     = costDamage * (maxDamage + 1) // per cache and per PCI root too many, up to maxLocal
	maxLocal      = 1<<5 - 1
	costWait      = costLocal * (maxLocal + 1) // per grade of the pods to wait for, up to maxWait
	maxWait       = 1<<4 - 1
	costWaiting   = 3                        // additional weight of a pod that waits itself
	costShort     = costWait * (maxWait + 1) // per multiple by which CPUs are too few, up to maxShort
	maxShort      = 1<<6 - 1
	costDistance  = costShort * (maxShort + 1) // per unit of mean distance, up to maxDistance
	maxDistance   = 1<<8 - 1
	costNUMA      = costDistance * (maxDistance + 1) // per NUMA node
	costEstimated = costNUMA
	costUnpinned  = costEstimated + costNUMA                  // above all NUMA nodes of an estimated node
	costUnknown   = (topo.MaxNUMAs+2)*costNUMA + costUnpinned // above an estimated node that pins nothing
)

// tenonCost computes the cost of the NUMA nodes that the pod will use, as a sum of terms:
//
//   - the number of these NUMA nodes, and their distance;
//   - whether too few CPUs are left there for the free devices that the pod does not use;
//   - how many last-level caches and PCI roots its containers and devices use beyond need;
//   - the fragmentation cost;
//   - how many CPUs stay free there, so that whole NUMA nodes are kept for the pods that need them.
//
// Devices left short count more than locality and fragmentation: a pod that needs a device can run on no other node,
// and a pod that waits has no cache at all.
func tenonCost(u *place.Usage, p *place.Pod, v place.Verdict, mix *Mix) int64 {
	used := v.NUMAs(u.Machine)
	if used == 0 {
		return unpinnedCost(u)
	}
	free := freeCPUs(u, used)
	parts := extraRoots(u, v.Holdings)
	for i := range v.Holdings {
		free -= int64(v.Holdings[i].CPUs.Len())
		parts += extraCaches(u.Machine, &v.Holdings[i])
	}
	free = max(0, free) // CPUs that an init container leaves to others are counted twice
	return terms(u, p, used, free, parts, mix.damage(u, taking{verdict: &v}, used))
}

// outlineCost is tenonCost for a pod whose verdict is known in amounts. Its CPUs are in one cache, and it has no
// devices, so no part of it is apart from the others.
func outlineCost(u *place.Usage, p *place.Pod, o place.Outline, mix *Mix) int64 {
	if o.NUMA < 0 {
		return unpinnedCost(u)
	}
	used := topo.Mask(1) << uint(o.NUMA)
	cpus, _, _ := u.Amounts(cpu)
	return terms(u, p, used, cpus[o.NUMA]-o.CPUs, 0, mix.damage(u, taking{outline: &o}, used))
}

// unpinnedCost returns the cost of a node that pins nothing. The pod may run anywhere on the node, which is worse
// than any set of NUMA nodes that the node pins it to.
func unpinnedCost(u *place.Usage) int64 { return int64(len(u.Machine.NUMAs()))*costNUMA + costUnpinned }

// terms adds up the cost of a pod on some NUMA nodes. free is the number of CPUs left free there, and parts is the
// number of caches and PCI roots beyond need.
func terms(u *place.Usage, p *place.Pod, used topo.Mask, free, parts, damage int64) int64 {
	return int64(used.Len())*costNUMA +
		min(meanDistance(u.Machine, used), maxDistance)*costDistance +
		min(cpuShortage(u, p, used, free), maxShort)*costShort +
		min(parts, maxLocal)*costLocal +
		min(damage, maxDamage)*costDamage +
		min(free, maxFree)
}

// cpuShortage returns the factor by which the CPUs that stay free on the NUMA nodes are too few for the devices that
// are free there. remaining is the number of these CPUs. The factor is the free part of the devices divided by the
// free part of the CPUs, rounded down. The resource with the highest factor counts. Devices that the pod asks for do
// not count. A pod that asks for devices has to run next to some, so for other devices it counts only whether they
// are left short, and not by how much.
func cpuShortage(u *place.Usage, p *place.Pod, used topo.Mask, remaining int64) (factor int64) {
	all, asks := int64(-1), false
	for at := range u.Machine.Resources() {
		name := u.Machine.Resources()[at].Name
		if requestsDevice(p, name) {
			asks = true
			continue
		}
		free := u.FreeDevicesOn(at, used)
		if free == 0 {
			continue
		}
		if all < 0 {
			all = allCPUs(u, used)
		}
		factor = max(factor, free*all/(devicesOn(u, name, used)*(remaining+1)))
	}
	if asks {
		return min(factor, 1)
	}
	return factor
}

// allCPUs counts the CPUs of some NUMA nodes that are not reserved.
func allCPUs(u *place.Usage, on topo.Mask) (count int64) {
	_, whole, _ := u.Amounts(cpu)
	for on != 0 {
		var i int
		i, on = next(on)
		count += whole[i] - int64(u.Machine.NUMAs()[i].CPUs.AndLen(u.Rules.CPU.Reserved))
	}
	return count
}

// devicesOn counts the devices of some NUMA nodes, free or not. A device on several of them counts for each.
func devicesOn(u *place.Usage, resource string, on topo.Mask) (count int64) {
	_, whole, _ := u.Amounts(resource)
	for on != 0 {
		var i int
		i, on = next(on)
		count += whole[i]
	}
	return count
}

// requestsDevice reports whether a container of the pod requests devices of a resource.
func requestsDevice(p *place.Pod, resource string) bool {
	for i := range p.Containers {
		for _, d := range p.Containers[i].Devices {
			if d.Resource == resource {
				return true
			}
		}
	}
	return false
}

// freeCPUs counts the CPUs of some NUMA nodes that containers can get.
func freeCPUs(u *place.Usage, on topo.Mask) (count int64) {
	for on != 0 {
		var i int
		i, on = next(on)
		count += int64(u.Machine.NUMAs()[i].CPUs.AndLen(u.FreeCPUs()))
	}
	return count
}

// The distances that Linux assumes if firmware reports none: of a NUMA node to itself, and to others. Without them, a
// machine that reports distances would score worse than one that does not.
const (
	localDistance  = 10
	remoteDistance = 20
)

// meanDistance returns the mean distance over all pairs of NUMA nodes. Pairs of a NUMA node with itself count.
func meanDistance(m *topo.Machine, on topo.Mask) int64 {
	total, pairs := distances(m, on)
	if pairs == 0 {
		n := int64(on.Len())
		total, pairs = n*localDistance+n*(n-1)*remoteDistance, n*n
	}
	return total / max(1, pairs)
}

// distances returns the sum of the distances that the machine reports between pairs of NUMA nodes, and the number of
// these pairs. Pairs of a NUMA node with itself count.
func distances(m *topo.Machine, on topo.Mask) (total, pairs int64) {
	for from := on; from != 0; {
		var i int
		i, from = next(from)
		for to := on; to != 0; {
			var j int
			j, to = next(to)
			if row := m.NUMAs()[i].Distances; j < len(row) {
				total += int64(row[j])
				pairs++
			}
		}
	}
	return total, pairs
}
