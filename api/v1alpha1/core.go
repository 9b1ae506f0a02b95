package v1alpha1

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file converts a layout to core values and checks it. Each part of the object has a method core that returns
// the part's core form, or an error for its first fault. The bounds come first, so that no part can take more memory
// than they allow; package topo checks what concerns the machine as a whole.

// Layout is a NodeLayout as core values.
//
// +kubebuilder:object:generate=false
type Layout struct {
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the observed holdings, in the order of the object.
	Entries []state.Entry
	// Groups are the memory manager's groups by position of the NUMA node in Machine.NUMAs. A missing NUMA node has the
	// group that follows from its holdings.
	Groups map[int]place.MemoryGroup
	// Inexact lists why predictions for the node may differ from what its kubelet does.
	Inexact []state.Inexact
}

// Sharing are functions of a caller that reads many layouts, so that their core values share memory.
//
// +kubebuilder:object:generate=false
type Sharing struct {
	// Machine makes a machine, or returns an equal one; see [topo.Pool].
	Machine func(topo.Spec) (*topo.Machine, error)
	// ID returns an equal id, with texts that are in memory anyway. It may be nil.
	ID func(state.PodID) state.PodID
}

// Core checks the object and returns it as core values. The error names the node, the field and the value of the first
// fault.
func (l *NodeLayout) Core() (Layout, error) { return l.CoreOn(Sharing{Machine: topo.New}) }

// CoreOn is Core for callers that share equal values.
func (l *NodeLayout) CoreOn(by Sharing) (Layout, error) {
	out, err := l.core(by)
	if err != nil {
		return Layout{}, fmt.Errorf("layout of node %q: %w", clip(l.Name), err)
	}
	return out, nil
}

func (l *NodeLayout) core(by Sharing) (out Layout, err error) {
	if err := l.checkHead(); err != nil {
		return out, err
	}
	switch {
	case l.Base > 0:
		return out, ErrNoBase
	case len(l.Ended) > 0:
		return out, errors.New("ended has pods, but there is no base that they could be in")
	}
	spec, err := l.Machine.core()
	if err == nil {
		out.Machine, err = by.Machine(spec)
	}
	if err != nil {
		return out, fmt.Errorf("machine: %w", err)
	}
	if out.Rules, err = l.Rules.core(out.Machine); err != nil {
		return out, fmt.Errorf("rules: %w", err)
	}
	if out.Entries, err = entries(l.Holdings, by, out.Machine); err != nil {
		return out, fmt.Errorf("holdings: %w", err)
	}
	if out.Groups, err = groups(out.Machine, l.MemoryGroups); err != nil {
		return out, fmt.Errorf("memoryGroups: %w", err)
	}
	if err := l.Kubelet.check(); err != nil {
		return out, fmt.Errorf("kubelet: %w", err)
	}
	if release, ok := place.ReleaseOf(l.Kubelet.Version); ok {
		out.Rules.Release = release.Nearest()
	}
	out.Rules.PodLevelManagers = out.Rules.Release.PodLevelManagers(l.Kubelet.gates())
	if out.Inexact, err = inexact(l.Inexact); err != nil {
		return out, fmt.Errorf("inexact: %w", err)
	}
	if l.omitsVersion() {
		out.Inexact = append(out.Inexact, state.Inexact{Code: state.UnknownKubeletVersion,
			Message: "the layout does not say which version its kubelet has; its agent may be of an earlier release"})
	}
	return out, nil
}

// checkHead checks the fields that a layout and a difference both have: the decoding error, sequence, base and the
// agent's id.
func (l *NodeLayout) checkHead() error {
	if l.Malformed != "" {
		return errors.New(visible(l.Malformed))
	}
	if l.Sequence < 0 || l.Sequence > MaxSequence {
		return fmt.Errorf("sequence: %d is outside 0..%d", l.Sequence, int64(MaxSequence))
	}
	if l.Base < 0 || l.Base > MaxSequence {
		return fmt.Errorf("base: %d is outside 0..%d", l.Base, int64(MaxSequence))
	}
	return checkText("agent: id", l.Agent.ID, 0, maxAgent, word)
}

