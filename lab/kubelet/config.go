package kubelet

import (
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"
)

// diskBytes is the size of the disk that every described machine has.
const diskBytes = 100 << 30

// withDefaults returns the configuration with the kubelet's own defaults. It fails if the kubelet's own validation
// does. The second result is the same configuration in its versioned form, for the file.
func withDefaults(c *configv1beta1.KubeletConfiguration) (*config.KubeletConfiguration,
	*configv1beta1.KubeletConfiguration, error) {
	s, _, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return nil, nil, fmt.Errorf("make kubelet scheme: %w", err)
	}
	versioned := c.DeepCopy()
	s.Default(versioned)
	internal := &config.KubeletConfiguration{}
	if err := s.Convert(versioned, internal, nil); err != nil {
		return nil, nil, fmt.Errorf("convert kubelet configuration: %w", err)
	}
	if err := validation.ValidateKubeletConfiguration(internal, utilfeature.DefaultFeatureGate); err != nil {
		return nil, nil, fmt.Errorf("validate kubelet configuration: %w", err)
	}
	return internal, versioned, nil
}

// withoutHost returns the configuration without everything that would reach beyond the kubelet's directory: ports,
// cgroups, static pods, the host's resolver.
func withoutHost(c *configv1beta1.KubeletConfiguration) *configv1beta1.KubeletConfiguration {
	out := c.DeepCopy()
	out.CgroupsPerQOS = new(bool)
	out.EnforceNodeAllocatable = []string{"none"}
	out.FailCgroupV1 = new(bool)
	out.FailSwapOn = new(bool)
	out.EnableServer = new(bool)
	out.ReadOnlyPort = 0
	out.HealthzPort = new(int32)
	out.StaticPodPath = ""
	out.ResolverConfig = new(string)
	out.RegistryPullQPS = new(int32)
	out.EnableControllerAttachDetach = new(bool)
	if len(out.ClusterDNS) == 0 {
		out.ClusterDNS = []string{"10.96.0.10"} // never queried, but without it each pod gets a warning
	}
	serialize := false
	out.SerializeImagePulls = &serialize
	// The kubelet never dials this address, because it receives the runtime as a value.
	out.ContainerRuntimeEndpoint = "unix:///nonexistent"
	return out
}

// allocatable has the capacity of a machine, and what a configuration reserves from it.
type allocatable struct {
	cpus           cpuset.CPUSet // reservedSystemCPUs; empty if CPUs are reserved by amount
	systemReserved v1.ResourceList
	kubeReserved   v1.ResourceList
	thresholds     []evictionapi.Threshold
	capacity       v1.ResourceList
}

