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
//   - Scope container: for every container in order, init containers first, the families are merged
//     and the container is allocated at once, so that later ones see what earlier ones took.
//   - Scope pod: the families of the pod as a whole are merged once; every container gets that affinity.
//   - Providers are asked in the order devices, CPUs, memory. The first refusal ends the walk.

// DefaultMaxNUMAs is the most numas that a topology manager handles unless max-allowable-numa-nodes
// says otherwise (topologymanager/topology_manager.go).
const DefaultMaxNUMAs = 8

// Place says what the node will do with the pod. It changes neither argument.
func Place(u *Usage, p *Pod) Verdict {
	if v, ok := beyond(u); !ok {
		return v
	}
	a := &admission{
		u:     u.clone(),
		pod:   p,
		taken: make([]Holding, len(p.Containers)),
		spare: spare{memory: map[memoryKey]int64{}, devices: map[string]devices{}},
	}
	if err := a.run(); err != "" {
		return Verdict{Error: err, Reasons: a.reasons, Chance: a.chance()}
	}
	return Verdict{Holdings: a.holdings(), Chance: a.chance()}
}

// beyond refuses machines that the node's own topology manager would not start on.
func beyond(u *Usage) (Verdict, bool) {
	rules := u.Rules.Topology
	most := cmp.Or(rules.MaxNUMAs, DefaultMaxNUMAs)
	n := len(u.Machine.NUMAs())
	if rules.Policy == None || n <= most {
		return Verdict{}, true
	}
	return Verdict{
		Error:   UnexpectedAdmissionError,
		Reasons: []Reason{{Code: Unsupported, Want: int64(n), Have: int64(most)}},
	}, false
}

// admission is one pod on its way through the managers.
type admission struct {
	u       *Usage // a private copy that containers are booked on
	pod     *Pod
	taken   []Holding // by index of Pod.Containers
	spare   spare
	reasons []Reason
}

// spare is what finished init containers of the pod leave to later ones.
type spare struct {
	cpus    idset.Set[idset.CPU]
	memory  map[memoryKey]int64 // bytes
	devices map[string]devices  // by resource
}

// memoryKey: memory is reused only on exactly the same numas (memorymanager/policy_static.go,
// getPodReusableMemory).
type memoryKey struct {
	mask topo.Mask
	kind string
}

func (a *admission) run() Error {
	if !policyTable[a.u.Rules.Topology.Policy].hints {
		return a.each(func(int) (hint, bool) { return hint{}, true })
	}
	if a.u.Rules.Topology.Scope == PerPod {
		h, ok := a.align(a.podRequest())
		if !ok {
			return TopologyAffinityError
		}
		return a.each(func(int) (hint, bool) { return h, true })
	}
	return a.each(func(i int) (hint, bool) { return a.align(a.containerRequest(i)) })
}

