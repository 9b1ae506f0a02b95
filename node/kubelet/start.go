package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file predicts whether a kubelet starts with a configuration that no kubelet has used yet.

// Setup is what a kubelet makes of a configuration on a machine.
type Setup struct {
	Rules place.Rules
	// Allocatable is what it leaves to pods; see [Allocatable].
	Allocatable map[string]int64
}

// SetUp returns what a kubelet of a release makes of the KubeletConfiguration in data on a machine. If the kubelet
// would not start, or would serve pods wrongly, the error names the values and why, up to maxFaults of them. If a
// value cannot be read, the error names only this value. SetUp covers the managers and reservations, feature gates,
// and numbers that may not be negative. It does not check anything else that the kubelet checks, such as ports and
// certificates.
func SetUp(data []byte, m *topo.Machine, release place.Release) (out Setup, err error) {
	var in kubeletv1beta1.KubeletConfiguration
	if err := decode(data, &in); err != nil {
		return out, err
	}
	c, err := ParseConfiguration(data)
	if err != nil {
		return out, err
	}
	if out.Rules, err = c.On(m, release); err != nil {
		return out, err
	}
	if out.Allocatable, err = Allocatable(data, m); err != nil {
		return out, fmt.Errorf("what pods may have: %w", err)
	}
	kept, err := keptFromPods(&in, m)
	if err != nil {
		return out, fmt.Errorf("what pods may have: %w", err)
	}
	asWritten := out.Rules
	asWritten.Memory.Reserved = c.Rules.Memory.Reserved // also on NUMA nodes that the machine lacks
	faults := slices.Concat(hostFaults(&in), numberFaults(&in), gateFaults(in.FeatureGates, release),
		asWritten.StartFaults(m, place.Startup{Gates: c.Gates, Kept: kept, Named: slices.Concat(
			slices.Collect(maps.Keys(in.CPUManagerPolicyOptions)),
			slices.Collect(maps.Keys(in.TopologyManagerPolicyOptions)))}))
	var all []error
	for _, f := range faults {
		if all = append(all, errors.New(f.Text)); len(all) == maxFaults {
			break
		}
	}
	return out, errors.Join(all...)
}

// maxFaults bounds the faults that one error of SetUp names.
const maxFaults = 8

// keptFromPods returns what the kubelet keeps from pods: "memory" in bytes, and "cpu" in thousandths of a CPU. "cpu"
// is missing if reservedSystemCPUs lists the reserved CPUs.
func keptFromPods(in *kubeletv1beta1.KubeletConfiguration, m *topo.Machine) (map[string]int64, error) {
	var bytes int64
	for _, n := range m.NUMAs() {
		bytes += n.Bytes
	}
	memory, err := memoryReserved(in, bytes)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{topo.Memory: memory}
	if in.ReservedSystemCPUs == "" {
		cpu, err := reservations(in, "cpu")
		if err != nil {
			return nil, err
		}
		out["cpu"] = cpu.MilliValue()
	}
	return out, nil
}

// signals are the eviction signals that evictionHard may have (pkg/kubelet/eviction/helpers.go).
var signals = []string{"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree",
	"imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"}

// reservable are the resources that systemReserved and kubeReserved may have (cmd/kubelet/app/server.go,
// parseResourceList).
var reservable = []string{"cpu", topo.Memory, "ephemeral-storage", "pid"}

// hostFaults returns the errors with which the kubelet ends before it makes its managers: in reservations and in
// evictionHard.
func hostFaults(in *kubeletv1beta1.KubeletConfiguration) (out []place.StartFault) {
	add := func(faulty bool, field, format string, args ...any) {
		if faulty {
			out = append(out, place.StartFault{Setting: field, Text: field + ": " + fmt.Sprintf(format, args...)})
		}
	}
	for _, f := range []struct {
		name string
		list map[string]string
	}{{"systemReserved", in.SystemReserved}, {"kubeReserved", in.KubeReserved}} {
		for _, resource := range slices.Sorted(maps.Keys(f.list)) {
			add(!slices.Contains(reservable, resource), f.name, "a kubelet cannot reserve %q", clip(resource))
			add(slices.Contains(reservable, resource) && !isAmount(f.list[resource]), f.name,
				"%s: %q is not an amount of 0 or more", resource, clip(f.list[resource]))
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(in.EvictionHard)) {
		add(!slices.Contains(signals, signal), "evictionHard", "the kubelet has no signal %q", clip(signal))
	}
	for _, x := range in.ReservedMemory {
		for kind, q := range x.Limits {
			_, whole := q.AsInt64()
			add(!whole && in.MemoryManagerPolicy == "Static", "reservedMemory",
				"NUMA node %d: %s of %s is no whole number "+
					"of bytes", x.NumaNode, q.String(), clip(string(kind)))
		}
	}
	add(in.ReservedSystemCPUs != "" && in.SystemReservedCgroup+in.KubeReservedCgroup != "", "reservedSystemCPUs",
		"it cannot be together with systemReservedCgroup or kubeReservedCgroup")
	return out
}

// numberFaults returns a fault for each number below 0 that the kubelet refuses
// (pkg/kubelet/apis/config/validation/validation.go).
func numberFaults(in *kubeletv1beta1.KubeletConfiguration) (out []place.StartFault) {
	orZero := func(n *int32) int64 {
		if n == nil {
			return 0
		}
		return int64(*n)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"maxPods", int64(in.MaxPods)}, {"podsPerCore", int64(in.PodsPerCore)}, {"maxOpenFiles", in.MaxOpenFiles},
		{"eventBurst", int64(in.EventBurst)}, {"eventRecordQPS", orZero(in.EventRecordQPS)},
		{"kubeAPIBurst", int64(in.KubeAPIBurst)}, {"kubeAPIQPS", orZero(in.KubeAPIQPS)},
		{"registryBurst", int64(in.RegistryBurst)}, {"registryPullQPS", orZero(in.RegistryPullQPS)}} {
		if f.value < 0 {
			out = append(out, place.StartFault{Setting: f.name, Text: fmt.Sprintf("%s: %d is less than 0", f.name, f.value)})
		}
	}
	return out
}

func isAmount(text string) bool {
	q, err := resource.ParseQuantity(text)
	return err == nil && q.Sign() >= 0
}