func (in *Machine) core() (s topo.Spec, err error) {
	if err := within("numas", len(in.NUMAs), 1, topo.MaxNUMAs); err != nil {
		return s, err
	}
	for _, n := range in.NUMAs {
		t, err := n.core()
		if err != nil {
			return s, fmt.Errorf("NUMA node %d: %w", n.ID, err)
		}
		s.NUMAs = append(s.NUMAs, t)
	}
	if err := within("cpu groups", len(in.CPUs), 1, topo.MaxCPUs); err != nil {
		return s, err
	}
	total := 0
	for i, g := range in.CPUs {
		cores, err := g.core()
		if err != nil {
			return s, fmt.Errorf("cpus[%d]: %w", i, err)
		}
		for _, c := range cores {
			total += c.CPUs.Len()
		}
		if total > topo.MaxCPUs {
			return s, fmt.Errorf("cpus[%d]: more than %d CPUs", i, topo.MaxCPUs)
		}
		s.Cores = append(s.Cores, cores...)
	}
	if s.Devices, err = devices(in.Devices); err != nil {
		return s, fmt.Errorf("devices: %w", err)
	}
	if err := checkFunctions(in.Functions); err != nil {
		return s, err
	}
	return s, checkOddities(in.Oddities)
}

func (in *NUMA) core() (topo.NUMA, error) {
	n := topo.NUMA{ID: idset.NUMA(in.ID), Bytes: in.Memory, MemoryKind: topo.MemoryKind(in.MemoryKind)}
	if err := within("hugepage sizes", len(in.Hugepages), 0, topo.MaxKinds); err != nil {
		return n, err
	}
	for _, h := range in.Hugepages {
		size, err := topo.ParseBytes(h.Size)
		if err != nil {
			return n, fmt.Errorf("hugepages: size %q: %w", clip(h.Size), errSize)
		}
		n.Hugepages = append(n.Hugepages, topo.Hugepages{PageSize: size, Count: h.Count})
	}
	if err := within("distances", len(in.Distances), 0, topo.MaxNUMAs); err != nil {
		return n, err
	}
	for _, d := range in.Distances {
		n.Distances = append(n.Distances, int(d))
	}
	return n, nil
}

var errSize = errors.New("not a size in 0..1Pi")

// core returns the cores of the group: core k has the k-th CPU of every list. So all lists must have the same length.
func (in *CPUGroup) core() ([]topo.CoreSpec, error) {
	if err := within("thread lists", len(in.CPUs), 1, maxThreads); err != nil {
		return nil, err
	}
	lanes := make([][]idset.CPU, len(in.CPUs))
	for i, text := range in.CPUs {
		set, err := idset.Parse[idset.CPU](string(text))
		if err != nil {
			return nil, err
		}
		if err := within("CPUs of a thread list", set.Len(), 1, topo.MaxCPUs); err != nil {
			return nil, err
		}
		if lanes[i] = set.List(); len(lanes[i]) != len(lanes[0]) {
			return nil, fmt.Errorf("thread lists of %d and %d CPUs differ in length", len(lanes[0]), len(lanes[i]))
		}
	}
	out := make([]topo.CoreSpec, len(lanes[0]))
	ids := make([]idset.CPU, len(lanes))
	for k := range out {
		for i := range lanes {
			ids[i] = lanes[i][k]
		}
		cpus := idset.Of(ids...)
		if cpus.Len() != len(ids) {
			return nil, fmt.Errorf("thread lists name a CPU of core %s twice", cpus)
		}
		out[k] = topo.CoreSpec{NUMA: idset.NUMA(in.NUMA), Socket: idset.Socket(in.Socket), L3: int(in.L3), CPUs: cpus}
	}
	return out, nil
}

