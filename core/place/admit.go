package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file walks a pod through a node's admission. The rules are (topologymanager/scope_*.go):
//
//   - Policy none: every container is allocated in order, without affinity.
//   - Scope container: for every container in order, init containers first, the hint sets are merged
//     and the container is allocated at once, so that later ones see what earlier ones took.
//   - Scope pod: the hint sets of the pod as a whole are merged once; every container gets that affinity.
//   - The managers are asked in the order devices, CPUs, memory. The first refusal ends the walk.

// defaultMaxNUMAs is the most NUMA nodes that a topology manager handles without max-allowable-numa-nodes
// (topologymanager/topology_manager.go).
const defaultMaxNUMAs = 8

// Place returns what the node does with the pod: the holdings of every container, or why the kubelet refuses it. It
// changes neither argument. The pod must be valid (see [Pod.Validate]); api/pod makes valid pods. Place bounds its own
// work, so it takes some milliseconds at most for any pod and machine. Beyond that bound the verdict is a refusal with
// the code [TooComplex].
func Place(u *Usage, p *Pod) Verdict {
	p = u.Rules.managed(p)
	if bars := u.bars(u.Rules.Serves(p)); len(bars) > 0 {
		return Verdict{Refusal: UnexpectedAdmissionError, Reasons: slices.Clone(bars)}
	}
	if large := p.TooLarge(); len(large) > 0 {
		return Verdict{Refusal: UnexpectedAdmissionError, Reasons: large}
	}
	a := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers))}
	return a.verdict()
}

// verdict runs the admission and returns its outcome.
func (a *admission) verdict() Verdict {
	err := a.run()
	if a.work.over() {
		return a.complex()
	}
	if a.crash != nil {
		return Verdict{Refusal: UnexpectedAdmissionError, Reasons: []Reason{*a.crash}}
	}
	if err != "" {
		return Verdict{Refusal: err, Reasons: a.reasons, Chance: a.swayed}
	}
	return Verdict{Holdings: a.holdings(), Chance: a.chance()}
}

// Fits reports whether the node will admit the pod. The result is Place(u, p).Fits(), with the same preconditions, but
// Fits computes neither ids nor reasons. For a pod of one container it allocates nothing. For many nodes, use a
// [Question].
func Fits(u *Usage, p *Pod) bool {
	p = u.Rules.managed(p)
	var a answer
	if p.alone() {
		var x plan
		x.ready(u, p)
		steps := 0
		a = x.ask(&u.counts, &steps)
	} else {
		c := u.podPlan(p)
		a = c.ask(&u.counts)
	}
	return a == yes || a == unsure && fits(u, p)
}

// alone reports whether the pod has a single container, which is an app container and gets its devices at admission.
func (p *Pod) alone() bool {
	return len(p.Containers) == 1 && p.Containers[0].Kind == App && !p.late
}

// fits is Fits without plans: it walks the pod through the admission. The caller passes what [Rules.managed] returns.
func fits(u *Usage, p *Pod) bool {
	if len(u.bars(u.Rules.Serves(p))) > 0 || len(p.TooLarge()) > 0 {
		return false
	}
	a := admission{u: u, pod: p, brief: true}
	if len(p.Containers) > 1 || p.pool != nil {
		a.taken = make([]Holding, len(p.Containers))
	}
	err := a.run()
	if a.work.over() { // steps that the brief walk leaves out count with their upper bound, so Place has to decide
		return Place(u, p).Fits()
	}
	return err == ""
}

// admission is the state of one pod on its way through the managers.
type admission struct {
	u     *Usage // holdings are subtracted here; it is the caller's usage until own makes a copy
	owned bool
	pod   *Pod
	// brief: only whether the pod fits is needed. The admission then computes no reasons, and not what the last
	// container gets, because no container follows it.
	brief  bool
	tables bool      // do not use plans; tests compare both ways
	taken  []Holding // by index of Pod.Containers
	spare  spare
	lent   map[memoryKey]*lent
	// drawn has, for each resource, whether chance chose devices of earlier containers.
	drawn map[string]chance
	// crash is why a manager panics, or nil.
	crash *Reason
	// swayed: chance decides the devices of a container, and the affinity of a later container depends on them.
	swayed  bool
	reasons []Reason
	work    work
}

// ownUsage makes sure that a.u is a private copy, from which holdings may be subtracted.
func (a *admission) ownUsage() {
	if !a.owned {
		a.u, a.owned = a.u.clone(), true
	}
}

