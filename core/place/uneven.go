package place

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxTried bounds the amounts that GivesReserved tries.
const maxTried = 512

// GivesReserved finds a defect of kubelets: on some machines a container gets CPUs that are reserved for the system. It
// returns the least n for which a container that requests n CPUs of the empty machine gets such CPUs, and these
// reserved CPUs. ok is false if there is no such n up to maxTried.
//
// The defect needs cores or sockets of unequal sizes. To find out whether all CPUs of a core or socket are free, a
// kubelet compares the number of its free CPUs with the mean size. It may then take CPUs that are not free
// (cpumanager/cpu_assignment.go, takeFullCores). On other machines the answer is immediate.
func (r Rules) GivesReserved(m *topo.Machine) (n int, given idset.Set[idset.CPU], ok bool) {
	if !r.CPU.Static || r.Arbiter == ByAgent || r.CPU.Reserved.Empty() || even(m) {
		return 0, given, false
	}
	u := NewUsage(m, r)
	for n = 1; n <= min(m.CPUs().Len(), maxTried); n++ {
		v := Place(u, &Pod{QoS: Guaranteed, Containers: []Container{{Name: "c", MilliCPU: int64(n) * 1000}}})
		for _, h := range v.Holdings {
			if given = h.CPUs.And(r.CPU.Reserved); !given.Empty() {
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
	where, them := fmt.Sprintf("1 CPU (%s) is on a core", lost), "it"
	if n := lost.Len(); n > 1 {
		where, them = fmt.Sprintf("%d CPUs (%s) are on cores", n, lost), "them"
	}
	return lost, Advice{
		What: fmt.Sprintf("reservedSystemCPUs: %s with reserved ones, so full-pcpus-only does not count %s for containers "+
			"with CPUs of their own", where, them),
		Remedy: fmt.Sprintf("reserve whole cores: reservedSystemCPUs: %s", whole),
	}
}
