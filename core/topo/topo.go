// Package topo describes one machine: its CPUs, cores, L3 groups, sockets, NUMA nodes with memory, hugepages and
// distances, and its devices.
//
// A [Machine] is an immutable value: [New] checks it once, and any number of goroutines may then share it without
// locks or copies. NUMA nodes are in ascending order of their ids, and algorithms use their positions in that order
// (a [Mask] is a set of positions). So sparse ids such as 0, 8, 250 cost nothing and never index a slice.
//
// The package rejects machines that contradict themselves (a CPU in two NUMA nodes, a NUMA node named twice) and
// sizes beyond its bounds; it never corrects them silently.
package topo

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// Bounds on a description from outside.
const (
	MaxCPUs    = 4096    // CPUs of a machine
	MaxNUMAs   = 64      // NUMA nodes of a machine: what a Mask can hold
	MaxDevices = 4096    // devices of one resource
	MaxKinds   = 64      // device resources of a machine; hugepage sizes of a NUMA node
	MaxBytes   = 1 << 50 // memory or hugepages of one NUMA node: 1 PiB
	MaxName    = 253     // length of a resource name or device id
	MaxRoot    = 32      // length of the name of a PCI root
	MaxDist    = 1 << 16 // a distance of the ACPI table SLIT; firmware uses 10..255
	// MaxSize bounds the memory of one Machine, in bytes. A machine of 4,096 CPUs with the ids 0 to 4095 takes some
	// 1.5 MiB, one of 1,024 takes 0.2 MiB. If ids are high, or the ids within a core are far apart, fewer CPUs reach
	// the bound.
	MaxSize = 2 << 20
)

// The sizes of a CPU, a Group and a Device in bytes, as MaxSize counts them.
const (
	cpuSize    = 40
	groupSize  = 32
	deviceSize = 48
)

// Memory is the kind of ordinary memory. Hugepages are separate kinds, with Kubernetes' names ("hugepages-2Mi",
// "hugepages-1Gi").
const Memory = "memory"

// Mask is a set of NUMA nodes by their position in [Machine.NUMAs]. Comparing two masks as numbers gives the same
// result as comparing the kubelet's bitmasks of ids, because positions have the order of ids.
type Mask uint64

// Len returns the number of NUMA nodes in the mask.
func (m Mask) Len() int { return bits.OnesCount64(uint64(m)) }

// Has reports whether the NUMA node at position i is in the mask.
func (m Mask) Has(i int) bool { return m>>uint(i)&1 != 0 }

// First returns the lowest position, or 64 for the empty mask.
func (m Mask) First() int { return bits.TrailingZeros64(uint64(m)) }

// Positions returns the positions in ascending order.
func (m Mask) Positions() []int { return m.AppendPositions(nil) }

// Choose returns the masks of n NUMA nodes of m, at most limit of them, those with low positions first.
func (m Mask) Choose(n, limit int) []Mask { return choose(m.Positions(), n, limit) }

// choose is Choose for positions in ascending order.
func choose(positions []int, n, limit int) (out []Mask) {
	switch {
	case n == 0:
		return []Mask{0}
	case n > len(positions):
		return nil
	}
	for i, at := range positions {
		for _, rest := range choose(positions[i+1:], n-1, limit-len(out)) {
			out = append(out, 1<<uint(at)|rest)
		}
		if len(out) >= limit {
			return out[:limit]
		}
	}
	return out
}

// String names the positions, for example "positions 0,2". For ids, which only the machine has, see [Machine.IDs].
func (m Mask) String() string {
	switch m.Len() {
	case 0:
		return "no position"
	case 1:
		return fmt.Sprintf("position %d", m.First())
	}
	return "positions " + idset.Of(m.Positions()...).String()
}

// AppendPositions appends the positions in ascending order to a slice.
func (m Mask) AppendPositions(out []int) []int {
	for ; m != 0; m &= m - 1 {
		out = append(out, bits.TrailingZeros64(uint64(m)))
	}
	return out
}

// CPU is the place of one logical CPU.
type CPU struct {
	ID   idset.CPU
	Core idset.Core // lowest CPU of the core
	// L3 identifies the group of CPUs that share the last-level cache. The kubelet orders groups by the ids that
	// cadvisor reports, and these numbers give the same order. The number is the lowest CPU of the group if lowest
	// CPUs give that order, and otherwise CoreSpec.L3.
	L3     idset.L3
	Socket idset.Socket // physical package
	NUMA   int          // position in Machine.NUMAs, not an id
}