// last reports whether container i is the last one, so that its holdings need not be subtracted. The CPUs of a pod as
// a whole are still needed if containers get parts of them.
func (a *admission) last(i int) bool {
	return i == len(a.pod.Containers)-1 && (a.pod.pool == nil || len(a.pod.pool.parts) == 0)
}

// entryOf returns the entry of a container in a.taken, with name and kind set, for the caller to fill.
func (a *admission) entryOf(i int) *Holding {
	h, c := &a.taken[i], &a.pod.Containers[i]
	h.Container, h.Kind = c.Name, c.Kind
	return h
}

// spare is what finished init containers of the pod leave to later containers.
type spare struct {
	cpus    idset.Set[idset.CPU]
	memory  map[memoryKey]int64 // bytes
	devices map[string]devices  // by resource
}

func (s *spare) any() bool { return !s.cpus.Empty() || s.memory != nil || s.devices != nil }

// memoryKey identifies memory that may be reused: later containers reuse memory only on exactly the same NUMA nodes
// (memorymanager/policy_static.go, getPodReusableMemory).
type memoryKey struct {
	mask topo.Mask
	kind string
}

// run walks the pod through the admission. It returns "" if the node admits the pod, and otherwise the kubelet's
// reason. If the steps run out, the result has no meaning.
func (a *admission) run() RefusalReason {
	rules := a.u.Rules.Topology
	hints := policyTable[rules.Policy].hints
	var h hint
	var ok bool
	if hints && rules.Scope == PerPod {
		// The managers refuse the pod if p.cpu or p.memory is set; under best-effort, allocateWhole refuses it.
		if p := a.pod.pool; p != nil && rules.Policy != BestEffort && (p.cpu != nil || p.memory != nil) {
			a.refuse(*cmp.Or(p.cpu, p.memory))
			return TopologyAffinityError
		}
		r := a.podRequest()
		if h, ok = a.align(&r); !ok {
			return TopologyAffinityError
		}
	}
	for i := range a.pod.Containers {
		if !a.work.spend(containerSteps) || a.work.over() {
			return UnexpectedAdmissionError
		}
		if i == 0 && a.pod.pool != nil {
			if err := a.allocateWhole(h); err != "" {
				return err
			}
			continue
		}
		if a.idle(i) {
			continue
		}
		if hints && rules.Scope == PerContainer {
			r := a.containerRequest(i)
			for _, d := range r.devices {
				a.swayed = a.swayed || a.drawn[d.Resource].loose
			}
			if h, ok = a.align(&r); !ok {
				return TopologyAffinityError
			}
		}
		if err := a.allocate(i, h); err != "" {
			return err
		}
	}
	return ""
}

// idle reports whether the managers pass over a container, because it asks for nothing that they assign.
func (a *admission) idle(i int) bool {
	c := &a.pod.Containers[i]
	return len(c.Devices) == 0 && a.wholeCPUs(c) == 0 &&
		(c.unpinned || !a.u.Rules.Memory.Static || !a.u.Rules.Serves(a.pod))
}

// allocate gives a container what it asks for, inside its affinity where possible. The result is "" if the managers
// admit the container; otherwise it is the kubelet's reason, and a.reasons has what was missing.
func (a *admission) allocate(i int, h hint) RefusalReason {
	if err := a.allocateDevices(i, h); err != "" {
		return err
	}
	if err := a.allocateCPUs(i, h); err != "" {
		return err
	}
	return a.allocateMemory(i, h)
}

func (a *admission) holdings() []Holding {
	var out []Holding
	for _, h := range a.taken {
		if !h.Empty() {
			out = append(out, h)
		}
	}
	return out
}

// chance reports whether chance decides the NUMA nodes of some devices.
func (a *admission) chance() bool {
	return slices.ContainsFunc(a.taken, func(h Holding) bool {
		return slices.ContainsFunc(h.Devices, func(d DeviceBlock) bool { return d.Loose })
	})
}

// refuse records reasons, unless the walk is brief.
func (a *admission) refuse(r ...Reason) {
	if !a.brief {
		a.reasons = append(a.reasons, r...)
	}
}

// request is the input of the hint sets: the wants of one container, or of the whole pod.
type request struct {
	container string // empty for the pod
	cpus      int64  // 0: no exclusive CPUs
	memory    []Amount
	devices   []Count // may name resources that the machine lacks
	spare     spare
}

// wholeCPUs returns the number of exclusive CPUs that a container wants, 0 if it gets shared CPUs.
func (a *admission) wholeCPUs(c *Container) int64 {
	if !a.u.Rules.CPU.Static || !a.u.Rules.Serves(a.pod) || c.MilliCPU%1000 != 0 {
		return 0
	}
	return c.MilliCPU / 1000
}

