package place

import "github.com/tenon-numa/tenon/core/topo"

// Complete reports whether the holdings are everything that the managers of a node with these rules give the pod. A
// node allocates container by container, so an observation in the middle of an admission is incomplete. Complete
// ignores memory of init containers, because the memory manager takes it back when the next container starts.
func (p *Pod) Complete(m *topo.Machine, r Rules, hs []Holding) bool {
	p = r.managed(p)
	have := map[string]Holding{}
	for _, h := range hs {
		have[h.Container] = h
	}
	a := admission{u: NewUsage(m, r), pod: p}
	for i := range p.Containers {
		c := &p.Containers[i]
		h := have[c.Name]
		if a.wholeCPUs(c) != int64(h.CPUs.Len()) {
			return false
		}
		if c.Kind != Init && len(a.pinnedMemory(c)) != len(h.Memory) {
			return false
		}
		devices := map[string]int{}
		for _, d := range h.Devices {
			devices[d.Resource] += len(d.IDs)
		}
		for _, d := range a.servedDevices(c.Devices) {
			if int64(devices[d.Resource]) != d.N {
				return false
			}
		}
	}
	return true
}
