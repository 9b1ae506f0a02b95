package place

import "slices"

// This file is about pods that request resources as a whole (spec.resources), on nodes whose kubelet has the gate
// PodLevelResourceManagers on: 1.36 and 1.37, where it is off by default (KEP-5526). For such Guaranteed pods the rules
// of CPUs and memory are (cpumanager/policy_static.go, memorymanager/policy_static.go, topologymanager/scope_pod.go):
//
//   - Scope pod, and a topology policy that gives hints: the pod gets its CPUs and memory once, as one block. The
//     containers whose requests equal their limits get parts of the block for themselves, and the others share the
//     rest. The pod is refused if nothing is left to share.
//   - Scope container, or policy none: containers whose requests equal their limits are served as in any Guaranteed
//     pod. The others get nothing of their own.
//
// Devices are given to containers, in pods of every class; under scope pod, a container gets them only when it
// starts. A pod that is admitted in between may get these devices; Place treats them as given at admission.
//
// [Rules.managed] replaces the pod by one with only the requests that the managers read. Its unexported fields have
// what requests cannot express.

// podLevelManagersSince is the first release with the gate.
const podLevelManagersSince Release = 36

// PodLevelManagers reports whether a kubelet of the release with these settings of feature gates has the gate
// PodLevelResourceManagers on. AllAlpha and AllBeta stand for gates that are not set by name.
func (r Release) PodLevelManagers(gates map[string]bool) bool {
	if r.orDefault() < podLevelManagersSince {
		return false
	}
	if on, ok := gates["PodLevelResourceManagers"]; ok {
		return on
	}
	stage := "AllBeta"
	if r.orDefault() == podLevelManagersSince {
		stage = "AllAlpha"
	}
	return gates[stage]
}

// Whole is the CPUs and memory that spec.resources requests.
type Whole struct {
	MilliCPU int64
	Memory   []Amount // ascending kind, no kind twice
}

// pool is how the block of a pod is divided among its containers.
type pool struct {
	// parts are the CPUs that containers get for themselves, in the order of the containers. The CPU manager picks them
	// after the CPUs of the pod, and may fail (cpumanager/policy_static.go, AllocatePod).
	parts []ownPart
	// cpu and memory are the reasons why the managers refuse the pod, or nil.
	cpu, memory *Reason
}

// ownPart is the CPUs that one container gets for itself.
type ownPart struct {
	kind Kind
	cpus int64
}

// podLevel reports whether the node's managers serve pods that request resources as a whole. An agent that pins
// containers never does.
func (r *Rules) podLevel() bool { return r.PodLevelManagers && r.Arbiter == ByKubelet }

// managed returns the pod as the managers see it. It is p itself, except on nodes with PodLevelManagers.
func (r *Rules) managed(p *Pod) *Pod {
	whole := r.Topology.Scope == PerPod && policyTable[r.Topology.Policy].hints
	switch {
	case !r.podLevel() || !p.PodLevel || p.QoS != Guaranteed && !whole:
		return p
	case p.QoS != Guaranteed:
		out := *p
		out.late = true
		return &out
	case whole:
		return p.asWhole(r)
	}
	out := &Pod{QoS: p.QoS, Containers: slices.Clone(p.Containers)}
	for i := range out.Containers {
		if c := &out.Containers[i]; c.Unequal {
			c.MilliCPU, c.Memory, c.unpinned = 0, nil, r.Release.has(sharersArePassed)
		}
	}
	return out
}

// asWhole returns a pod whose first container, without a name, has all CPUs and memory. The others keep their devices.
func (p *Pod) asWhole(r *Rules) *Pod {
	all := Container{MilliCPU: p.Whole.MilliCPU, Memory: p.Whole.Memory}
	if all.unpinned = all.fraction() >= 0; all.unpinned { // the memory manager passes over the pod
		all.Memory = nil
	}
	all.Memory = slices.DeleteFunc(slices.Clone(all.Memory), func(a Amount) bool { return a.Bytes == 0 })
	out := &Pod{QoS: p.QoS, Containers: []Container{all}, pool: p.divided(r, &all), late: true}
	for _, c := range p.Containers {
		if len(c.Devices) > 0 {
			c.MilliCPU, c.Memory, c.unpinned = 0, nil, true
			out.Containers = append(out.Containers, c)
		}
	}
	return out
}