// Hugepages are the pages of one size that a NUMA node holds.
type Hugepages struct {
	PageSize int64 // bytes
	Count    int64 // pages
}

// Kind returns the resource name of the pages, for example "hugepages-1Gi".
func (h Hugepages) Kind() string { return "hugepages-" + FormatBytes(h.PageSize) }

// MemoryKind is the kind of memory that a NUMA node has; empty is ordinary memory.
type MemoryKind string

// The kinds of memory that are not ordinary.
const (
	GPUMemory     MemoryKind = "gpu"     // of a GPU
	DAXMemory     MemoryKind = "dax"     // of a DAX device: PMEM, CXL or high-bandwidth memory
	MovableMemory MemoryKind = "movable" // not for the kernel's own data; its source is unknown
)

// NUMA is one NUMA node of a machine. It may lack CPUs (CXL, HBM), memory, or both.
type NUMA struct {
	ID        idset.NUMA
	CPUs      idset.Set[idset.CPU]
	Bytes     int64       // MemTotal of the NUMA node, hugepages included; 0 if none or unknown
	Hugepages []Hugepages // ascending page size
	Distances []int       // to every NUMA node, by position; 10 is local. Empty when unknown
	// MemoryKind is set if the memory is not ordinary. The kubelet counts such memory like any other.
	MemoryKind MemoryKind
}

// Machine is one machine. [New] makes it, and it never changes.
type Machine struct {
	// Invariant: NUMA nodes are in strictly ascending order of id; every CPU is in exactly one of them.
	numas []NUMA
	// Invariant: cpus[id].ID == id, or cpus[id].NUMA == -1 if the machine has no such CPU.
	cpus    []CPU
	all     idset.Set[idset.CPU]
	cores   []idset.Core
	l3s     []idset.L3
	sockets []idset.Socket
	// Invariant: ascending names; ids are unique within a resource.
	resources []Resource
	// groups are the parts of every level in ascending order of id; groupOf[level][cpu] is the index of the part that
	// contains a CPU.
	groups  [levels][]Group
	groupOf [levels][]int32
	// size is the size of the machine in bytes, see MaxSize.
	size int
	// bare is the machine without devices that shares this machine's hardware; nil if this machine has no devices.
	bare *Machine
}

// Spec describes a machine in fields that a caller fills; [New] checks them. Cores and devices name NUMA nodes by id.
type Spec struct {
	NUMAs   []NUMA // in any order; New ignores their CPUs and takes those from Cores
	Cores   []CoreSpec
	Devices []DeviceSpec
}

// CoreSpec is one physical core.
type CoreSpec struct {
	NUMA   idset.NUMA
	Socket idset.Socket
	L3     int // the number of its L3 group, in 0..MaxL3; see [CPU]
	CPUs   idset.Set[idset.CPU]
}

// DeviceSpec is one device of a resource.
type DeviceSpec struct {
	Resource  string
	ID        string
	NUMAs     []idset.NUMA
	Unhealthy bool
	List      NUMAList
	Root      string // see Device
}

// New checks a description and makes the machine. The error names the fault and its place.
func New(s Spec) (*Machine, error) {
	m, err := newHardware(s)
	if err != nil || len(s.Devices) == 0 {
		return m, err
	}
	return m.with(s.Devices)
}

// newHardware makes the machine without its devices.
func newHardware(s Spec) (*Machine, error) {
	m := &Machine{}
	if err := m.addNUMAs(s.NUMAs); err != nil {
		return nil, err
	}
	if err := m.addCores(s.Cores); err != nil {
		return nil, err
	}
	return m, nil
}

// with makes a machine with the same hardware, and with devices.
func (m *Machine) with(devices []DeviceSpec) (*Machine, error) {
	out := *m
	out.bare = m
	if err := out.addDevices(devices); err != nil {
		return nil, err
	}
	return &out, nil
}

// grow adds to the machine's size before memory is allocated. It returns an error if the size exceeds MaxSize.
func (m *Machine) grow(bytes int) error {
	if m.size += bytes; m.size > MaxSize {
		return fmt.Errorf("machine takes more than %d bytes: it has too many CPUs with high ids or far apart "+
			"in one core, or too many devices", MaxSize)
	}
	return nil
}

