package place

import "github.com/tenon-numa/tenon/core/topo"

// This file bounds what one answer costs. A step is about what one entry of a table of masks, one word of a set
// of CPUs or one device costs: some nanoseconds. Steps are counted, never timed, so that the same question gets
// the same answer everywhere.

// maxWork bounds the steps of one verdict: about five milliseconds. Beyond it the verdict is a refusal with the
// code [TooComplex]. Pods of twenty containers on machines of eight NUMA nodes take a tenth of it at most. On
// sixteen NUMA nodes, where a kubelet takes seconds or minutes, one container may take most of it.
const maxWork = 5 << 20

// MaxContainers bounds the containers of a pod that need alignment. Every node is asked about each of them, so
// that a pod's cost is this number times that of one container, on every node. The largest pods that are known
// have some thirty containers; a machine of two sockets has about as many cores as the bound.
const MaxContainers = 128

// containerSteps is what a container costs that asks for nothing.
const containerSteps = 32

// work counts the steps of one verdict.
type work struct{ steps int }

// spend counts steps that are about to be made; it returns false where that is more than a verdict may make.
// They are not to be made then.
func (w *work) spend(n int) bool {
	w.steps = min(w.steps+n, maxWork+1)
	return w.steps <= maxWork
}

// over reports whether the verdict needs more steps than it may make.
func (w *work) over() bool { return w.steps > maxWork }

// exhaust lets the verdict make no more steps.
func (w *work) exhaust() { w.steps = maxWork + 1 }

// TooLarge returns why no node is asked about a pod: it has too many containers that need alignment. It is
// empty for all other pods. The answer depends on the pod alone, so a caller with many nodes asks once.
func (p *Pod) TooLarge() []Reason {
	if len(p.Containers) <= MaxContainers {
		return nil
	}
	count := 0
	for i := range p.Containers {
		if p.aligns(i) {
			count++
		}
	}
	if count <= MaxContainers {
		return nil
	}
	return []Reason{{Code: TooComplex, Want: int64(count), Have: MaxContainers}}
}

// aligns reports whether some node's managers align something for a container.
func (p *Pod) aligns(i int) bool {
	c := &p.Containers[i]
	return len(c.Devices) > 0 || p.Exclusive() && (len(c.Memory) > 0 || c.MilliCPU >= 1000 && c.MilliCPU%1000 == 0)
}

// complex returns the refusal of a pod that takes too many steps.
func (a *admission) complex() Verdict {
	r := Reason{Code: TooComplex, Want: int64(len(a.pod.Containers)), Have: maxWork, Width: len(a.u.Machine.NUMAs())}
	return Verdict{Refusal: UnexpectedAdmissionError, Reasons: []Reason{r}}
}

// costs bounds the steps of parts of an answer on one machine under its rules. A quick answer does without these
// parts, and must not be yes where the full engine would take too many steps.
type costs struct {
	words   int // going through one part of the CPUs
	picking int // picking the CPUs of one container
	hintSet int // one hint set, and merging it
	devices int // one hint set of devices, and picking them
}

func newCosts(m *topo.Machine, r *Rules, sets []deviceSet) (c costs) {
	n := len(m.NUMAs())
	universe := m.WithCPUs() // of what pods may ask for together
	for at := range sets {
		universe |= sets[at].numas
	}
	if r.Memory.Static {
		universe = m.All()
	}
	masks := 1 << uint(min(universe.Len(), maxMaskSpace))
	c.words = 8 + 6*(int(m.CPUs().Max())/64+1)
	cores := len(m.Cores())
	if !nested(m) {
		cores *= n // a core may be listed once for every NUMA node that its socket is in
	}
	c.picking = c.words*(16*(n+len(m.Sockets()))+20*cores) + 4*m.CPUs().Len()
	if r.Topology.Policy != None || r.Memory.Static {
		c.hintSet = 20 * masks
	}
	if r.Topology.Policy == BestEffort {
		c.hintSet += reachSteps(n, masks)
	}
	if r.Topology.PreferClosest && r.Topology.Policy != SingleNUMA {
		c.hintSet += 2 * n * n * masks
	}
	for at := range sets {
		c.devices = max(c.devices, deviceSteps(len(m.Resources()[at].Devices), n)+2*sets[at].shared*masks)
	}
	c.devices += c.hintSet
	return c
}

// reachSteps returns the steps of intersecting a hint set's masks with what is reached (hints.go).
func reachSteps(numas, masks int) int { return (2*numas + 4) * masks }

// deviceSteps returns the steps of counting so many devices for the masks of some NUMA nodes, and of picking
// some of them.
func deviceSteps(devices, numas int) int { return devices * (numas + 80) }

// heavy reports whether the full engine may take too many steps for a pod without init containers.
func (u *Usage) heavy(p *Pod) bool {
	steps := 0
	for i := range p.Containers {
		c := &p.Containers[i]
		steps += 256 + u.costs.picking + (1+len(c.Memory))*(u.costs.hintSet+16*u.numas) +
			len(c.Devices)*(u.costs.devices+len(u.sets)+64)
	}
	return 2*steps > maxWork // once more for the pod as a whole
}
