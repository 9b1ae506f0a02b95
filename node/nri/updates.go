package nri

import (
	"context"
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
)

// updates returns what the runtime has to change of containers, but for one, in ascending order of their IDs.
func (p *Plugin) updates(but string) (out []*api.ContainerUpdate) {
	for _, id := range slices.Sorted(maps.Keys(p.containers)) {
		c := p.containers[id]
		is := p.pin(c.pod, c.name)
		if id == but || same(is, c.is) {
			continue
		}
		c.is = is
		u := &api.ContainerUpdate{}
		u.SetContainerId(id)
		u.SetLinuxCPUSetCPUs(is.CPUs.String())
		u.SetLinuxCPUSetMems(p.mems(is))
		u.SetIgnoreFailure() // it may have stopped meanwhile
		out = append(out, u)
	}
	return out
}

// PostCreateContainer is called when a container can be updated: what was sent for it since CreateContainer is lost.
func (p *Plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.caughtUp(c.Id, false)
	return nil
}

// PostStartContainer is called when a container runs: what was sent for it while it started may be lost.
func (p *Plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.caughtUp(c.Id, true)
	return nil
}

// caughtUp sends a container its updates since its creation again.
func (p *Plugin) caughtUp(id string, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.containers[id]
	if c == nil || c.runs {
		return
	}
	c.runs = runs
	if !same(c.is, c.made) {
		c.is = c.made
		p.push()
	}
}

func same(a, b pin.Pin) bool { return a.CPUs.Equal(b.CPUs) && a.NUMAs == b.NUMAs }

// push has the runtime pin what differs. Updates are sent apart from the caller, since the runtime may be waiting for
// the answer to a request of its own, and one after the other.
func (p *Plugin) push() {
	if p.sending {
		return // it looks again when the runtime has answered
	}
	p.sending = true
	go func() {
		for p.sendOnce() {
		}
	}()
}

// sendOnce sends what differs, and reports whether anything was sent. The runtime may ask for a container before it
// takes the updates, and apply them after that answer, although they are older. What the answer said of the same
// containers is sent again then.
func (p *Plugin) sendOnce() bool {
	p.mu.Lock()
	var updates []*api.ContainerUpdate
	send := p.send
	if send != nil {
		updates = p.updates("")
	}
	sent := map[string]pin.Pin{}
	for _, u := range updates {
		sent[u.ContainerId], u.IgnoreFailure = p.containers[u.ContainerId].is, false
	}
	p.sending = len(updates) > 0
	p.mu.Unlock()
	if len(updates) == 0 {
		return false
	}
	_, err := send(updates)
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, is := range sent {
		if c := p.containers[id]; c != nil && (err != nil || !same(c.is, is)) {
			c.is = pin.Pin{}
		}
	}
	if err != nil {
		p.cfg.Logger.Error(err, "the runtime did not pin containers; it is asked again with the next pass")
		p.sending = false
		return false
	}
	return true
}

// Cpuset is what the kernel has a container pinned to.
type Cpuset struct {
	CPUs  idset.Set[idset.CPU]
	NUMAs idset.Set[idset.NUMA]
}

// Compare takes what the kernel has of containers, by their ID, and has those pinned again that are not pinned as
// decided: the runtime may have failed at it, or somebody else may have changed them.
func (p *Plugin) Compare(found map[string]Cpuset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending {
		return // it changes them
	}
	for id, c := range p.containers {
		is, ok := found[id]
		if !ok || !c.runs {
			continue
		}
		if want := p.pin(c.pod, c.name); is.CPUs.Equal(want.CPUs) && is.NUMAs.Equal(p.memsOf(want)) {
			c.differs = 0
			continue
		}
		if c.differs++; c.differs == 2 { // the first time the runtime may not have got to it
			p.cfg.Logger.Info("container is not pinned as decided; pinning it again", "pod",
				c.sandbox.Namespace+"/"+c.sandbox.Name, "container", c.name, "cpus", is.CPUs.String(),
				"numas", is.NUMAs.String())
		}
		c.is = pin.Pin{}
	}
	p.push()
}

// mems returns the NUMA nodes of a pin in the Linux list format.
func (p *Plugin) mems(is pin.Pin) string { return p.memsOf(is).String() }

// memsOf returns the NUMA nodes of a pin: all that have memory where any will do.
func (p *Plugin) memsOf(is pin.Pin) idset.Set[idset.NUMA] {
	var ids []idset.NUMA
	for i, n := range p.node.Machine().NUMAs() {
		if is.NUMAs.Has(i) || is.NUMAs == 0 && n.Bytes > 0 {
			ids = append(ids, n.ID)
		}
	}
	return idset.Of(ids...)
}
