package sysfs

import (
	"fmt"
	"slices"
)

// Oddity is the name of something that a kernel, or the firmware below it, says and that discovery
// could not believe, or that a person should know.
type Oddity string

// The oddities.
const (
	// Unreadable is a file or directory that is there and cannot be read, or is beyond its bound.
	Unreadable Oddity = "unreadable"
	// Malformed is a file whose text is not what the kernel's documents say; it counts as absent.
	Malformed Oddity = "malformed"
	// Missing is a file that every kernel has and this tree lacks.
	Missing Oddity = "missing"
	// CPUInNumas are CPUs that more than one numa claims. The kubelet counts such a CPU to the numa
	// whose directory comes last by name (cadvisor utils/sysinfo, GetNodesInfo).
	CPUInNumas Oddity = "cpu-in-numas"
	// CPUWithoutNUMA are online CPUs that no numa has; the kubelet does not know of them.
	CPUWithoutNUMA Oddity = "cpu-without-numa"
	// NoNUMA is a kernel without numas; the kubelet takes each socket for one.
	NoNUMA Oddity = "no-numa"
	// Siblings are lists of the threads of a core that contradict each other, or a core on two numas.
	Siblings Oddity = "siblings"
	// KubeletCores are cores that the kubelet cuts otherwise: it knows a core by core_id and
	// physical_package_id alone, which two dies of a package may share.
	KubeletCores Oddity = "kubelet-cores"
	// Sockets are packages without a usable number, which were given one.
	Sockets Oddity = "sockets"
	// Caches are lists of the CPUs that share a cache which contradict each other.
	Caches Oddity = "caches"
	// NoCache is missing knowledge of caches: L3 groups are then sockets, as for the kubelet.
	NoCache Oddity = "no-cache"
	// KubeletL3 are L3 groups that the kubelet cuts otherwise: where a cache has no id, or is that of
	// exactly one numa, it takes the socket for the group. Only prefer-align-cpus-by-uncorecache minds.
	KubeletL3 Oddity = "kubelet-l3"
	// Distances are rows of distances that do not fit the numas; the machine has none then.
	Distances Oddity = "distances"
	// OddDistances are distances that were kept but say what hardware does not: asymmetric ones, or a
	// numa no nearer to itself than to another.
	OddDistances Oddity = "odd-distances"
	// SpecialMemory is a numa whose memory is not for ordinary pods.
	SpecialMemory Oddity = "special-memory"
	// UnknownNUMA is a PCI function on a numa that the machine lacks.
	UnknownNUMA Oddity = "unknown-numa"
	// TooMany is the last warning where there are more than a person reads.
	TooMany Oddity = "too-many"
)

// maxWarnings bounds how much a tree that is odd throughout makes discovery say.
const maxWarnings = 100

// Warning is one oddity and where it was met.
type Warning struct {
	Name Oddity
	File string // or directory, without the leading slash
	Text string
}

func (w Warning) String() string { return fmt.Sprintf("%s: /%s: %s", w.Name, w.File, w.Text) }

func (t *tree) warn(name Oddity, file, format string, args ...any) {
	w := Warning{name, file, fmt.Sprintf(format, args...)}
	if len(t.warnings) < maxWarnings && !slices.Contains(t.warnings, w) {
		t.warnings = append(t.warnings, w)
	}
	if len(t.warnings) == maxWarnings-1 {
		t.warnings = append(t.warnings, Warning{TooMany, "sys", "further warnings are left out"})
	}
}
