package pin

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// Resized returns the node after the requests of a pod have changed in place. A container that wants fewer exclusive
// CPUs keeps some of those that it has. A container that wants more keeps all that it has and gets free CPUs, on its
// NUMA nodes as far as possible. CPUs that are decided for a bound pod that has not arrived are not free. If not
// enough CPUs are free, the pod does not change and gets the fault Shares with the reason. If it then requests what
// it has, it gets back the fault from before the resize. Memory stays where it is, and counts there with its new
// size.
func (n *Node) Resized(uid string, spec *place.Pod) *Node {
	i := n.index(uid)
	if i < 0 {
		return n
	}
	p := n.pods[i]
	same := p.Spec.Shape() == spec.Shape()
	// A fault without an arrival is of a resize, too: earlier versions of the agent's file lack the field Resize.
	pending := p.Fault != nil && (p.Fault.Resize || p.Arrival.Spec == nil)
	if same && !pending {
		return n
	}
	before := p.Fault
	if pending {
		before = before.Before
	}
	if same { // the pod withdraws a resize that was not carried out
		p.Fault = before
		return n.replace(i, p)
	}
	next := p
	next.Spec, next.Fault, next.Arrival = spec, nil, Arrival{}
	next.Holdings, p.Fault = n.resizedHoldings(p, spec)
	if p.Fault == nil {
		out := n.replace(i, next)
		why := n.violation(out, uid)
		if why == "" {
			return out
		}
		p.Fault = &Fault{Code: Refused, Detail: why}
	}
	p.Fault.Resize, p.Fault.Before = true, before
	return n.replace(i, p)
}

// replace returns the node in which the pod at index i is replaced by p.
func (n *Node) replace(i int, p Pod) *Node {
	out := &Node{empty: n.empty, pods: slices.Clone(n.pods), bound: n.bound}
	out.pods[i] = p
	return out
}

// resizedHoldings returns what a pod holds after its requests have changed. If too few CPUs are free for that, it
// returns a fault instead.
func (n *Node) resizedHoldings(p Pod, spec *place.Pod) (out []place.Holding, fault *Fault) {
	u := n.Without(p.UID).usageWithBound(p.UID)
	for k := range spec.Containers {
		h := p.holding(spec.Containers[k].Name)
		h.Container, h.Kind = spec.Containers[k].Name, spec.Containers[k].Kind
		want := wanted(n.Rules(), spec, k)
		cpus, ok := resizedCPUs(u.Hold(cpusOfOthers(p, h.Container)), h.CPUs, want)
		if !ok {
			return nil, &Fault{Code: Shares, Reasons: []place.Reason{{Code: place.Short, Container: h.Container,
				Resource: "cpu", Want: want - int64(h.CPUs.Len()), Have: int64(u.FreeCPUs().Len())}}}
		}
		h.CPUs, h.Memory = cpus, resizedMemory(h.Memory, spec.Containers[k].Memory)
		if u = u.Hold(h); !h.Empty() {
			out = append(out, h)
		}
	}
	return out, nil
}

// holding returns what a container of the pod holds; the zero Holding if it holds nothing.
func (p Pod) holding(container string) (h place.Holding) {
	for _, h := range p.Holdings {
		if h.Container == container {
			return h
		}
	}
	return h
}

// cpusOfOthers returns the CPUs of the other containers of a pod, as one holding.
func cpusOfOthers(p Pod, container string) (out place.Holding) {
	for _, h := range p.Holdings {
		if h.Container != container {
			out.CPUs = out.CPUs.Union(h.CPUs)
		}
	}
	return out
}

// wanted returns the number of exclusive CPUs that the k-th container of a pod asks for.
func wanted(r place.Rules, p *place.Pod, k int) int64 {
	if c := p.Containers[k]; r.CPU.Static && r.Serves(p) && c.MilliCPU%1000 == 0 {
		return c.MilliCPU / 1000
	}
	return 0
}

// resizedCPUs returns want CPUs for a container that has some: a part of its CPUs, or all of them and free ones. It
// prefers free CPUs on the NUMA nodes of the CPUs that the container has. The second result is false if too few are
// free.
func resizedCPUs(u *place.Usage, has idset.Set[idset.CPU], want int64) (idset.Set[idset.CPU], bool) {
	m := u.Machine
	var near idset.Set[idset.CPU]
	for i, numa := range m.NUMAs() {
		if m.MaskOfCPUs(has).Has(i) {
			near = near.Union(numa.CPUs)
		}
	}
	free := u.FreeCPUs().Minus(has)
	missing := want - int64(has.Len())
	switch here := near.And(free); {
	case missing == 0:
		return has, true
	case missing < 0:
		return pick(u, has, want)
	case int64(here.Len()) >= missing:
		more, ok := pick(u, here, missing)
		return has.Union(more), ok
	default:
		rest, ok := pick(u, free.Minus(here), missing-int64(here.Len()))
		return has.Union(here).Union(rest), ok
	}
}

// pick returns n CPUs out of the set from. It takes those that package place gives to a container on a machine where
// only the CPUs of from are free: whole cores and neighbours first. ok is false if from has fewer than n CPUs.
func pick(u *place.Usage, from idset.Set[idset.CPU], n int64) (cpus idset.Set[idset.CPU], ok bool) {
	if n == 0 {
		return idset.Set[idset.CPU]{}, true
	}
	rules := place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true}}
	only := place.NewUsage(u.Machine, rules).Hold(place.Holding{CPUs: u.Machine.CPUs().Minus(from)})
	v := place.Place(only, &place.Pod{QoS: place.Guaranteed,
		Containers: []place.Container{{Name: "c", MilliCPU: n * 1000}}})
	if !v.Fits() || len(v.Holdings) != 1 {
		return idset.Set[idset.CPU]{}, false
	}
	return v.Holdings[0].CPUs, true
}

// resizedMemory returns the blocks with the requested sizes.
func resizedMemory(blocks []place.Block, want []place.Amount) []place.Block {
	out := slices.Clone(blocks)
	for i := range out {
		for _, w := range want {
			if w.Kind == out[i].Kind && out[i].Bytes > 0 {
				out[i].Bytes = w.Bytes
			}
		}
	}
	return out
}
