package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Tenon's cost is a number whose digits are the terms, the one that counts most first: numas, distance,
// locality, damage, devices left short, CPUs left free. A digit is full at its maximum, and never reaches
// into the next. A node that is known coarsely costs one numa more than the pod will use there: of nodes
// that give it as many numas, an exact one is taken, and numas are not spent for it. A node of which
// nothing is known costs more than all others.
const (
	maxFree      = 1<<10 - 1
	costShort    = maxFree + 1 // per 1/64 of a device for every CPU left beside it, up to maxShort
	perDevice    = 64
	maxShort     = 1<<8 - 1
	costDamage   = costShort * (maxShort + 1) // per unit of damage, up to maxDamage
	maxDamage    = 1<<24 - 1
	costLocal    = costDamage * (maxDamage + 1) // per cache, and per PCI root beyond the first, up to maxLocal
	maxLocal     = 1<<6 - 1
	costDistance = costLocal * (maxLocal + 1) // per unit of mean distance, up to maxDistance
	maxDistance  = 1<<8 - 1
	costNUMA     = costDistance * (maxDistance + 1)
	costCoarse   = costNUMA
	costLoose    = costCoarse + costNUMA                  // above all numas of a node that is known coarsely
	costUnknown  = (topo.MaxNUMAs+2)*costNUMA + costLoose // above a node that pins nothing, known coarsely, too
)

// own costs the numas that the pod will really use: how many; how far they are from each other; how many
// last-level caches its containers, and PCI roots its devices, are spread over; what the mix loses; how few CPUs are left there for
// each free device that the pod has no use for, since others want devices together with CPUs, though the
// mix has not seen them yet; and how many of the CPUs stay free, so that whole numas are kept for those
// who need them.
func own(u *place.Usage, p *place.Pod, v place.Verdict, mix *Mix) int64 {
	used := v.NUMAs(u.Machine)
	if used == 0 {
		// The node pins nothing: the pod may run anywhere on it, which is worse than any numa of its own.
		return int64(len(u.Machine.NUMAs()))*costNUMA + costLoose
	}
	free := freeCPUs(u, used)
	parts := apart(u, v.Holdings)
	for i := range v.Holdings {
		free -= int64(v.Holdings[i].CPUs.Len())
		parts += spread(u.Machine, &v.Holdings[i])
	}
	free = max(0, free) // CPUs that an init container leaves to others are held twice
	return int64(used.Len())*costNUMA +
		min(meanDistance(u.Machine, used), maxDistance)*costDistance +
		min(parts, maxLocal)*costLocal +
		min(mix.damage(u, v, used), maxDamage)*costDamage +
		min(idle(u, p, used)*perDevice/(free+1), maxShort)*costShort +
		min(free, maxFree)
}

// idle counts the free devices on the numas that the pod does not ask for.
func idle(u *place.Usage, p *place.Pod, used topo.Mask) (count int64) {
	for at := range u.Machine.Resources() {
		if !wants(p, u.Machine.Resources()[at].Name) {
			count += u.FreeDevicesOn(at, used)
		}
	}
	return count
}

func wants(p *place.Pod, resource string) bool {
	for i := range p.Containers {
		for _, d := range p.Containers[i].Devices {
			if d.Resource == resource {
				return true
			}
		}
	}
	return false
}

// freeCPUs counts the CPUs of some numas that can be given out.
func freeCPUs(u *place.Usage, on topo.Mask) (count int64) {
	for on != 0 {
		var i int
		i, on = next(on)
		count += int64(u.Machine.NUMAs()[i].CPUs.AndLen(u.FreeCPUs()))
	}
	return count
}

// The distances that Linux takes where firmware tells none: of a numa to itself, and to others. A machine
// that tells them must not lose to one that does not.
const (
	localDistance  = 10
	remoteDistance = 20
)

// meanDistance returns the mean over all pairs of numas, a numa and itself included, of their distances.
func meanDistance(m *topo.Machine, on topo.Mask) int64 {
	total, pairs := distances(m, on)
	if pairs == 0 {
		n := int64(on.Len())
		total, pairs = n*localDistance+n*(n-1)*remoteDistance, n*n
	}
	return total / max(1, pairs)
}

// distances returns the sum of the distances that the machine tells between all pairs of numas, a numa
// and itself included, and the number of these pairs.
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
