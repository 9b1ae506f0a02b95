package nri

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/topo"
)

// Near pins the containers of pods that share CPUs to one NUMA node per pod. numas has the NUMA nodes by the UIDs of
// the pods. Containers of pods that are not in numas return to all shared CPUs. If migrate is true, Near also binds
// the memory of the pods in numas to their NUMA nodes, and the kernel moves pages that are elsewhere. Pods with
// exclusive CPUs or with memory of their own stay where they are.
func (p *Plugin) Near(numas map[string]idset.NUMA, migrate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.near, p.migrate = numas, migrate
	p.push()
}

// pin returns the pin of a container: the decision of core/pin, narrowed to the pod's NUMA node by Near. If this NUMA
// node has no shared CPU, the container runs on all shared CPUs.
func (p *Plugin) pin(uid, container string) pin.Pin {
	out, m := p.node.Pin(uid, container), p.node.Machine()
	numa, placed := p.near[uid]
	i, known := m.Position(numa)
	if !placed || !known || out.Exclusive || out.NUMAs != 0 {
		return out
	}
	cpus := out.CPUs.And(m.NUMAs()[i].CPUs)
	if cpus.Empty() {
		return out
	}
	out.CPUs = cpus
	if p.migrate && m.NUMAs()[i].Bytes > 0 {
		out.NUMAs = topo.Mask(1) << i
	}
	return out
}

// Namespaces returns the paths of the network namespaces of the pods with containers, by UID. The path is "" for a
// pod in the node's own network namespace.
func (p *Plugin) Namespaces() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for _, c := range p.containers {
		out[c.pod] = ""
		for _, n := range c.sandbox.GetLinux().GetNamespaces() {
			if n.GetType() == "network" {
				out[c.pod] = n.GetPath()
			}
		}
	}
	return out
}
