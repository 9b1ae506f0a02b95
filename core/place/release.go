package place

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// This file has, as data, what differs between releases of the kubelet. A rule that holds only for some releases is a
// row here, and the code that applies the rule asks [Release.has]. What differs behind a gate that is off by default
// is in podlevel.go.

// Release is a minor release of Kubernetes 1: 36 is 1.36. The zero value stands for [DefaultRelease].
type Release int

// The modelled releases are OldestRelease to NewestRelease. Tests compare each of them with the managers of its
// kubelet. DefaultRelease is the release of rules that name none.
const (
	OldestRelease  Release = 30
	DefaultRelease Release = 37
	NewestRelease  Release = 37
)

// maxRelease bounds the number of a release.
const maxRelease = 999

// String returns the release as Kubernetes writes it, such as "1.36".
func (r Release) String() string { return fmt.Sprintf("1.%d", int(r.orDefault())) }

// ParseRelease reads a release such as "1.36", which need not be modelled. The second result is false for any other
// text.
func ParseRelease(s string) (Release, bool) {
	minor, ok := strings.CutPrefix(s, "1.")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil || n < 1 || n > maxRelease || strconv.Itoa(n) != minor {
		return 0, false
	}
	return Release(n), true
}

// ReleaseOf reads the release out of a version such as "v1.36.3-gke.1234", as a Node has it. The second result is false
// for other texts, and for pre-releases (alpha, beta and rc).
func ReleaseOf(version string) (Release, bool) {
	text, _, _ := strings.Cut(version, "+")
	number, pre, _ := strings.Cut(text, "-")
	minor, patch, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(number, "v"), "1."), ".")
	if _, err := strconv.Atoi(patch); !ok || err != nil || !strings.HasPrefix(number, "v1.") {
		return 0, false
	}
	for _, stage := range []string{"alpha", "beta", "rc"} {
		if strings.HasPrefix(pre, stage) {
			return 0, false
		}
	}
	return ParseRelease("1." + minor)
}

// Nearest returns the modelled release that is nearest.
func (r Release) Nearest() Release { return min(max(r.orDefault(), OldestRelease), NewestRelease) }

// Modelled reports whether the release is modelled.
func (r Release) Modelled() bool { return r.Nearest() == r.orDefault() }

func (r Release) orDefault() Release { return cmp.Or(r, DefaultRelease) }

// change is a rule of the kubelet that has changed in some release.
type change int

const (
	groupsAreKept change = iota
	groupsRestartAsOne
	threadsRoundUp
	podLevelIsLeftAlone
	hintsOfDeviceNUMAs
	restartsKeepCPUs
	sharesFit
	spreadInOneSocket
	sharersArePassed
)

// Change is one row of the table of what differs between releases.
type Change struct {
	Name          string
	Since         Release // the first release with the new rule
	Before, After string  // what the kubelet does
	Source        string  // the file of the kubelet, below pkg/kubelet/cm
	// Scenarios are the files in testdata whose outcome differs.
	Scenarios []string
}