// pinnedMemory returns the memory that the memory manager assigns to a container; nil if the manager assigns none.
func (a *admission) pinnedMemory(c *Container) []Amount {
	if !a.u.Rules.Memory.Static || !a.u.Rules.Serves(a.pod) || c.fraction() >= 0 {
		return nil
	}
	return c.Memory
}

// fraction returns the position of an amount that is not a whole number of bytes, or -1. For such a container the
// memory manager gives no hints, and later refuses to allocate its memory.
func (c *Container) fraction() int {
	return slices.IndexFunc(c.Memory, func(a Amount) bool { return a.Fractional })
}

func (a *admission) containerRequest(i int) request {
	c := &a.pod.Containers[i]
	return request{container: c.Name, cpus: a.wholeCPUs(c), memory: a.pinnedMemory(c), devices: c.Devices, spare: a.spare}
}

// servedDevices drops resources that no device plugin of the machine serves, because the device manager ignores them.
func (a *admission) servedDevices(in []Count) []Count {
	out := make([]Count, 0, len(in))
	for _, d := range in {
		if _, _, ok := a.u.resource(d.Resource); ok {
			out = append(out, d)
		}
	}
	return out
}

// podRequest returns the most that the pod needs at any time. It leaves out kinds of memory that only init containers
// ask for, and all memory if some container asks for a fraction of a byte (memorymanager/policy_static.go,
// getPodRequestedResources). It leaves out no CPUs and no devices.
func (a *admission) podRequest() request {
	if len(a.pod.Containers) == 1 && a.pod.Containers[0].Kind == App {
		r := a.containerRequest(0)
		r.container = ""
		return r
	}
	cpus, memory, devs := newPeak(), newPeak(), newPeak()
	appKinds := map[string]bool{}
	for i := range a.pod.Containers {
		c := &a.pod.Containers[i]
		if !a.work.spend(containerSteps + len(c.Memory)*containerSteps + len(c.Devices)*(containerSteps+len(a.u.sets))) {
			break
		}
		cpus.add(c.Kind, "cpu", a.wholeCPUs(c))
		for _, m := range a.pinnedMemory(c) {
			memory.add(c.Kind, m.Kind, m.Bytes)
			appKinds[m.Kind] = appKinds[m.Kind] || c.Kind == App
		}
		for _, d := range a.servedDevices(c.Devices) {
			devs.add(c.Kind, d.Resource, d.N)
		}
	}
	r := request{cpus: cpus.amount("cpu")}
	fractional := slices.ContainsFunc(a.pod.Containers, func(c Container) bool { return c.fraction() >= 0 })
	for _, k := range memory.names() {
		if appKinds[k] && !fractional {
			r.memory = append(r.memory, Amount{Kind: k, Bytes: memory.amount(k)})
		}
	}
	for _, name := range devs.names() {
		r.devices = append(r.devices, Count{name, devs.amount(name)})
	}
	return r
}

// peak computes the most that a pod uses of each resource at any time. App containers and sidecars run together; an
// init container runs with the sidecars that precede it (KEP-753).
type peak struct {
	sidecars, apps, inits map[string]int64
}

func newPeak() peak { return peak{map[string]int64{}, map[string]int64{}, map[string]int64{}} }

func (p peak) add(k Kind, name string, n int64) {
	switch k {
	case Init:
		p.inits[name] = max(p.inits[name], p.sidecars[name]+n)
	case Sidecar:
		p.sidecars[name] += n
		p.apps[name] += 0 // so that names lists it
	default:
		p.apps[name] += n
	}
}

func (p peak) amount(name string) int64 { return max(p.inits[name], p.apps[name]+p.sidecars[name]) }

