package place

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file judges outcomes by what a pod itself demands. Kubelets have no demands, so the rules are Tenon's own:
//
//  - A demand is about what the node's managers tie to NUMA nodes, whatever the name of the node's policy is.
//  - A resource that is tied to no NUMA node satisfies no demand, because nothing shows where it is.
//  - A device of several NUMA nodes is near each of them, as in the kubelet.
//  - Where the kubelet may take any of several devices, the demand has to hold for every possible choice.

// Demand is what a pod asks of the outcome, independently of the name of the node's own policy. The zero Demand asks
// for nothing. Demands can be compared with ==.
type Demand struct {
	// Policy None and BestEffort ask for nothing. SingleNUMA asks that everything that a container (or the pod) holds
	// lies on one NUMA node. Restricted asks that it lies on no more NUMA nodes than its widest resource needs on the
	// empty machine.
	Policy Policy
	Scope  Scope
	// Align, if not empty, names the resources that the demand is about; each must be tied to NUMA nodes. If Align is
	// empty, the demand is about everything that the node's managers assign, except for the resources in Ignore.
	Align, Ignore Names
	// Together and Apart are keys of pods that are related, or "": what the pod holds lies on one NUMA node, which it
	// shares with all pods of the same node that have the same key Together; and on no NUMA node of a pod with the same
	// key Apart. They are about everything that the node's managers tie to NUMA nodes. [Judge] does not look at them,
	// because it knows no other pods; state.Node does.
	Together, Apart string
}

// Binds reports whether the demand asks for anything.
func (d Demand) Binds() bool { return d.aligns() || d.Relates() }

// Relates reports whether the demand is about other pods.
func (d Demand) Relates() bool { return d.Together != "" || d.Apart != "" }

// Unrelated returns the demand without its part about other pods.
func (d Demand) Unrelated() Demand {
	d.Together, d.Apart = "", ""
	return d
}

// aligns reports whether the demand asks for anything of the pod alone.
func (d Demand) aligns() bool { return policyTable[d.Policy].preferred }

// about reports whether the demand is about a resource.
func (d Demand) about(resource string) bool {
	if d.Align != "" {
		return d.Align.Has(resource)
	}
	return !d.Ignore.Has(resource)
}

// Names is a set of resources in comparable form: their names in ascending order, joined by commas.
type Names string

// NamesOf makes a set of names. No name may contain a comma.
func NamesOf(names ...string) Names {
	sorted := slices.Sorted(slices.Values(names))
	return Names(strings.Join(slices.Compact(sorted), ","))
}

// List returns the names in ascending order.
func (n Names) List() []string {
	if n == "" {
		return nil
	}
	return strings.Split(string(n), ",")
}

// Has reports whether a name is in the set.
func (n Names) Has(name string) bool {
	for s := range strings.SplitSeq(string(n), ",") {
		if s == name && s != "" {
			return true
		}
	}
	return false
}

// String returns the names for people.
func (n Names) String() string { return strings.ReplaceAll(string(n), ",", ", ") }

// Own returns the resources that the managers of some node may assign to this pod alone: whole CPUs and memory of
// Guaranteed pods, and devices.
func (p *Pod) Own() Names {
	var out []string
	own := func(milliCPU int64, memory []Amount) {
		if milliCPU > 0 && milliCPU%1000 == 0 {
			out = append(out, cpuName)
		}
		for _, m := range memory {
			if m.Bytes > 0 {
				out = append(out, m.Kind)
			}
		}
	}
	if p.QoS == Guaranteed {
		own(p.Whole.MilliCPU, p.Whole.Memory)
	}
	for _, c := range p.Containers {
		if p.QoS == Guaranteed {
			own(c.MilliCPU, c.Memory)
		}
		for _, d := range c.Devices {
			if d.N > 0 {
				out = append(out, d.Resource)
			}
		}
	}
	return NamesOf(out...)
}

// Enforces reports whether a node with these rules itself refuses the pod in every case in which the demand would not
// be satisfied. On such a node a wrong prediction breaks no promise.
func (r Rules) Enforces(p *Pod, d Demand) bool {
	row := policyTable[r.Topology.Policy]
	switch {
	case !row.preferred || d.Policy == SingleNUMA && !row.single || d.Relates():
		return false
	case len(p.Containers) == 1:
		return true
	case r.Topology.Scope == PerContainer:
		return d.Scope == PerContainer
	case slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Kind != App }):
		return false // podRequest leaves out kinds of memory that only these ask for, so they are not aligned
	}
	// One NUMA node for the pod is one for each container. A width that the pod needs may be more than a container
	// needs.
	return row.single || d.Scope == PerPod
}

