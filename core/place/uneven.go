package place

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxTried bounds the amounts that GivesReserved tries.
const maxTried = 512

// GivesReserved returns the least number of CPUs with which a container on the empty machine gets reserved CPUs, and
// which; ok is false where there is none. On machines with cores or sockets of unequal sizes a kubelet takes a part for
// whole by a mean, and then takes CPUs that are not free (cpumanager/cpu_assignment.go, takeFullCores). On other
// machines the answer is immediate.
func (r Rules) GivesReserved(m *topo.Machine) (n int, given idset.Set[idset.CPU], ok bool) {
	if !r.CPU.Static || r.Arbiter == ByAgent || r.CPU.Reserved.Empty() || even(m) {
		return 0, given, false
	}
	u := NewUsage(m, r)
	for n = 1; n <= min(m.CPUs().Len(), maxTried); n++ {
		v := Place(u, &Pod{QoS: Guaranteed, Containers: []Container{{Name: "c", MilliCPU: int64(n) * 1000}}})
		for _, h := range v.Holdings {
			if given = h.CPUs.Minus(h.CPUs.Minus(r.CPU.Reserved)); !given.Empty() {
				return n, given, true
			}
		}
	}
	return 0, idset.Set[idset.CPU]{}, false
}

// WholeCores returns the CPUs of all cores that have a reserved CPU.
func (r Rules) WholeCores(m *topo.Machine) idset.Set[idset.CPU] { return coresOf(m, r.CPU.Reserved) }