func (m *Machine) addNUMAs(in []NUMA) error {
	if len(in) == 0 {
		return fmt.Errorf("machine has no NUMA node")
	}
	if len(in) > MaxNUMAs {
		return fmt.Errorf("machine has %d NUMA nodes, the most is %d", len(in), MaxNUMAs)
	}
	m.numas = slices.Clone(in)
	slices.SortStableFunc(m.numas, func(a, b NUMA) int { return cmp.Compare(a.ID, b.ID) })
	for i := range m.numas {
		n := &m.numas[i]
		if !idset.Valid(int(n.ID)) {
			return fmt.Errorf("NUMA node id %d is outside 0..%d", n.ID, idset.Max)
		}
		if i > 0 && m.numas[i-1].ID == n.ID {
			return fmt.Errorf("NUMA node %d is named twice", n.ID)
		}
		if err := checkNUMA(n, len(m.numas)); err != nil {
			return fmt.Errorf("NUMA node %d: %w", n.ID, err)
		}
		n.CPUs = idset.Set[idset.CPU]{}
		n.Hugepages = slices.Clone(n.Hugepages)
		slices.SortFunc(n.Hugepages, func(a, b Hugepages) int { return cmp.Compare(a.PageSize, b.PageSize) })
		n.Distances = slices.Clone(n.Distances)
	}
	return nil
}

func checkNUMA(n *NUMA, count int) error {
	if n.Bytes < 0 || n.Bytes > MaxBytes {
		return fmt.Errorf("memory of %d bytes is outside 0..%d", n.Bytes, int64(MaxBytes))
	}
	switch n.MemoryKind {
	case "", GPUMemory, DAXMemory, MovableMemory:
	default:
		return fmt.Errorf("memory kind %.20q is not gpu, dax or movable", string(n.MemoryKind))
	}
	if len(n.Hugepages) > MaxKinds {
		return fmt.Errorf("%d hugepage sizes, the most is %d", len(n.Hugepages), MaxKinds)
	}
	sizes, total := map[int64]bool{}, int64(0)
	for _, h := range n.Hugepages {
		if h.PageSize <= 0 || h.PageSize > MaxBytes || h.Count < 0 || h.Count > MaxBytes/h.PageSize {
			return fmt.Errorf("%d hugepages of %d bytes are out of bounds", h.Count, h.PageSize)
		}
		if sizes[h.PageSize] {
			return fmt.Errorf("hugepages of %d bytes are named twice", h.PageSize)
		}
		sizes[h.PageSize] = true
		total += h.PageSize * h.Count
	}
	// A NUMA node of unknown memory may have hugepages: cadvisor then reports memory of 0.
	if total > n.Bytes && n.Bytes > 0 {
		return fmt.Errorf("hugepages take %d bytes of %d bytes of memory", total, n.Bytes)
	}
	if d := len(n.Distances); d != 0 && d != count {
		return fmt.Errorf("%d distances for %d NUMA nodes", d, count)
	}
	for _, d := range n.Distances {
		if d < 0 || d > MaxDist {
			return fmt.Errorf("distance %d is outside 0..%d", d, MaxDist)
		}
	}
	return nil
}

func (m *Machine) addCores(in []CoreSpec) error {
	total, top := 0, idset.CPU(-1)
	for _, c := range in {
		total += c.CPUs.Len()
		top = max(top, c.CPUs.Max())
	}
	if total == 0 {
		return fmt.Errorf("machine has no CPU")
	}
	if total > MaxCPUs {
		return fmt.Errorf("machine has %d CPUs, the most is %d", total, MaxCPUs)
	}
	if err := m.grow(int(top+1) * (cpuSize + int(levels)*4)); err != nil {
		return err
	}
	m.cpus = make([]CPU, top+1)
	for i := range m.cpus {
		m.cpus[i].NUMA = -1
	}
	l3 := nameL3s(in)
	for _, c := range in {
		if err := m.addCore(c, l3[c.L3]); err != nil {
			return err
		}
	}
	return m.collect()
}

