package kubelet_test

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// A scenario in Kubernetes' terms: a KubeletConfiguration, and pods. Both are read back with the code that reads them
// in a cluster, so that a judged scenario tests that code too.

// evictionBytes is the hard eviction threshold; the kubelet adds it to the required reservation.
const evictionBytes = 100 << 20

// alphaGates enable the alpha and beta options of the CPU manager.
func alphaGates() map[string]bool {
	return map[string]bool{"CPUManagerPolicyAlphaOptions": true, "CPUManagerPolicyBetaOptions": true}
}

const podLevelGate = "PodLevelResourceManagers"

func configuration(s *scenario.Scenario) *configv1beta1.KubeletConfiguration {
	r := s.Rules
	c := &configv1beta1.KubeletConfiguration{
		TopologyManagerPolicy: r.Topology.Policy.String(),
		TopologyManagerScope:  r.Topology.Scope.String(),
		CPUManagerPolicy:      "none",
		MemoryManagerPolicy:   "None",
		FeatureGates:          alphaGates(),
		SystemReserved:        map[string]string{},
		EvictionHard:          map[string]string{"memory.available": fmt.Sprint(evictionBytes)},
	}
	c.SetGroupVersionKind(configv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	topology := map[string]string{}
	if r.Topology.PreferClosest {
		topology["prefer-closest-numa-nodes"] = "true"
	}
	if r.Topology.MaxNUMAs > 0 {
		topology["max-allowable-numa-nodes"] = fmt.Sprint(r.Topology.MaxNUMAs)
	}
	if r.Topology.Policy != place.None {
		c.TopologyManagerPolicyOptions = topology
	}
	if r.CPU.Static {
		c.CPUManagerPolicy = "static"
		c.CPUManagerPolicyOptions = cpuOptions(r.CPU)
	}
	if r.PodLevelManagers {
		c.FeatureGates[podLevelGate] = true
	}
	if s.ReserveCPUs > 0 {
		c.SystemReserved["cpu"] = fmt.Sprint(s.ReserveCPUs)
	} else {
		c.ReservedSystemCPUs = r.CPU.Reserved.String()
	}
	if r.Memory.Static {
		c.MemoryManagerPolicy = "Static"
		reserveMemory(c, r.Memory.Reserved)
	}
	return c
}

func cpuOptions(r place.CPURules) map[string]string {
	out := map[string]string{}
	for name, on := range map[string]bool{
		"full-pcpus-only":                  r.FullPCPUsOnly,
		"distribute-cpus-across-numa":      r.DistributeAcrossNUMA,
		"align-by-socket":                  r.AlignBySocket,
		"distribute-cpus-across-cores":     r.DistributeAcrossCores,
		"strict-cpu-reservation":           r.StrictReservation,
		"prefer-align-cpus-by-uncorecache": r.PreferAlignByUncoreCaches,
	} {
		if on {
			out[name] = "true"
		}
	}
	return out
}

// reserveMemory sets reservedMemory, and the amounts of the node that must add up to it.
func reserveMemory(c *configv1beta1.KubeletConfiguration, reserved []place.Reserved) {
	total := map[string]int64{topo.Memory: -evictionBytes}
	at := map[idset.NUMA]int{}
	for _, x := range reserved {
		total[x.Kind] += x.Bytes
		i, ok := at[x.NUMA]
		if !ok {
			i = len(c.ReservedMemory)
			at[x.NUMA] = i
			c.ReservedMemory = append(c.ReservedMemory, configv1beta1.MemoryReservation{NumaNode: int32(x.NUMA),
				Limits: v1.ResourceList{}})
		}
		c.ReservedMemory[i].Limits[v1.ResourceName(x.Kind)] = *resource.NewQuantity(x.Bytes, resource.BinarySI)
	}
	for kind, n := range total {
		c.SystemReserved[kind] = fmt.Sprint(n)
	}
}

// rulesOf reads the rules from a configuration as the node agent does.
func rulesOf(c *configv1beta1.KubeletConfiguration, m *topo.Machine, release place.Release) (place.Rules, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return place.Rules{}, err
	}
	parsed, err := kubelet.ParseConfiguration(text)
	if err != nil {
		return place.Rules{}, err
	}
	return parsed.On(m, release)
}

// podOf makes the pod of a step. Guaranteed and Burstable pods, and resources of pods, have a form that the API server
// accepts, if the scenario's pod can have one.
func podOf(st scenario.Step) *v1.Pod {
	p := &st.Pod
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: st.Name, Namespace: "default", UID: types.UID(st.Name)}}
	whole := v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	if w := p.Whole; w.MilliCPU > 0 || len(w.Memory) > 0 {
		whole = requirements(place.Container{MilliCPU: w.MilliCPU, Memory: w.Memory}, p.QoS).Requests
	}
	for _, c := range p.Containers {
		class := p.QoS
		if c.Unequal {
			class = place.Burstable
		}
		k := v1.Container{Name: c.Name, Resources: requirements(c, class)}
		if c.Kind == place.Sidecar {
			k.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		if c.Kind == place.App {
			pod.Spec.Containers = append(pod.Spec.Containers, k)
		} else {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, k)
		}
	}
	if p.PodLevel {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: whole}
		if p.QoS == place.Guaranteed {
			pod.Spec.Resources.Limits = whole
		}
	}
	pod.Status.QOSClass = map[place.QoS]v1.PodQOSClass{
		place.Guaranteed: v1.PodQOSGuaranteed, place.Burstable: v1.PodQOSBurstable, place.BestEffortQoS: v1.PodQOSBestEffort,
	}[p.QoS]
	return pod
}

// requirements returns limits equal to requests if the pod is Guaranteed, and always for devices and hugepages.
func requirements(c place.Container, class place.QoS) v1.ResourceRequirements {
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	set := func(name string, q *resource.Quantity, limit bool) {
		out.Requests[v1.ResourceName(name)] = *q
		if limit {
			out.Limits[v1.ResourceName(name)] = *q
		}
	}
	if c.MilliCPU > 0 {
		set("cpu", resource.NewMilliQuantity(c.MilliCPU, resource.DecimalSI), class == place.Guaranteed)
	}
	for _, m := range c.Memory {
		q := *resource.NewQuantity(m.Bytes, resource.BinarySI)
		if m.Fractional {
			q = resource.MustParse(fmt.Sprintf("%d500m", m.Bytes-1))
		}
		set(m.Kind, &q, class == place.Guaranteed || strings.HasPrefix(m.Kind, "hugepages-"))
	}
	for _, d := range c.Devices {
		set(d.Resource, resource.NewQuantity(d.N, resource.DecimalSI), true)
	}
	return out
}

// mistranslated returns how the pod is read if that differs from the scenario's pod, or "". Scenarios may have pods of
// a class that Kubernetes would not give them, for brevity; those are not compared.
func mistranslated(pod *v1.Pod, p *place.Pod) (string, error) {
	asWritten := pod.DeepCopy()
	asWritten.Status = v1.PodStatus{} // the class is computed from the spec
	read, err := podapi.ToPlace(asWritten)
	if err != nil {
		return "", err
	}
	if read.QoS == p.QoS && (read.Shape() != p.Shape() || !slices.EqualFunc(read.Containers, p.Containers,
		func(a, b place.Container) bool { return a.Name == b.Name })) {
		return read.Shape(), nil
	}
	return "", nil
}
