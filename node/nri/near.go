package nri

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/topo"
)

// Near puts the containers of pods that share CPUs on one NUMA node each, by the UIDs of the pods, and those of all
// others back on all shared CPUs. With migrate their memory is bound there, too, which has the kernel move what is
// elsewhere. Pods with exclusive CPUs or with memory of their own stay where they are.
func (p *Plugin) Near(numas map[string]idset.NUMA, migrate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.near, p.migrate = numas, migrate
	p.push()
}

// pin returns what a container is pinned to. Where no CPU of its NUMA node is shared, it runs on all that are.
func (p *Plugin) pin(uid, container string) pin.Pin {
	is := p.node.Pin(uid, container)
	numa, put := p.near[uid]
	i, known := p.cfg.Machine.Position(numa)
	if !put || !known || is.Exclusive || is.NUMAs != 0 {
		return is
	}
	cpus := is.CPUs.And(p.cfg.Machine.NUMAs()[i].CPUs)
	if cpus.Empty() {
		return is
	}
	is.CPUs = cpus
	if p.migrate && p.cfg.Machine.NUMAs()[i].Bytes > 0 {
		is.NUMAs = topo.Mask(1) << i
	}
	return is
}

// Namespaces returns the paths of the network namespaces of the pods with containers, by UID: "" for those in the
// node's own.
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
