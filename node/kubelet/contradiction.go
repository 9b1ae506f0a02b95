package kubelet

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// CPUs returns all CPUs in the file, shared and exclusive. They are the CPUs of the machine with which the kubelet
// started, without reserved ones under strict-cpu-reservation.
func (s *CPUState) CPUs() idset.Set[idset.CPU] {
	all := s.Shared
	for _, cpus := range s.byPod() {
		all = all.Union(cpus)
	}
	return all
}

// byPod returns the CPUs that each pod holds, by UID. Containers of one pod may hold the same CPUs: an app container
// gets CPUs of an init container that has ended.
func (s *CPUState) byPod() map[string]idset.Set[idset.CPU] {
	out := maps.Clone(s.Pods)
	if out == nil {
		out = map[string]idset.Set[idset.CPU]{}
	}
	for uid, byName := range s.Containers {
		for _, cpus := range byName {
			out[uid] = out[uid].Union(cpus)
		}
	}
	return out
}

// contradiction returns how a file of the static policy contradicts itself, the machine or the reservation. It
// returns "" for a consistent file, for no file, for a file without shared CPUs, and for a file that has another
// policy or is keyed by container IDs. When the kubelet starts, it refuses a file in which a CPU is both shared and
// held, or in no set (cpumanager/policy_static.go, validateState). It does not notice that two pods hold the same
// CPU.
func (s *CPUState) contradiction(m *topo.Machine, r place.CPURules) string {
	if s == nil || s.Policy != "static" || len(s.ByContainerID) > 0 {
		return ""
	}
	var held, twice idset.Set[idset.CPU]
	byPod := s.byPod()
	for _, uid := range slices.Sorted(maps.Keys(byPod)) {
		twice = twice.Union(held.And(byPod[uid]))
		held = held.Union(byPod[uid])
	}
	if !twice.Empty() {
		return "CPUs " + twice.String() + " are exclusive to two pods: delete one of them"
	}
	if both := held.And(s.Shared); !both.Empty() {
		return "CPUs " + both.String() + " are both shared and held; the kubelet does not start with that"
	}
	if s.Shared.Empty() {
		return "" // the kubelet refuses that, too, which is a hazard of its own (place.NoSharedCPU)
	}
	// With strict-cpu-reservation the reserved CPUs are in no set, and no pod has them.
	missing := m.CPUs().Minus(held).Minus(s.Shared)
	if r.StrictReservation {
		missing = missing.Minus(r.Reserved)
	}
	switch {
	case missing.Empty():
		return ""
	case missing.SubsetOf(r.Reserved):
		return "reserved CPUs " + missing.String() + " are in no set; the kubelet does not start with that"
	}
	return "CPUs " + missing.String() + " are in no set; the kubelet does not start with that"
}
