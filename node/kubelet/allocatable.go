package kubelet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/topo"
)

// Defaults of the kubelet (pkg/kubelet/apis/config/v1beta1/defaults.go).
const (
	defaultMaxPods  = 110
	defaultEviction = "100Mi"
)

// Allocatable returns what a kubelet with the KubeletConfiguration in data leaves to all pods of a machine together,
// like the Node's status.allocatable. "cpu" is in thousandths of a CPU, "pods" is a number, memory and hugepages are
// in bytes, and every device resource has the number of its healthy devices. Allocatable omits ephemeral storage,
// because a machine does not describe disks.
func Allocatable(data []byte, m *topo.Machine) (map[string]int64, error) {
	var in kubeletv1beta1.KubeletConfiguration
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	if err := checkKind(in.GroupVersionKind()); err != nil {
		return nil, err
	}
	out := map[string]int64{"pods": pods(&in, m)}
	var bytes int64
	for _, n := range m.NUMAs() {
		bytes += n.Bytes
		for _, k := range m.Kinds() {
			out[k] += n.Capacity(k)
		}
	}
	for _, r := range m.Resources() {
		for _, d := range r.Devices {
			if !d.Unhealthy {
				out[r.Name]++
			}
		}
	}
	cpus, err := cpuLeft(&in, m)
	if err != nil {
		return nil, err
	}
	out["cpu"] = cpus
	reserved, err := memoryReserved(&in, bytes)
	if err != nil {
		return nil, err
	}
	out[topo.Memory] = max(0, out[topo.Memory]-reserved)
	return out, nil
}

// pods returns how many pods the kubelet admits at most.
func pods(in *kubeletv1beta1.KubeletConfiguration, m *topo.Machine) int64 {
	n := int64(cmp.Or(in.MaxPods, defaultMaxPods))
	if in.PodsPerCore > 0 {
		n = min(n, int64(in.PodsPerCore)*int64(m.CPUs().Len()))
	}
	return max(0, n)
}

// cpuLeft returns the CPUs for pods, in thousandths. As in the kubelet, a list of reserved CPUs takes precedence over
// amounts (cmd/kubelet/app/server.go, run).
func cpuLeft(in *kubeletv1beta1.KubeletConfiguration, m *topo.Machine) (int64, error) {
	all := int64(m.CPUs().Len()) * 1000
	set, err := reservedList(in)
	if err != nil {
		return 0, err
	}
	if !set.Empty() {
		return max(0, all-int64(set.Len())*1000), nil
	}
	reserved, err := reservations(in, "cpu")
	if err != nil {
		return 0, err
	}
	return max(0, all-reserved.MilliValue()), nil
}

// memoryReserved returns how many bytes systemReserved, kubeReserved and the hard eviction threshold keep from pods
// (pkg/kubelet/cm, GetNodeAllocatableReservation). all is the memory of the machine in bytes: a percentage in the
// threshold is a share of it.
func memoryReserved(in *kubeletv1beta1.KubeletConfiguration, all int64) (int64, error) {
	reserved, err := reservations(in, topo.Memory)
	if err != nil {
		return 0, err
	}
	threshold, set := in.EvictionHard["memory.available"]
	merge := in.MergeDefaultEvictionSettings != nil && *in.MergeDefaultEvictionSettings
	if !set && (in.EvictionHard == nil || merge) {
		threshold = defaultEviction
	}
	if threshold == "" {
		return reserved.Value(), nil
	}
	if part, ok := strings.CutSuffix(threshold, "%"); ok {
		if part == "0" || part == "100" {
			return reserved.Value(), nil // the kubelet ignores both
		}
		f, err := strconv.ParseFloat(strings.TrimRight(part, "%"), 32)
		if err != nil || !(f >= 0 && f <= 100) {
			return 0, fmt.Errorf("evictionHard: memory.available: %q is not an amount or a percentage", clip(threshold))
		}
		// The floating-point types are the kubelet's own, because its static memory manager compares the sum to the byte.
		return reserved.Value() + int64(float64(all)*float64(float32(f)/100)), nil
	}
	q, err := resource.ParseQuantity(threshold)
	if err != nil || q.Sign() <= 0 || q.CmpInt64(topo.MaxBytes) > 0 {
		return 0, fmt.Errorf("evictionHard: memory.available: %q is not an amount above 0 or a percentage", clip(threshold))
	}
	return reserved.Value() + q.Value(), nil
}

// reservations returns the sum of systemReserved and kubeReserved of a resource.
func reservations(in *kubeletv1beta1.KubeletConfiguration, name string) (sum resource.Quantity, err error) {
	for _, f := range []struct {
		field string
		list  map[string]string
	}{{"systemReserved", in.SystemReserved}, {"kubeReserved", in.KubeReserved}} {
		text, ok := f.list[name]
		if !ok {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 || q.CmpInt64(topo.MaxBytes) > 0 {
			return sum, fmt.Errorf("%s: %s: %q is not an amount in 0..1Pi", f.field, name, clip(text))
		}
		sum.Add(q)
	}
	return sum, nil
}