// Judge returns the verdict with the demand taken into account: if the node would admit the pod with holdings that do
// not satisfy the demand, the result is a refusal with reasons. Judge returns a refusal unchanged.
func Judge(u *Usage, p *Pod, v Verdict, d Demand) Verdict {
	if !v.Fits() || !d.aligns() {
		return v
	}
	j := judgement{u: u, d: d, all: v.Holdings, enforced: u.Rules.Enforces(p, d)}
	j.checkTied()
	if len(j.reasons) == 0 {
		j.checkChance()
	}
	if len(j.reasons) == 0 {
		for _, g := range groupsOf(v.Holdings, d.Scope) {
			j.checkGroup(g)
		}
	}
	if len(j.reasons) > 0 {
		v.Refusal, v.Holdings, v.Reasons = TopologyAffinityError, nil, append(v.Reasons, j.reasons...)
	}
	return v
}

// judgement is the state of comparing one verdict with a demand. all has the holdings of the verdict.
type judgement struct {
	u   *Usage
	d   Demand
	all []Holding
	// enforced: the kubelet itself takes only devices on the NUMA nodes of the rest, or refuses the pod.
	enforced   bool
	reasons    []Reason
	near       map[string][]topo.Mask // what candidates found, by resource
	deviceSums map[string][]int64     // of sumsOfDevices, by resource
}

// Reason completes r as a refusal of the demand for a cause that is not about particular NUMA nodes. An empty Resource
// becomes the resources of the demand. Want becomes the number of NUMA nodes that the demand allows, or 0 if that
// depends on what is held.
func (d Demand) Reason(r Reason) Reason {
	if r.Resource == "" {
		r.Resource = d.Align.String()
	}
	if r.Want = 1; d.Policy == Restricted {
		r.Want = 0
	}
	return r
}

func (j *judgement) refuse(r Reason) { j.reasons = append(j.reasons, j.d.Reason(r)) }

// checkTied refuses if the node ties a resource in Align to no NUMA node. If Align is empty, it refuses if the node
// ties no resource of the demand.
func (j *judgement) checkTied() {
	at := j.places(j.all)
	for _, name := range j.d.Align.List() {
		if at[name] == 0 {
			j.refuse(Reason{Code: Untied, Resource: name})
		}
	}
	if len(at) == 0 && j.d.Align == "" {
		j.refuse(Reason{Code: Untied})
	}
}

// checkChance refuses outcomes that depend on chance. If chance decides the NUMA nodes of a container's devices, it
// also decides the affinity of the next container that asks for such devices, and what is left for the containers
// after it. That is not so under scope pod, where the affinity is chosen before any device is taken, and without a
// topology policy, where there is no affinity.
func (j *judgement) checkChance() {
	rules := j.u.Rules.Topology
	if j.enforced || !policyTable[rules.Policy].hints || rules.Scope == PerPod {
		return
	}
	loose := map[string]bool{}
	for _, h := range j.all {
		for _, b := range h.Devices {
			if b.Loose && loose[b.Resource] {
				j.refuse(Reason{Code: Drawn, Container: h.Container, With: b.Resource})
				return
			}
			loose[b.Resource] = loose[b.Resource] || b.Loose
		}
	}
}

// group has holdings that the demand wants together: a container's, or the pod's (container is then empty).
type group struct {
	container string
	holdings  []Holding
}

// groupsOf returns the groups of a scope: one for the pod, or one for each holding.
func groupsOf(hs []Holding, s Scope) []group {
	if s == PerPod {
		return []group{{holdings: hs}}
	}
	var out []group
	for _, h := range hs {
		out = append(out, group{h.Container, []Holding{h}})
	}
	return out
}