func (m *Machine) addCore(c CoreSpec, l3 idset.L3) error {
	at, ok := m.Position(c.NUMA)
	if !ok {
		return fmt.Errorf("core of CPUs %s: machine has no NUMA node %d", c.CPUs, c.NUMA)
	}
	if c.CPUs.Empty() {
		return fmt.Errorf("core in NUMA node %d has no CPU", c.NUMA)
	}
	if !idset.Valid(int(c.Socket)) {
		return fmt.Errorf("core of CPUs %s: socket %d is outside 0..%d", c.CPUs, c.Socket, idset.Max)
	}
	if c.L3 < 0 || c.L3 > MaxL3 {
		return fmt.Errorf("core of CPUs %s: L3 group %d is outside 0..%d", c.CPUs, c.L3, MaxL3)
	}
	core := idset.Core(c.CPUs.Min())
	for id := range c.CPUs.All() {
		if old := m.cpus[id]; old.NUMA >= 0 && old.NUMA != at {
			return fmt.Errorf("cpu %d is in NUMA node %d and in NUMA node %d", id, m.numas[old.NUMA].ID, c.NUMA)
		} else if old.NUMA >= 0 {
			return fmt.Errorf("cpu %d is in two cores of NUMA node %d", id, c.NUMA)
		}
		m.cpus[id] = CPU{ID: id, Core: core, L3: l3, Socket: c.Socket, NUMA: at}
	}
	m.numas[at].CPUs = m.numas[at].CPUs.Union(c.CPUs)
	m.all = m.all.Union(c.CPUs)
	return nil
}

// collect lists the distinct cores, L3 groups and sockets in ascending order, and makes the groups of every level.
func (m *Machine) collect() error {
	for id := range m.all.All() {
		c := m.cpus[id]
		m.cores = append(m.cores, c.Core)
		m.l3s = append(m.l3s, c.L3)
		m.sockets = append(m.sockets, c.Socket)
	}
	m.cores, m.l3s, m.sockets = distinct(m.cores), distinct(m.l3s), distinct(m.sockets)
	idOf := [levels]func(CPU) int{
		NUMAs:   func(c CPU) int { return c.NUMA },
		Sockets: func(c CPU) int { return int(c.Socket) },
		L3s:     func(c CPU) int { return int(c.L3) },
		Cores:   func(c CPU) int { return int(c.Core) },
	}
	for level, id := range idOf {
		if err := m.partition(Level(level), id); err != nil {
			return err
		}
	}
	return nil
}

// distinct sorts in, and returns its distinct values.
func distinct[T ~int](in []T) []T {
	slices.Sort(in)
	return slices.Compact(in)
}

// NUMAs returns the NUMA nodes in ascending order of id. The caller must not change this slice, or any other slice
// that a Machine returns.
func (m *Machine) NUMAs() []NUMA { return m.numas }

// Position returns the position in NUMAs of the NUMA node with this id; the second result is false if there is none.
func (m *Machine) Position(id idset.NUMA) (int, bool) {
	return slices.BinarySearchFunc(m.numas, id, func(n NUMA, id idset.NUMA) int { return cmp.Compare(n.ID, id) })
}

// All returns the mask of every NUMA node.
func (m *Machine) All() Mask { return Mask(^uint64(0) >> (64 - uint(len(m.numas)))) }

// WithCPUs returns the mask of the NUMA nodes that have CPUs.
func (m *Machine) WithCPUs() Mask {
	var out Mask
	for i := range m.numas {
		if !m.numas[i].CPUs.Empty() {
			out |= 1 << uint(i)
		}
	}
	return out
}

// IDs returns the ids of the NUMA nodes in a mask, ascending. It ignores positions that the machine lacks.
func (m *Machine) IDs(mask Mask) []idset.NUMA {
	var out []idset.NUMA
	for _, i := range mask.Positions() {
		if i < len(m.numas) {
			out = append(out, m.numas[i].ID)
		}
	}
	return out
}

// MaskOf returns the mask of the NUMA nodes with these ids. An id that the machine lacks is an error.
func (m *Machine) MaskOf(ids ...idset.NUMA) (Mask, error) {
	var out Mask
	for _, id := range ids {
		at, ok := m.Position(id)
		if !ok {
			return 0, fmt.Errorf("machine has no NUMA node %d", id)
		}
		out |= 1 << uint(at)
	}
	return out, nil
}

// CPUs returns all CPUs.
func (m *Machine) CPUs() idset.Set[idset.CPU] { return m.all }

// CPU returns the place of a CPU; ok is false if the machine has no such CPU.
func (m *Machine) CPU(id idset.CPU) (c CPU, ok bool) {
	if id < 0 || int(id) >= len(m.cpus) || m.cpus[id].NUMA < 0 {
		return CPU{}, false
	}
	return m.cpus[id], true
}

// Cores returns the cores in ascending order.
func (m *Machine) Cores() []idset.Core { return m.cores }

// L3s returns the L3 groups in ascending order.
func (m *Machine) L3s() []idset.L3 { return m.l3s }

