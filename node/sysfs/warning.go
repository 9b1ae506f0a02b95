package sysfs

import (
	"fmt"
	"path"
	"strings"
)

// Anomaly is the code of something in /sys or /proc that discovery could not use unchanged, or that a person should
// know.
type Anomaly string

// The anomalies.
const (
	// Unreadable is an existing file or directory that cannot be read, or is beyond its bound.
	Unreadable Anomaly = "unreadable"
	// Malformed is a file whose text does not match the kernel's documentation; it counts as absent.
	Malformed Anomaly = "malformed"
	// Missing is a file that every kernel has and this tree lacks.
	Missing Anomaly = "missing"
	// CPUInNumas are CPUs that more than one NUMA node claims. The kubelet counts such a CPU to the NUMA node
	// whose directory comes last by name (cadvisor utils/sysinfo, GetNodesInfo).
	CPUInNumas Anomaly = "cpu-in-numas"
	// CPUWithoutNUMA are online CPUs that no NUMA node has; the kubelet does not see them.
	CPUWithoutNUMA Anomaly = "cpu-without-numa"
	// NoNUMA is a kernel without NUMA nodes; the kubelet uses each socket as one.
	NoNUMA Anomaly = "no-numa"
	// Siblings are lists of the threads of a core that contradict each other, or a core on two NUMA nodes.
	Siblings Anomaly = "siblings"
	// CPULinks are links of a NUMA node to CPUs that are not in its list; the kubelet follows the links.
	CPULinks Anomaly = "cpu-links"
	// KubeletBlind is a file that keeps cadvisor from reporting a topology. The machine is then the hardware's.
	KubeletBlind Anomaly = "kubelet-blind"
	// KubeletCount is a count of CPUs by the kubelet that differs from the CPUs in its topology. A CPU in several NUMA
	// nodes counts several times. On a kernel without NUMA nodes, offline CPUs count, too.
	KubeletCount Anomaly = "kubelet-count"
	// KubeletMemory is memory that the kubelet's static memory manager counts wrongly.
	KubeletMemory Anomaly = "kubelet-memory"
	// NUMAIDs are ids outside 0..63, with which the kubelet's topology and memory managers panic.
	NUMAIDs Anomaly = "numa-ids"
	// KubeletCores are cores that the kubelet divides differently: it identifies a core by core_id and
	// physical_package_id only, which two dies of a package may share.
	KubeletCores Anomaly = "kubelet-cores"
	// Sockets are packages without a usable number, which were given another one.
	Sockets Anomaly = "sockets"
	// Caches are contradictory lists of the CPUs that share a cache.
	Caches Anomaly = "caches"
	// NoCache is missing data about caches: L3 groups are then sockets, as for the kubelet.
	NoCache Anomaly = "no-cache"
	// KubeletL3 are L3 groups that the kubelet divides differently. If a cache has no id, or covers exactly one NUMA
	// node, the kubelet uses the socket as the group. This matters only with prefer-align-cpus-by-uncorecache.
	KubeletL3 Anomaly = "kubelet-l3"
	// Distances are rows of distances that do not match the NUMA nodes; the machine has none then.
	Distances Anomaly = "distances"
	// OddDistances are distances that were kept although no hardware has them: asymmetric ones, or a NUMA node no
	// nearer to itself than to another.
	OddDistances Anomaly = "odd-distances"
	// SpecialMemory is a NUMA node whose memory is not for ordinary pods.
	SpecialMemory Anomaly = "special-memory"
	// UnknownNUMA is a PCI function on a NUMA node that the machine lacks.
	UnknownNUMA Anomaly = "unknown-numa"
	// NUMABalancing is a kernel that moves memory and threads between NUMA nodes by itself.
	NUMABalancing Anomaly = "numa-balancing"
)

// maxAlike bounds how many warnings of one kind are listed; the last of them has the number of the others. The number
// of kinds needs no bound, because each kind belongs to a place in this package that warns.
const maxAlike = 4

// Warning is one anomaly with its place.
type Warning struct {
	Name Anomaly
	File string // or directory, without the leading slash
	Text string
}

func (w Warning) String() string { return fmt.Sprintf("%s: /%s: %s", w.Name, w.File, w.Text) }

// warnings collects warnings by kind. Warnings of a kind have one name, one text except for its values, and one file
// name except for its numbers.
type warnings struct {
	kinds    []*kind
	at       map[string]*kind
	recorded map[Warning]bool
}

// kind has the warnings of one kind.
type kind struct {
	first []Warning // at most maxAlike
	more  int       // how many others there are
}

// warn records a warning about a file. The format is part of the warning's kind, so it must be constant.
func (t *tree) warn(name Anomaly, file, format string, args ...any) {
	t.warnings.add(Warning{name, file, fmt.Sprintf(format, args...)}, format)
}

// add adds a warning that was made with the format, unless an equal one was added before.
func (w *warnings) add(one Warning, format string) {
	if w.recorded[one] {
		return
	}
	if w.at == nil {
		w.at, w.recorded = map[string]*kind{}, map[Warning]bool{}
	}
	w.recorded[one] = true
	key := fmt.Sprintf("%s %s %s", one.Name, withoutNumbers(path.Base(one.File)), format)
	k := w.at[key]
	if k == nil {
		k = &kind{}
		w.at[key] = k
		w.kinds = append(w.kinds, k)
	}
	if len(k.first) == maxAlike {
		k.more++
		return
	}
	k.first = append(k.first, one)
}

// withoutNumbers replaces every run of digits by the letter N.
func withoutNumbers(s string) string {
	var b strings.Builder
	run := false
	for _, c := range s {
		digit := c >= '0' && c <= '9'
		switch {
		case !digit:
			b.WriteRune(c)
		case !run:
			b.WriteByte('N')
		}
		run = digit
	}
	return b.String()
}

// list returns the warnings, kinds in the order of their first occurrence.
func (w *warnings) list() []Warning {
	var out []Warning
	for _, k := range w.kinds {
		out = append(out, k.first...)
		if k.more > 0 {
			out[len(out)-1].Text += fmt.Sprintf(" (and %d more like this)", k.more)
		}
	}
	return out
}