// checkGroup refuses unless the holdings of a group are on as few NUMA nodes as the demand allows.
func (j *judgement) checkGroup(g group) {
	allowed := 1
	if j.d.Policy == Restricted {
		allowed = max(1, j.needed(g.holdings))
	}
	sure, maybe, draws := j.masks(g.holdings)
	// The demand holds for every choice in two cases: all devices that may be taken are near the same NUMA nodes, or
	// there is room for one more NUMA node for each device.
	if within(append(slices.Clone(sure), maybe...), allowed) || within(sure, allowed-draws) {
		return
	}
	at := j.places(g.holdings)
	var used topo.Mask
	var where []string
	for _, name := range slices.Sorted(maps.Keys(at)) {
		used |= at[name]
		where = append(where, idset.Of(j.u.Machine.IDs(at[name])...).String()+" for "+name)
	}
	j.reasons = append(j.reasons, Reason{Code: Demanded, Container: g.container, Resource: j.d.Align.String(),
		Want: int64(allowed), Have: int64(used.Len()), With: strings.Join(where, ", ")})
}

// places returns, for each resource of the demand, the NUMA nodes that it is tied to. It leaves out resources that
// are tied to none.
func (j *judgement) places(hs []Holding) map[string]topo.Mask {
	out := map[string]topo.Mask{}
	note := func(name string, on topo.Mask) {
		if on != 0 && j.d.about(name) {
			out[name] |= on
		}
	}
	for _, h := range hs {
		note(cpuName, j.u.Machine.MaskOfCPUs(h.CPUs))
		for _, b := range h.Memory {
			note(b.Kind, b.NUMAs)
		}
		for _, b := range h.Devices {
			note(b.Resource, b.NUMAs)
			for _, m := range j.candidates(b) {
				note(b.Resource, m)
			}
		}
	}
	return out
}

// masks returns masks such that a set of NUMA nodes is near all holdings if it touches every mask. sure has one mask
// for each NUMA node of CPUs and memory, and one mask for each device that is certain. maybe has one mask for each
// device that the kubelet may take by chance, and draws is how many it takes.
func (j *judgement) masks(hs []Holding) (sure, maybe []topo.Mask, draws int) {
	each := func(m topo.Mask) {
		for ; m != 0; m &= m - 1 {
			sure = append(sure, m&-m)
		}
	}
	for _, h := range hs {
		if j.d.about(cpuName) {
			each(j.u.Machine.MaskOfCPUs(h.CPUs))
		}
		for _, b := range h.Memory {
			if j.d.about(b.Kind) {
				each(b.NUMAs)
			}
		}
		for _, b := range h.Devices {
			switch _, res, ok := j.u.resource(b.Resource); {
			case !ok || !j.d.about(b.Resource):
			case b.Loose && !j.enforced:
				maybe, draws = append(maybe, j.candidates(b)...), draws+len(b.IDs)
			default:
				for _, id := range b.IDs {
					if i, ok := deviceIndex(res, id); ok {
						sure = append(sure, res.Devices[i].NUMAs)
					}
				}
			}
		}
	}
	return sure, maybe, draws
}

// candidates returns the NUMA nodes of each device that the node may take in place of the devices of a block. These
// are the devices that the pod holds, and all healthy devices that no other pod holds. The result is empty if the
// NUMA nodes of the block are certain. The caller must not change the result.
func (j *judgement) candidates(b DeviceBlock) (out []topo.Mask) {
	at, res, ok := j.u.resource(b.Resource)
	if !b.Loose || j.enforced || !ok {
		return nil
	}
	if out, ok = j.near[b.Resource]; ok {
		return out
	}
	own := newDevices(len(res.Devices))
	for _, h := range j.all {
		for _, x := range h.Devices {
			for _, id := range x.IDs {
				if i, ok := deviceIndex(res, id); ok && x.Resource == b.Resource {
					own.with(i)
				}
			}
		}
	}
	for i, d := range res.Devices {
		if own.has(i) || !d.Unhealthy && !j.u.taken[at].has(i) {
			out = append(out, d.NUMAs)
		}
	}
	if j.near == nil {
		j.near = map[string][]topo.Mask{}
	}
	j.near[b.Resource] = out
	return out
}

// maxShared bounds the masks of several NUMA nodes for which within tries all choices. If there are more, within
// chooses the lowest NUMA node of each.
const maxShared = 6

// within reports whether some set of at most limit NUMA nodes touches every mask. An empty mask counts as touched. If
// more than maxShared different masks have several NUMA nodes, the answer may be false although such a set exists.
func within(masks []topo.Mask, limit int) bool {
	var base topo.Mask
	var shared []topo.Mask // stops growing beyond maxShared, and may then have duplicates
	for _, m := range masks {
		if m.Len() == 1 {
			base |= m
		} else if m != 0 && (len(shared) > maxShared || !slices.Contains(shared, m)) {
			shared = append(shared, m)
		}
	}
	if len(shared) <= maxShared {
		return base.Len()+fewestTouching(base, shared) <= limit
	}
	for _, m := range shared {
		if m&base == 0 {
			base |= m & -m
		}
	}
	return base.Len() <= limit
}