// Sockets returns the sockets in ascending order.
func (m *Machine) Sockets() []idset.Socket { return m.sockets }

// MaskOfCPUs returns the NUMA nodes that the CPUs of a set are in.
func (m *Machine) MaskOfCPUs(s idset.Set[idset.CPU]) Mask {
	var out Mask
	for i := range m.numas {
		if m.numas[i].CPUs.AndLen(s) > 0 {
			out |= 1 << uint(i)
		}
	}
	return out
}

// Resources returns the device resources in ascending order of name.
func (m *Machine) Resources() []Resource { return m.resources }

// Resource returns the devices of a resource; ok is false if the machine has none.
func (m *Machine) Resource(name string) (r Resource, ok bool) {
	i, ok := slices.BinarySearchFunc(m.resources, name, func(r Resource, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return Resource{}, false
	}
	return m.resources[i], true
}

// Kinds returns the memory kinds that some NUMA node of the machine has: "memory" first, then hugepages by page size.
func (m *Machine) Kinds() []string {
	var sizes []int64
	for _, n := range m.numas {
		for _, h := range n.Hugepages {
			sizes = append(sizes, h.PageSize)
		}
	}
	slices.Sort(sizes)
	out := []string{Memory}
	for _, s := range slices.Compact(sizes) {
		out = append(out, Hugepages{PageSize: s}.Kind())
	}
	return out
}

// Capacity returns the bytes of a memory kind that the NUMA node has. For ordinary memory, that is what hugepages of
// all sizes leave of the NUMA node's memory (kubelet memorymanager/policy_static.go, getDefaultMachineState).
func (n NUMA) Capacity(kind string) int64 { return max(0, n.Balance(kind)) }

// Shows reports whether Linux shows a kind of memory on the NUMA node, even with no bytes of it. Ordinary memory is
// always shown. An older kernel shows no hugepages on a NUMA node without memory.
func (n NUMA) Shows(kind string) bool {
	return kind == Memory || slices.ContainsFunc(n.Hugepages, func(h Hugepages) bool { return h.Kind() == kind })
}

// Balance is [NUMA.Capacity], but negative for ordinary memory if hugepages take more than there is. The kubelet
// counts in unsigned numbers, so a negative balance becomes a very large amount there.
func (n NUMA) Balance(kind string) int64 {
	if kind == Memory {
		balance := n.Bytes
		for _, h := range n.Hugepages {
			balance -= h.PageSize * h.Count
		}
		return balance
	}
	for _, h := range n.Hugepages {
		if h.Kind() == kind {
			return h.PageSize * h.Count
		}
	}
	return 0
}

// EverySize completes a description that leaves out hugepage sizes without pages. To each NUMA node for which add
// returns true, it adds every size that some NUMA node has and that this one lacks, with no pages.
func (s *Spec) EverySize(add func(*NUMA) bool) {
	var sizes []int64
	for i := range s.NUMAs {
		for _, h := range s.NUMAs[i].Hugepages {
			sizes = append(sizes, h.PageSize)
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	for i := range s.NUMAs {
		n := &s.NUMAs[i]
		for _, size := range sizes {
			if add(n) && !slices.ContainsFunc(n.Hugepages, func(h Hugepages) bool { return h.PageSize == size }) {
				n.Hugepages = append(slices.Clip(n.Hugepages), Hugepages{PageSize: size})
			}
		}
	}
}

// Spec returns a description of the machine that the caller may change. New makes an equal machine of it.
func (m *Machine) Spec() Spec {
	var s Spec
	for _, n := range m.numas {
		s.NUMAs = append(s.NUMAs, NUMA{ID: n.ID, Bytes: n.Bytes, MemoryKind: n.MemoryKind,
			Hugepages: slices.Clone(n.Hugepages), Distances: slices.Clone(n.Distances)})
	}
	for _, core := range m.cores {
		c := m.cpus[core]
		s.Cores = append(s.Cores, CoreSpec{NUMA: m.numas[c.NUMA].ID, Socket: c.Socket, L3: int(c.L3), CPUs: m.CoreCPUs(core)})
	}
	for _, r := range m.resources {
		for _, d := range r.Devices {
			s.Devices = append(s.Devices, DeviceSpec{Resource: r.Name, ID: d.ID, NUMAs: m.IDs(d.NUMAs), Unhealthy: d.Unhealthy,
				List: d.List, Root: d.Root})
		}
	}
	return s
}