func devices(in []Resource) (out []topo.DeviceSpec, err error) {
	if err := within("resources", len(in), 0, topo.MaxKinds); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, r := range in {
		if err := checkText("resource", r.Resource, 1, topo.MaxName, graphic); err != nil {
			return nil, err
		}
		if seen[r.Resource] {
			return nil, fmt.Errorf("resource %q is named twice", clip(r.Resource))
		}
		seen[r.Resource] = true
		count := 0
		for _, g := range r.Groups {
			numas, err := idset.Parse[idset.NUMA](string(g.NUMAs))
			if err != nil {
				return nil, fmt.Errorf("resource %q: numas: %w", clip(r.Resource), err)
			}
			count += max(1, len(g.IDs))
			if err := within("devices and groups", count, 0, topo.MaxDevices); err != nil {
				return nil, fmt.Errorf("resource %q: %w", clip(r.Resource), err)
			}
			if err := within("numas of a device", numas.Len(), 0, topo.MaxNUMAs); err != nil {
				return nil, fmt.Errorf("resource %q: %w", clip(r.Resource), err)
			}
			list, ok := topo.ParseNUMAList(g.NUMAList)
			if !ok {
				return nil, fmt.Errorf("resource %q: numaList %q is not empty, negative or unknown", clip(r.Resource),
					clip(g.NUMAList))
			}
			ids := numas.List()
			for _, id := range g.IDs { // package topo checks the names
				out = append(out, topo.DeviceSpec{Resource: r.Resource, ID: id, NUMAs: ids, List: list,
					Unhealthy: g.Unhealthy, Root: g.Root})
			}
		}
	}
	return out, nil
}

// core returns the rules for a machine, which must have the reserved CPUs and the NUMA nodes with reserved memory.
func (in *Rules) core(m *topo.Machine) (r place.Rules, err error) {
	var ok bool
	if in.Arbiter != "" {
		if r.Arbiter, ok = place.ParseArbiter(in.Arbiter); !ok {
			return r, unknown("arbiter", in.Arbiter)
		}
	}
	if r.Topology.Policy, ok = place.ParsePolicy(in.TopologyManagerPolicy); !ok {
		return r, unknown("topologyManagerPolicy", in.TopologyManagerPolicy)
	}
	if r.Topology.Scope, ok = place.ParseScope(in.TopologyManagerScope); !ok {
		return r, unknown("topologyManagerScope", in.TopologyManagerScope)
	}
	to := in.TopologyManagerPolicyOptions
	if err := within("max-allowable-numa-nodes", int(to.MaxAllowableNUMANodes), 0, MaxAllowable); err != nil {
		return r, err
	}
	r.Topology.PreferClosest, r.Topology.MaxNUMAs = to.PreferClosestNUMANodes, int(to.MaxAllowableNUMANodes)
	if r.CPU.Static, ok = choice(in.CPUManagerPolicy, "none", "static"); !ok {
		return r, unknown("cpuManagerPolicy", in.CPUManagerPolicy)
	}
	in.CPUManagerPolicyOptions.core(&r.CPU)
	if r.CPU.Reserved, err = cpusOf(m, in.ReservedCPUs); err != nil {
		return r, fmt.Errorf("reservedCPUs: %w", err)
	}
	if r.Memory.Static, ok = choice(in.MemoryManagerPolicy, "None", "Static"); !ok {
		return r, unknown("memoryManagerPolicy", in.MemoryManagerPolicy)
	}
	if r.Memory.Reserved, err = reserved(m, in.ReservedMemory); err != nil {
		return r, fmt.Errorf("reservedMemory: %w", err)
	}
	return r, nil
}

func (o CPUOptions) core(r *place.CPURules) {
	r.FullPCPUsOnly = o.FullPCPUsOnly
	r.DistributeAcrossNUMA = o.DistributeCPUsAcrossNUMA
	r.AlignBySocket = o.AlignBySocket
	r.DistributeAcrossCores = o.DistributeCPUsAcrossCores
	r.StrictReservation = o.StrictCPUReservation
	r.PreferAlignByUncoreCaches = o.PreferAlignCPUsByUncoreCache
}

// choice reads a setting with two values. isOn is true if s is the second one; ok is false if s is neither.
func choice(s, off, on string) (isOn, ok bool) { return s == on, s == on || s == off }

func reserved(m *topo.Machine, in []ReservedMemory) (out []place.Reserved, err error) {
	if err := within("reservations", len(in), 0, maxReserved); err != nil {
		return nil, err
	}
	type key struct {
		numa int32
		kind string
	}
	seen := map[key]bool{}
	for _, r := range in {
		if _, err := m.MaskOf(idset.NUMA(r.NUMA)); err != nil {
			return nil, err
		}
		if err := checkKind(r.Kind); err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", r.NUMA, err)
		}
		if err := bytesWithin(r.Kind, r.Bytes, topo.MaxBytes); err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", r.NUMA, err)
		}
		if k := (key{r.NUMA, r.Kind}); seen[k] {
			return nil, fmt.Errorf("NUMA node %d: %s is named twice", r.NUMA, r.Kind)
		} else {
			seen[k] = true
		}
		out = append(out, place.Reserved{NUMA: idset.NUMA(r.NUMA), Kind: r.Kind, Bytes: r.Bytes})
	}
	return out, nil
}