// newAllocatable reads the reservations as the kubelet's start-up does: reservedSystemCPUs overrides the CPU amounts
// of systemReserved and kubeReserved (cmd/kubelet/app/server.go, run). It fails if more is reserved than the machine
// has.
func newAllocatable(c *config.KubeletConfiguration, info *machineInfo) (*allocatable, error) {
	a := &allocatable{capacity: cadvisor.CapacityFromMachineInfo(info)}
	a.capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(diskBytes, resource.BinarySI)
	var err error
	if a.cpus, err = cpuset.Parse(c.ReservedSystemCPUs); err != nil {
		return nil, fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	system, kube := maps.Clone(c.SystemReserved), maps.Clone(c.KubeReserved)
	if n := a.cpus.Size(); n > 0 {
		delete(kube, "cpu")
		if system == nil {
			system = map[string]string{}
		}
		system["cpu"] = strconv.Itoa(n)
	}
	if a.systemReserved, err = quantities(system); err != nil {
		return nil, fmt.Errorf("systemReserved: %w", err)
	}
	if a.kubeReserved, err = quantities(kube); err != nil {
		return nil, fmt.Errorf("kubeReserved: %w", err)
	}
	if a.thresholds, err = eviction.ParseThresholdConfig(nil, c.EvictionHard, nil, nil, nil); err != nil {
		return nil, fmt.Errorf("evictionHard: %w", err)
	}
	for name, q := range a.reservation() {
		if have := a.capacity[name]; have.Cmp(q) < 0 {
			return nil, fmt.Errorf("%s of %s is reserved, the machine has %s", q.String(), name, have.String())
		}
	}
	return a, nil
}

// quantities parses amounts by resource name. It fails if one is negative.
func quantities(in map[string]string) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for name, text := range in {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is not a quantity of zero or more", name, text)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}

// reservation returns the sum that pods cannot use: what is reserved for the system and the kubelet, and the hard
// eviction thresholds. It omits zeros (cm/node_container_manager_linux.go, GetNodeAllocatableReservation).
func (a *allocatable) reservation() v1.ResourceList {
	evict := v1.ResourceList{}
	for _, t := range a.thresholds {
		name, ok := map[evictionapi.Signal]v1.ResourceName{
			evictionapi.SignalMemoryAvailable: v1.ResourceMemory,
			evictionapi.SignalNodeFsAvailable: v1.ResourceEphemeralStorage,
		}[t.Signal]
		if ok && t.Operator == evictionapi.OpLessThan {
			have := a.capacity[name]
			evict[name] = *evictionapi.GetThresholdQuantity(t.Value, &have)
		}
	}
	out := v1.ResourceList{}
	for name := range a.capacity {
		sum := resource.NewQuantity(0, resource.DecimalSI)
		for _, part := range []v1.ResourceList{a.systemReserved, a.kubeReserved, evict} {
			sum.Add(part[name])
		}
		if !sum.IsZero() {
			out[name] = *sum
		}
	}
	return out
}

// absolute returns the capacity minus what is reserved for the system and the kubelet, and at least zero. It ignores
// eviction thresholds.
func (a *allocatable) absolute() v1.ResourceList {
	out := v1.ResourceList{}
	for name, have := range a.capacity {
		rest := have.DeepCopy()
		rest.Sub(a.systemReserved[name])
		rest.Sub(a.kubeReserved[name])
		if rest.Sign() < 0 {
			rest.Set(0)
		}
		out[name] = rest
	}
	return out
}

// nodeConfig returns the container manager's part of the configuration.
func (a *allocatable) nodeConfig(root string, c *config.KubeletConfiguration) cm.NodeConfig {
	return cm.NodeConfig{
		KubeletRootDir: root,
		NodeAllocatableConfig: cm.NodeAllocatableConfig{
			ReservedSystemCPUs:     a.cpus,
			KubeReserved:           a.kubeReserved,
			SystemReserved:         a.systemReserved,
			HardEvictionThresholds: a.thresholds,
		},
		CPUManagerPolicy:             c.CPUManagerPolicy,
		CPUManagerPolicyOptions:      c.CPUManagerPolicyOptions,
		CPUManagerReconcilePeriod:    c.CPUManagerReconcilePeriod.Duration,
		MemoryManagerPolicy:          c.MemoryManagerPolicy,
		MemoryManagerReservedMemory:  c.ReservedMemory,
		TopologyManagerPolicy:        c.TopologyManagerPolicy,
		TopologyManagerScope:         c.TopologyManagerScope,
		TopologyManagerPolicyOptions: c.TopologyManagerPolicyOptions,
	}
}

// SetFeatureGates sets the feature gates of the configurations. Gates are global to the process, so configurations that
// contradict each other are refused. Call it once, before the first kubelet or managers of the process.
func SetFeatureGates(configs ...*configv1beta1.KubeletConfiguration) error {
	gates := map[string]bool{}
	for _, c := range configs {
		for name, on := range c.FeatureGates {
			if old, ok := gates[name]; ok && old != on {
				return fmt.Errorf("feature gate %s is both on and off: kubelets of one process share their gates", name)
			}
			gates[name] = on
		}
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()[sandboxReady]
	if _, asked := gates[string(sandboxReady)]; !asked && !known.LockToDefault {
		gates[string(sandboxReady)] = false
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	return nil
}

// sandboxReady makes the kubelet report a pod's sandbox before the containers start. A separate goroutine reads the
// pod's status and writes it back changed (pkg/kubelet/kubelet.go, OnPodSandboxReady). Containers start within
// microseconds here and already run by then, so the write sets the pod back to Pending until the next sync. Nothing
// in Tenon reads the condition. Up to 1.36 the gate is therefore off unless a configuration enables it; from 1.37 on
// it is always on.
const sandboxReady = features.PodReadyToStartContainersCondition

// configFile writes a configuration as the YAML that a kubelet reads with --config.
func configFile(c *configv1beta1.KubeletConfiguration) ([]byte, error) {
	out := c.DeepCopy()
	out.APIVersion, out.Kind = configv1beta1.SchemeGroupVersion.String(), "KubeletConfiguration"
	b, err := yaml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write kubelet configuration: %w", err)
	}
	return b, nil
}