// divided computes how the containers divide what the pod requests, and whether the managers refuse the pod because
// of that (validatePodScopeResources).
func (p *Pod) divided(r *Rules, all *Container) *pool {
	out := &pool{}
	if n := all.MilliCPU / 1000; r.CPU.Static && n > 0 && all.MilliCPU%1000 == 0 {
		for i := range p.Containers {
			if own := p.Containers[i].ownCPUs(); own > 0 {
				out.parts = append(out.parts, ownPart{p.Containers[i].Kind, own})
			}
		}
		if p.starves(n, func(c *Container) (int64, bool) { return c.ownCPUs(), c.ownCPUs() == 0 }) {
			out.cpu = &Reason{Code: NoPool, Resource: cpuName, Want: n, Have: n, Never: true}
		}
	}
	if r.Memory.Static {
		out.memory = p.memoryRefusal(all)
	}
	return out
}

// memoryRefusal returns why the memory manager refuses the pod whatever is free, or nil.
func (p *Pod) memoryRefusal(all *Container) *Reason {
	for i := range p.Containers {
		c := &p.Containers[i]
		if k := c.fraction(); k >= 0 && !c.Unequal && !all.unpinned {
			return &Reason{Code: Fraction, Container: c.Name, Resource: c.Memory[k].Kind, Want: c.Memory[k].Bytes}
		}
	}
	for _, a := range all.Memory {
		if p.starves(a.Bytes, func(c *Container) (int64, bool) { return c.ownMemory(a.Kind) }) {
			return &Reason{Code: NoPool, Resource: a.Kind, Want: a.Bytes, Have: a.Bytes, Never: true}
		}
	}
	return nil
}

// ownCPUs returns the number of CPUs that a container gets for itself.
func (c *Container) ownCPUs() int64 {
	if c.Unequal || c.MilliCPU%1000 != 0 {
		return 0
	}
	return c.MilliCPU / 1000
}

// ownMemory returns the bytes of a kind of memory that a container gets for itself; shares is true if it gets no memory
// of any kind.
func (c *Container) ownMemory(kind string) (bytes int64, shares bool) {
	if c.Unequal || len(c.Memory) == 0 {
		return 0, true
	}
	for _, a := range c.Memory {
		if a.Kind == kind {
			return a.Bytes, false
		}
	}
	return 0, false
}

// starves reports whether nothing of an amount is left for a container that shares it. own returns what a container
// has for itself, and whether it shares. App containers and sidecars keep what they have; an init container that
// shares runs only beside the sidecars before it.
func (p *Pod) starves(all int64, own func(*Container) (int64, bool)) bool {
	var used int64
	shared := false
	for i := range p.Containers {
		c := &p.Containers[i]
		n, shares := own(c)
		switch {
		case shares && c.Kind == Init:
			if used >= all {
				return true
			}
		case shares:
			shared = true
		case c.Kind != Init:
			used += n
		}
	}
	return shared && used >= all
}

// allocateWhole gives a pod as a whole its CPUs and memory. It returns "", or the kubelet's reason for refusing the
// pod.
func (a *admission) allocateWhole(h hint) RefusalReason {
	p := a.pod.pool
	if p.cpu != nil {
		a.refuse(*p.cpu)
		return EmptyPodSharedPoolError
	}
	if err := a.allocateCPUs(0, h); err != "" {
		return err
	}
	if err := a.divide(p.parts); err != "" {
		return err
	}
	if p.memory != nil {
		a.refuse(*p.memory)
		return EmptyPodSharedPoolError
	}
	return a.allocateMemory(0, h)
}

// divide picks each container's CPUs out of the pod's. An init container gives back what it had.
func (a *admission) divide(parts []ownPart) RefusalReason {
	rest := a.taken[0].CPUs
	for _, own := range parts {
		got, end := cpuSet{}, pickedIf(int(own.cpus) <= rest.Len())
		if end == picked {
			got, end = a.u.takeCPUs(rest, int(own.cpus), &a.work)
		}
		if end != picked {
			a.refuse(a.u.notPicked(end, Reason{Resource: cpuName, Want: own.cpus, Have: int64(rest.Len())}))
			return UnexpectedAdmissionError
		}
		if own.kind != Init {
			rest = rest.Minus(got)
		}
	}
	return ""
}