// each allocates the containers in order, each with the hint that next gives for it.
func (a *admission) each(next func(i int) (hint, bool)) Error {
	for i := range a.pod.Containers {
		h, ok := next(i)
		if !ok {
			return TopologyAffinityError
		}
		for _, allocate := range []func(int, hint) Error{a.allocateDevices, a.allocateCPUs, a.allocateMemory} {
			if err := allocate(i, h); err != "" {
				return err
			}
		}
	}
	return ""
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

// chance reports whether the numas of some devices were left to chance.
func (a *admission) chance() bool {
	return slices.ContainsFunc(a.taken, func(h Holding) bool {
		return slices.ContainsFunc(h.Devices, func(d DeviceBlock) bool { return d.Loose })
	})
}

func (a *admission) refuse(r ...Reason) { a.reasons = append(a.reasons, r...) }

// request is what the families are asked for: one container's wants, or the pod's.
type request struct {
	container string // empty for the pod
	cpus      int64  // 0: no exclusive CPUs
	memory    []Amount
	devices   []Count
	spare     spare
}

// wholeCPUs returns the number of exclusive CPUs that a container wants.
func (a *admission) wholeCPUs(c *Container) int64 {
	if !a.u.Rules.CPU.Static || !a.pod.Exclusive() || c.MilliCPU%1000 != 0 {
		return 0
	}
	return c.MilliCPU / 1000
}

// pinnedMemory returns the memory that the memory manager assigns to a container.
func (a *admission) pinnedMemory(c *Container) []Amount {
	if !a.u.Rules.Memory.Static || !a.pod.Exclusive() {
		return nil
	}
	return c.Memory
}

func (a *admission) containerRequest(i int) request {
	c := &a.pod.Containers[i]
	return request{container: c.Name, cpus: a.wholeCPUs(c), memory: a.pinnedMemory(c), devices: a.known(c.Devices), spare: a.spare}
}

// known drops resources that no device plugin of the machine serves: the device manager ignores them.
func (a *admission) known(in []Count) []Count {
	out := make([]Count, 0, len(in))
	for _, d := range in {
		if _, _, ok := a.u.resource(d.Resource); ok {
			out = append(out, d)
		}
	}
	return out
}

// podRequest adds up the containers. Memory of a kind that only init containers ask for does not count
// (memorymanager/policy_static.go, getPodRequestedResources); devices and CPUs do.
func (a *admission) podRequest() request {
	cpus, memory, devs := newPeak(), newPeak(), newPeak()
	appKinds := map[string]bool{}
	for i := range a.pod.Containers {
		c := &a.pod.Containers[i]
		cpus.add(c.Kind, "cpu", a.wholeCPUs(c))
		for _, m := range a.pinnedMemory(c) {
			memory.add(c.Kind, m.Kind, m.Bytes)
			appKinds[m.Kind] = appKinds[m.Kind] || c.Kind == App
		}
		for _, d := range a.known(c.Devices) {
			devs.add(c.Kind, d.Resource, d.N)
		}
	}
	r := request{cpus: cpus.of("cpu")}
	for _, k := range memory.names() {
		if appKinds[k] {
			r.memory = append(r.memory, Amount{k, memory.of(k)})
		}
	}
	for _, name := range devs.names() {
		r.devices = append(r.devices, Count{name, devs.of(name)})
	}
	return r
}

// peak computes the most that a pod uses of something at any time: app containers and sidecars run
// together; an init container runs with the sidecars that precede it (KEP-753).
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
		p.apps[name] += 0
	default:
		p.apps[name] += n
	}
}

func (p peak) of(name string) int64 { return max(p.inits[name], p.apps[name]+p.sidecars[name]) }

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

// align merges the families of a request; ok is false where the policy refuses.
func (a *admission) align(r request) (hint, bool) {
	l := newLattice(a.universe(r))
	if len(l.at) > maxLattice {
		a.refuse(Reason{Code: Unsupported, Container: r.container, Want: int64(len(l.at)), Have: maxLattice})
		return hint{}, false
	}
	var fams []family
	for _, d := range r.devices {
		if f, choosy := a.deviceFamily(l, r, d); choosy {
			fams = append(fams, f)
		}
	}
	if r.cpus > 0 {
		fams = append(fams, a.cpuFamily(l, r))
	}
	memory := a.memoryFamilies(l, r.memory, r.spare)
	fams = append(fams, memory.families()...)
	h, ok := merge(a.u, l, fams)
	if !ok {
		a.refuse(explain(a.u, l, r.container, fams)...)
	}
	return h, ok
}

// universe returns the numas that the families of a request range over.
func (a *admission) universe(r request) (out topo.Mask) {
	for _, d := range r.devices {
		out |= a.deviceNUMAs(d.Resource)
	}
	if r.cpus > 0 {
		out |= a.u.Machine.WithCPUs()
	}
	if len(r.memory) > 0 {
		out |= a.u.Machine.All()
	}
	return out
}
