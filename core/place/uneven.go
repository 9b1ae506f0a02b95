package place

import (
	"fmt"
	"strconv"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxTried bounds the amounts that GivesReserved tries.
const maxTried = 512

// GivesReserved returns the least number n of CPUs with which a container on the empty machine gets reserved CPUs,
// and these reserved CPUs. ok is false if there is no such n up to maxTried. On machines with cores or sockets of
// unequal sizes a kubelet compares a part with the mean size to find out whether it is whole. It may then take CPUs
// that are not free (cpumanager/cpu_assignment.go, takeFullCores). On other machines the answer is immediate.
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

// HalfCores returns the CPUs that full-pcpus-only counts for no container, though nothing reserves them: their core has
// another CPU that is reserved (cpumanager/policy_static.go, enforceSMTAlignment). The advice describes them for
// people; without such CPUs it is empty.
func (r Rules) HalfCores(m *topo.Machine) (lost idset.Set[idset.CPU], a Advice) {
	if !r.CPU.Static || !r.CPU.FullPCPUsOnly {
		return lost, a
	}
	whole := r.WholeCores(m)
	if lost = whole.Minus(r.CPU.Reserved); lost.Empty() {
		return lost, a
	}
	are, them := "1 CPU (%s) is on a core", "it"
	if lost.Len() > 1 {
		are, them = strconv.Itoa(lost.Len())+" CPUs (%s) are on cores", "them"
	}
	return lost, Advice{"reservedSystemCPUs: " + fmt.Sprintf(are, lost) + " with reserved ones, so full-pcpus-only does " +
		"not count " + them + " for containers with CPUs of their own", "reserve whole cores: reservedSystemCPUs: " +
		whole.String()}
}