func (p peak) names() []string {
	var out []string
	for _, m := range []map[string]int64{p.apps, p.inits} {
		for name := range m {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, compareKinds)
	return slices.Compact(out)
}

// compareKinds orders resources by name, ordinary memory before hugepages.
func compareKinds(a, b string) int {
	if (a == topo.Memory) != (b == topo.Memory) {
		if a == topo.Memory {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// align merges the hint sets of a request. The second result is false if the policy refuses.
func (a *admission) align(r *request) (hint, bool) {
	if a.crashes(r.container, r.memory, a.u.all) {
		return hint{}, false
	}
	h, sure := a.alignByPlan(r)
	if sure == yes {
		return h, true
	}
	l := newMaskSpace(a.universe(r))
	if len(l.at) > maxMaskSpace {
		a.refuse(a.tooMany(r, len(l.at)))
		return hint{}, false
	}
	if sure == unsure && !a.work.spend(l.size()/4) { // for allocating the tables
		return hint{}, false
	}
	row := policyTable[a.u.Rules.Topology.Policy]
	l.single = row.single
	ok := false
	if sure == unsure {
		h, ok = a.merge(&l, row, r)
	}
	if !ok && !a.brief {
		a.refuse(a.explain(&l, r)...)
	}
	return h, ok
}

// tooMany returns the reason for refusing a request that concerns more NUMA nodes than the tables of masks allow.
func (a *admission) tooMany(r *request, numas int) Reason {
	for _, want := range r.devices {
		if n := a.u.triedNUMAs(want.Resource); n > maxMemorySets {
			return Reason{Code: Endless, Container: r.container, Resource: want.Resource, Want: want.N, Width: n}
		}
	}
	return Reason{Code: Unsupported, Container: r.container, Want: int64(numas), Have: maxMaskSpace}
}

// merge finds the affinity with tables of masks. The second result is false if the policy refuses.
func (a *admission) merge(l *maskSpace, row policyRow, r *request) (hint, bool) {
	var space room
	var cross crossing
	t := space.tables(l.size())
	m := cross.merging(row, l.size())
	m.work = &a.work
	for k := range r.hintSets() {
		f, choosy := a.hintSet(l, r, k, t)
		if !choosy || !row.preferred && !a.work.spend(max(1, f.kinds)*reachSteps(len(l.at), l.size())) {
			continue
		}
		m.meet(l, &f)
	}
	if a.work.over() {
		return hint{}, false
	}
	return m.decide(a.u, l)
}

// alignByPlan is align without tables of masks. It answers yes if a single NUMA node serves all hint sets, no if the
// policy surely refuses, and unsure otherwise. h is valid for the answer yes only.
func (a *admission) alignByPlan(r *request) (h hint, sure answer) {
	if a.tables || r.spare.any() || a.u.localVaries && a.u.Rules.Topology.PreferClosest {
		return h, unsure
	}
	if !a.work.spend(containerSteps + 8*a.u.numas + len(r.devices)*(8+len(a.u.sets))) {
		return h, no
	}
	var p plan
	p.make(a.u, r, a.u.Rules.Serves(a.pod))
	if p.never || p.hard || p.narrow || p.choosy == 0 && !p.pinned {
		return h, unsure
	}
	row, w := policyTable[p.policy], 1
	if !row.single {
		w = p.common()
	}
	free := &a.u.counts
	if i := p.lowest(free); w == 1 && i >= 0 {
		mask := topo.Mask(1) << uint(i)
		return hint{mask: mask, set: !row.single || mask != a.u.all, preferred: true}, yes
	}
	steps := 0
	refused := row.preferred && (w <= 1 || p.onSeveral(free, w, &steps) == no) && (!p.pinned || p.memoryHas(free))
	if a.work.spend(steps); refused {
		return h, no
	}
	return h, unsure
}

// hintSets returns how many hint sets a request has at most: devices, CPUs, memory.
func (r *request) hintSets() int { return len(r.devices) + 2 }

// hintSet makes the k-th hint set in the tables; choosy is false if the resource has no preference.
func (a *admission) hintSet(l *maskSpace, r *request, k int, t tables) (f hintSet, choosy bool) {
	switch {
	case k < len(r.devices):
		return a.deviceHintSet(l, r, r.devices[k], t)
	case k == len(r.devices) && r.cpus > 0:
		return a.cpuHintSet(l, r, t), true
	case k == len(r.devices)+1 && len(r.memory) > 0:
		if f = a.memoryHintSet(l, r, t); f.impossible && l.single {
			// No single NUMA node has the memory. The memory manager still gives hints if several together have it.
			all := *l
			all.single = false
			f = a.memoryHintSet(&all, r, t)
		}
		return f, !f.impossible
	}
	return f, false
}

// universe returns the NUMA nodes that may appear in the hint sets of a request.
func (a *admission) universe(r *request) (out topo.Mask) {
	for _, d := range r.devices {
		if at := a.u.resourceAt(d.Resource); at >= 0 {
			out |= a.u.sets[at].numas
		}
	}
	if r.cpus > 0 {
		out |= a.u.Machine.WithCPUs()
	}
	if len(r.memory) > 0 {
		out |= a.u.Machine.All()
	}
	return out
}