// groups returns the memory manager's groups by position of the NUMA node. Each group must contain its own NUMA node.
func groups(m *topo.Machine, in []MemoryGroup) (map[int]place.MemoryGroup, error) {
	if err := within("groups", len(in), 0, topo.MaxNUMAs); err != nil {
		return nil, err
	}
	out := map[int]place.MemoryGroup{}
	for _, g := range in {
		at, ok := m.Position(idset.NUMA(g.NUMA))
		if !ok {
			return nil, fmt.Errorf("machine has no NUMA node %d", g.NUMA)
		}
		if _, twice := out[at]; twice {
			return nil, fmt.Errorf("NUMA node %d is named twice", g.NUMA)
		}
		mask, err := maskOf(m, g.Group)
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", g.NUMA, err)
		}
		if !mask.Has(at) {
			return nil, fmt.Errorf("NUMA node %d is not in its group %q", g.NUMA, clip(string(g.Group)))
		}
		free, err := g.free()
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: free: %w", g.NUMA, err)
		}
		out[at] = place.MemoryGroup{NUMAs: mask, Free: free}
	}
	return out, nil
}

func (g *MemoryGroup) free() (out []place.Amount, err error) {
	if err := within("kinds", len(g.Free), 0, topo.MaxKinds); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range g.Free {
		if err := checkKind(f.Kind); err != nil {
			return nil, err
		}
		if seen[f.Kind] {
			return nil, fmt.Errorf("%s is named twice", f.Kind)
		}
		seen[f.Kind] = true
		if err := bytesWithin(f.Kind, f.Bytes, topo.MaxBytes); err != nil {
			return nil, err
		}
		out = append(out, place.Amount{Kind: f.Kind, Bytes: f.Bytes})
	}
	return out, nil
}

// cpusOf parses a list of CPUs. A CPU that the machine lacks is an error.
func cpusOf(m *topo.Machine, text IDList) (idset.Set[idset.CPU], error) {
	set, err := idset.Parse[idset.CPU](string(text))
	if err != nil {
		return set, err
	}
	if extra := set.Minus(m.CPUs()); !extra.Empty() {
		return set, fmt.Errorf("machine has no cpu %d", extra.Min())
	}
	return set, nil
}

// maskOf parses a list of at least one NUMA node. A NUMA node that the machine lacks is an error.
func maskOf(m *topo.Machine, text IDList) (topo.Mask, error) {
	set, err := idset.Parse[idset.NUMA](string(text))
	if err != nil {
		return 0, err
	}
	if err := within("numas", set.Len(), 1, topo.MaxNUMAs); err != nil {
		return 0, err
	}
	return m.MaskOf(set.List()...)
}

func within(what string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf("%s: %d is outside %d..%d", what, n, low, high)
	}
	return nil
}

func bytesWithin(what string, n, high int64) error {
	if n < 0 || n > high {
		return fmt.Errorf("%s: %d bytes is outside 0..%d", what, n, high)
	}
	return nil
}

// checkKind refuses a kind of memory that is neither "memory" nor hugepages of a valid size.
func checkKind(kind string) error {
	if kind == topo.Memory {
		return nil
	}
	size, ok := strings.CutPrefix(kind, "hugepages-")
	if n, err := topo.ParseBytes(size); !ok || err != nil || n == 0 {
		return fmt.Errorf("kind %q is neither %q nor a hugepages resource", clip(kind), topo.Memory)
	}
	return nil
}

func unknown(field, value string) error {
	return fmt.Errorf("%s: unknown value %q", field, clip(value))
}

// clip returns at most the first 60 bytes of a text, so that errors stay short.
func clip(s string) string { return printable.Clip(s, 60) }

// visible replaces each character outside of printable ASCII by "?".
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