// fewestTouching returns how many NUMA nodes in addition to base are needed to touch all masks. There are at most
// maxShared masks. For every set of masks it computes the fewest NUMA nodes that touch the set.
func fewestTouching(base topo.Mask, masks []topo.Mask) int {
	var fewest [1 << maxShared]int
	all := 0
	for i, m := range masks {
		if m&base == 0 {
			all |= 1 << i
		}
	}
	for set := 1; set <= all; set++ {
		first := masks[bits.TrailingZeros(uint(set))]
		fewest[set] = maxShared
		for rest := first; rest != 0 && set&^all == 0; rest &= rest - 1 {
			untouched := set
			for i, m := range masks {
				if m&rest&-rest != 0 {
					untouched &^= 1 << i
				}
			}
			fewest[set] = min(fewest[set], fewest[untouched]+1)
		}
	}
	return fewest[all]
}

// needed returns the number of NUMA nodes that the widest resource of some holdings needs on the empty machine. CPUs
// and devices that a container reuses from an init container count once. So does memory, since the block of the init
// container is already reduced.
func (j *judgement) needed(hs []Holding) int {
	var cpus idset.Set[idset.CPU]
	memory, devices := map[string]int64{}, map[string]map[string]bool{}
	for _, h := range hs {
		cpus = cpus.Union(h.CPUs)
		for _, b := range h.Memory {
			memory[b.Kind] += b.Bytes
		}
		for _, b := range h.Devices {
			if devices[b.Resource] == nil {
				devices[b.Resource] = map[string]bool{}
			}
			for _, id := range b.IDs {
				devices[b.Resource][id] = true
			}
		}
	}
	m, w := j.u.Machine, 0
	if j.d.about(cpuName) {
		w = numasNeeded(m, int64(cpus.Len()), func(i int) int64 { return int64(m.NUMAs()[i].CPUs.Len()) })
	}
	for kind, n := range memory {
		if j.d.about(kind) {
			w = max(w, numasNeeded(m, n, func(i int) int64 { return j.u.Allocatable(i, kind) }))
		}
	}
	for name, ids := range devices {
		if _, res, ok := j.u.resource(name); ok && j.d.about(name) {
			w = max(w, j.fewestDevices(res, int64(len(ids))))
		}
	}
	return w
}

// fewestDevices returns how many NUMA nodes are needed for n devices, if each next one is the one that adds most.
func (j *judgement) fewestDevices(res topo.Resource, n int64) int {
	sums, ok := j.deviceSums[res.Name]
	if !ok {
		sums = sumsOfDevices(res, len(j.u.Machine.NUMAs()))
		if j.deviceSums == nil {
			j.deviceSums = map[string][]int64{}
		}
		j.deviceSums[res.Name] = sums
	}
	at, _ := slices.BinarySearch(sums, n)
	return min(at, len(sums)-1)
}

// sumsOfDevices returns how many devices 0, 1, 2 and more NUMA nodes have together. Each next NUMA node is the one that
// adds most, or the lowest of equal ones.
func sumsOfDevices(res topo.Resource, numas int) []int64 {
	more := make([]int64, numas) // devices of a NUMA node that are on no NUMA node in use
	for i := range res.Devices {
		add(more, res.Devices[i].NUMAs, 1)
	}
	out := []int64{0}
	var used topo.Mask
	for range numas {
		best := -1
		for i, n := range more {
			if !used.Has(i) && (best < 0 || n > more[best]) {
				best = i
			}
		}
		out = append(out, out[len(out)-1]+more[best])
		for i := range res.Devices {
			if d := res.Devices[i].NUMAs; d.Has(best) && d&used == 0 {
				add(more, d, -1)
			}
		}
		used |= 1 << uint(best)
	}
	return out
}

// numasNeeded returns how many NUMA nodes, largest first, together have n. If all together have less, it returns
// their number.
func numasNeeded(m *topo.Machine, n int64, value func(i int) int64) int {
	var values [topo.MaxNUMAs]int64
	numas := len(m.NUMAs())
	for i := range numas {
		values[i] = -value(i)
	}
	slices.Sort(values[:numas])
	w := 0
	for ; n > 0 && w < numas; w++ {
		n += values[w]
	}
	return w
}