var changes = [...]Change{
	groupsAreKept: {
		Name: "memory-groups", Since: 32,
		Before: "A pod is given memory of a NUMA node on which other pods have memory together with another one.",
		After: "A pod is refused where its memory would mix use of one NUMA node and of several. Hints never mix them; " +
			"an affinity that follows from CPUs or devices may.",
		Source:    "memorymanager/policy_static.go, Allocate",
		Scenarios: []string{"release_131_mixes_memory_groups", "release_132_refuses_to_mix_memory_groups"},
	},
	groupsRestartAsOne: {
		Name: "memory-state", Since: 32,
		Before: "After a restart the free memory of each NUMA node must be what the blocks add up to.",
		After:  "After a restart the free memory of each group of NUMA nodes must be what the blocks add up to.",
		Source: "memorymanager/policy_static.go, areMachineStatesEqual",
	},
	threadsRoundUp: {
		Name: "uncore-odd-cpus", Since: 34,
		Before: "prefer-align-cpus-by-uncorecache gives an odd number of CPUs no part of an L3 group on machines with " +
			"several threads per core.",
		After:     "It gives whole cores of one L3 group, and one thread of the last.",
		Source:    "cpumanager/cpu_assignment.go, takePartialUncore",
		Scenarios: []string{"release_133_splits_odd_cpus_over_caches", "release_134_keeps_odd_cpus_in_a_cache"},
	},
	podLevelIsLeftAlone: {
		Name: "pod-level-resources", Since: 34,
		Before:    "spec.resources is ignored: containers of such a Guaranteed pod get CPUs and memory of their own.",
		After:     "Containers of pods with spec.resources get no CPUs and memory of their own.",
		Source:    "cpumanager/policy_static.go, Allocate; memorymanager/policy_static.go, Allocate",
		Scenarios: []string{"release_133_ignores_pod_level_resources", "pod_level_resources_are_left_alone"},
	},
	hintsOfDeviceNUMAs: {
		Name: "device-hints", Since: 36,
		Before: "Hints for devices range over all NUMA nodes: 34 of them are too many for the kubelet. Where 0 devices " +
			"are wanted, each NUMA node serves.",
		After: "Hints for devices range over the NUMA nodes that have devices of the resource. Where 0 devices are " +
			"wanted, the pod is still drawn to these.",
		Source: "devicemanager/topology_hints.go, generateDeviceTopologyHints",
		Scenarios: []string{"release_135_zero_devices_pull_nowhere", "zero_devices_still_pull_to_their_numa",
			"release_135_tries_all_numas_for_devices", "thirty_four_numas_of_which_two_have_cpus"},
	},
	restartsKeepCPUs: {
		Name: "smt-readmission", Since: 37,
		Before: "After a restart full-pcpus-only counts free CPUs before it looks at what a running container has, and " +
			"ends pods.",
		After:     "After a restart running containers keep their CPUs.",
		Source:    "cpumanager/policy_static.go, Allocate (kubernetes issue 129078)",
		Scenarios: []string{"restart_under_full_pcpus_only", "release_137_restart_under_full_pcpus_only"},
	},
	sharesFit: {
		Name: "spread-share", Since: 37,
		Before: "distribute-cpus-across-numa may choose NUMA nodes that cannot give their share; CPUs are then missing, " +
			"and the pod is refused.",
		After:  "Each NUMA node is asked for what the one with the fewest CPUs can give.",
		Source: "cpumanager/cpu_assignment.go, takeByTopologyNUMADistributed",
		Scenarios: []string{"release_136_spread_asks_a_numa_for_too_much",
			"release_137_spread_asks_each_numa_for_what_it_has"},
	},
	spreadInOneSocket: {
		Name: "spread-socket", Since: 37,
		Before: "distribute-cpus-across-numa takes the NUMA nodes after which the free CPUs are most even.",
		After: "With align-by-socket it takes NUMA nodes of one socket where it can, and the most even of those; " +
			"shares need not be even.",
		Source:    "cpumanager/cpu_assignment.go, takeByTopologyNUMADistributed",
		Scenarios: []string{"release_136_spreads_evenly_over_sockets", "release_137_spreads_within_a_socket"},
	},
	sharersArePassed: {
		Name: "pod-level-sharers", Since: 37,
		Before: "With the gate PodLevelResourceManagers and scope container, the memory manager looks for NUMA nodes " +
			"for a container that gets nothing of its own, and refuses it if it finds none: under none and " +
			"single-numa-node unless devices tie the container to some, otherwise where memory groups stand in the way.",
		After:     "It passes over such a container.",
		Source:    "memorymanager/policy_static.go, Allocate",
		Scenarios: []string{"release_136_refuses_containers_that_share", "release_137_passes_over_containers_that_share"},
	},
}

// Changes returns the table of what differs between the modelled releases, in the order of the releases.
func Changes() []Change { return append([]Change(nil), changes[:]...) }

// has reports whether the release has the new rule.
func (r Release) has(c change) bool { return r.orDefault() >= changes[c].Since }

// Releases also differ in how a restarted kubelet reads statuses of pods. A scenario has no statuses, so these rules
// are no rows of the table; lab/kubelet/readmit_test.go has the managers judge them.

// readsStatuses reports whether a restarted kubelet takes the CPUs that a container requests from its status. The
// gate InPlacePodVerticalScaling decides that. It is off by default before 1.33, and on in 1.33 and 1.34; later
// releases read the spec (cpumanager/policy_static.go, guaranteedCPUs).
func (r Release) readsStatuses() bool { return r.orDefault() == 33 || r.orDefault() == 34 }

// resizesApart reports whether a pod with CPUs of its own can be resized in place while it keeps them, with the gate
// InPlacePodVerticalScalingExclusiveCPUs (cpumanager/policy_static.go, GetTopologyHints).
func (r Release) resizesApart() bool { return r.orDefault() >= 37 }

// Option is an option of the kubelet's managers.
type Option struct {
	Name  string
	Since Release // the first release that has it; an older kubelet does not start with it
	// Beta is the first release that needs no gate for alpha options; 0: all need one.
	Beta Release
	// Stable is the first release that needs no gate at all; 0: there is none yet.
	Stable Release
	// Topology is set for options of the topology manager; the others are of the CPU manager.
	Topology bool
}

// NeedsAlpha reports whether a kubelet of the release does not start with the option unless alpha options are
// permitted.
func (o Option) NeedsAlpha(r Release) bool { return o.Beta == 0 || r.orDefault() < o.Beta }

var options = [...]Option{
	{"full-pcpus-only", 22, 23, 33, false},
	{"distribute-cpus-across-numa", 23, 33, 0, false},
	{"align-by-socket", 25, 0, 0, false},
	{"prefer-closest-numa-nodes", 26, 28, 32, true},
	{"max-allowable-numa-nodes", 31, 31, 35, true},
	{"distribute-cpus-across-cores", 31, 0, 0, false},
	{"strict-cpu-reservation", 32, 33, 35, false},
	{"prefer-align-cpus-by-uncorecache", 32, 34, 36, false},
}

// Options returns the options of the topology and CPU managers that are modelled
// (topologymanager/policy_options.go, cpumanager/policy_options.go).
func Options() []Option { return append([]Option(nil), options[:]...) }

// Serves reports whether static managers give CPUs and memory of their own to containers of the pod.
func (r *Rules) Serves(p *Pod) bool {
	return p.QoS == Guaranteed && (r.podLevel() || !(p.PodLevel && r.Release.has(podLevelIsLeftAlone)))
}
