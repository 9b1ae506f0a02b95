package stage

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Partial describes what was not read and how answers suffer from it; "" if everything was read.
func (s *Stage) Partial() string { return s.partial }

// addUnseen adds to each node the pods that only its layout shows, because the pods of some namespaces could not be
// read. It counts what such a pod holds, since the pod requests at least as much.
func (s *Stage) addUnseen() {
	if s.seen == nil {
		return
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.State == nil {
			continue
		}
		for _, e := range n.State.Entries {
			if e.Pod.UID == "" || s.seen.Has(e.Pod.Namespace) ||
				slices.ContainsFunc(n.Pods, func(x whatif.Resident) bool { return x.Pod.UID == e.Pod.UID }) {
				continue
			}
			needs := holderNeeds(e)
			n.Used = n.Used.Add(needs)
			n.Pods = append(n.Pods, whatif.Resident{Pod: e.Pod, Needs: needs})
		}
	}
}

// holderNeeds returns the plain amounts that a pod with these holdings requests at least. A CPU or device that
// several containers hold one after the other counts once.
func holderNeeds(e state.Entry) whatif.Amounts {
	out, cpus := whatif.Amounts{"pods": 1}, idset.Set[idset.CPU]{}
	devices := map[[2]string]bool{}
	for _, h := range e.Holdings {
		cpus = cpus.Union(h.CPUs)
		for _, b := range h.Memory {
			out[b.Kind] += b.Bytes
		}
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if key := [2]string{d.Resource, id}; !devices[key] {
					devices[key] = true
					out[d.Resource]++
				}
			}
		}
	}
	out["cpu"] = int64(cpus.Len()) * 1000
	return out
}
