package nri

import (
	"context"
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
)

// updates returns an update for each container whose pin differs from the last one that the runtime received, in
// ascending order of container IDs, and records these pins as received. It leaves out the container with the given
// ID, because its pin is in the same answer; "" leaves out none.
func (p *Plugin) updates(except string) (out []*api.ContainerUpdate) {
	for _, id := range slices.Sorted(maps.Keys(p.containers)) {
		c := p.containers[id]
		want := p.pin(c.pod, c.name)
		if id == except || samePin(want, c.sent) {
			continue
		}
		c.sent = want
		u := &api.ContainerUpdate{}
		u.SetContainerId(id)
		u.SetLinuxCPUSetCPUs(want.CPUs.String())
		u.SetLinuxCPUSetMems(p.mems(want))
		u.SetIgnoreFailure() // the container may have stopped meanwhile
		out = append(out, u)
	}
	return out
}

// PostCreateContainer is called when a container can be updated. The runtime has lost the updates between
// CreateContainer and this call.
func (p *Plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.catchUp(c.Id, false)
	return nil
}

// PostStartContainer is called when a container runs. Updates that were sent while it started may be lost.
func (p *Plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.catchUp(c.Id, true)
	return nil
}

// catchUp records whether a container runs. If its pin has changed since its creation, it sends the pin again,
// because the container may still have the pin of its creation.
func (p *Plugin) catchUp(id string, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.containers[id]
	if c == nil || c.runs {
		return
	}
	c.runs = runs
	if !samePin(c.sent, c.created) {
		c.sent = c.created
		p.push()
	}
}

func samePin(a, b pin.Pin) bool { return a.CPUs.Equal(b.CPUs) && a.NUMAs == b.NUMAs }

func sameFault(a, b *pin.Fault) bool {
	return a != nil && b != nil && a.Code == b.Code && a.Resize == b.Resize
}

// push sends the pins that differ to the runtime, and does not wait. A goroutine sends them one after the other,
// because the runtime may be waiting for the plugin's answer to another call.
func (p *Plugin) push() {
	if p.sending {
		return // sendOnce runs again after the runtime's answer
	}
	p.sending = true
	go func() {
		for p.sendOnce() {
		}
	}()
}

// sendOnce sends the pins that differ, and reports whether to call it again. While the runtime has not yet taken
// these updates, it may call CreateContainer or UpdateContainer, and get newer pins in the answer. It then applies
// the older updates after the newer answer. So sendOnce marks the containers whose pin has changed meanwhile, and the
// next call sends their newer pins again. After an error it marks all containers that it sent.
func (p *Plugin) sendOnce() bool {
	p.mu.Lock()
	var updates []*api.ContainerUpdate
	send := p.send
	if send != nil {
		updates = p.updates("")
	}
	sent := map[string]pin.Pin{}
	for _, u := range updates {
		sent[u.ContainerId], u.IgnoreFailure = p.containers[u.ContainerId].sent, false
	}
	p.sending = len(updates) > 0
	p.mu.Unlock()
	if len(updates) == 0 {
		return false
	}
	_, err := send(updates)
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, pinned := range sent {
		if c := p.containers[id]; c != nil && (err != nil || !samePin(c.sent, pinned)) {
			c.sent = pin.Pin{}
		}
	}
	if err != nil {
		p.cfg.Logger.Error(err, "the runtime did not pin containers; it is asked again with the next pass")
		p.sending = false
		return false
	}
	return true
}

// Cpuset is a container's cpuset in the kernel.
type Cpuset struct {
	CPUs  idset.Set[idset.CPU]
	NUMAs idset.Set[idset.NUMA]
}

// Compare receives the containers' cpusets in the kernel, by container ID. It pins again the containers whose cpuset
// differs from the decision: the runtime may have failed, or another program may have changed the cpuset.
func (p *Plugin) Compare(found map[string]Cpuset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending {
		return // the goroutine is changing cpusets, so found may be out of date
	}
	for id, c := range p.containers {
		cpuset, ok := found[id]
		if !ok || !c.runs {
			continue
		}
		if want := p.pin(c.pod, c.name); cpuset.CPUs.Equal(want.CPUs) && cpuset.NUMAs.Equal(p.memsOf(want)) {
			c.differs = 0
			continue
		}
		if c.differs++; c.differs == 2 { // the first time, the update may still be on its way
			p.cfg.Logger.Info("container is not pinned as decided; pinning it again", "pod",
				c.sandbox.Namespace+"/"+c.sandbox.Name, "container", c.name, "cpus", cpuset.CPUs.String(),
				"numas", cpuset.NUMAs.String())
		}
		c.sent = pin.Pin{}
	}
	p.push()
}

// mems returns the NUMA nodes of a pin in the Linux list format.
func (p *Plugin) mems(x pin.Pin) string { return p.memsOf(x).String() }

// memsOf returns the NUMA nodes of a pin. If the pin allows any NUMA node, these are all that have memory.
func (p *Plugin) memsOf(x pin.Pin) idset.Set[idset.NUMA] {
	var ids []idset.NUMA
	for i, n := range p.node.Machine().NUMAs() {
		if x.NUMAs.Has(i) || x.NUMAs == 0 && n.Bytes > 0 {
			ids = append(ids, n.ID)
		}
	}
	return idset.Of(ids...)
}
