package kubelet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Pods as users write them: limits without requests, requests without limits, zeros, fractions, and several notations
// of one amount. They pass through the API's defaults and its encoding before they are read.

// write writes a pod with about the requests of p.
func (d *drawing) write(name string, p *place.Pod) (*v1.Pod, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for _, c := range p.Containers {
		class := p.QoS
		if c.Unequal {
			class = place.Burstable
		}
		k := v1.Container{Name: c.Name, Image: "acme.com/image", Resources: d.resources(c, class)}
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
		whole := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi")}
		if d.managers && p.QoS == place.Guaranteed {
			whole = d.whole(p)
		}
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: whole} // the API server would copy them from limits
		if p.QoS == place.Guaranteed {
			pod.Spec.Resources.Limits = whole
		}
	}
	return sent(pod)
}

// sent returns the pod as the API server returns it: with defaults, with its class, and with quantities that were
// written and read again.
func sent(pod *v1.Pod) (*v1.Pod, error) {
	defaults.SetObjectDefaults_Pod(pod)
	pod.Status.QOSClass = qos.ComputePodQOS(pod)
	data, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	out := &v1.Pod{}
	return out, out.Unmarshal(data)
}

// resources writes the requests and limits of a container.
func (d *drawing) resources(c place.Container, class place.QoS) v1.ResourceRequirements {
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	both := func(name string, write func() string, request, limit bool) {
		if request {
			out.Requests[v1.ResourceName(name)] = resource.MustParse(write())
		}
		if limit {
			out.Limits[v1.ResourceName(name)] = resource.MustParse(write())
		}
	}
	limits := class == place.Guaranteed && !d.chance(40)
	twice := d.chance(2) // requests beside limits
	if c.MilliCPU > 0 {
		both("cpu", func() string { return d.cpu(c.MilliCPU) }, !limits || twice, limits)
	} else if d.chance(6) {
		both("cpu", func() string { return "0" }, true, false)
	}
	for _, m := range c.Memory {
		page := strings.HasPrefix(m.Kind, "hugepages-")
		write := func() string { return d.size(m.Bytes) }
		if m.Kind == topo.Memory && d.chance(60) {
			odd := pick(d.r, "1.1Gi", "0.7Gi", "1.2Gi", "512m", "0.1", "1.5Gi", "333.3Mi", "1G", "1e9", "1000m")
			write = func() string { return odd }
		}
		both(m.Kind, write, twice || !limits && !page, limits || page)
	}
	for _, n := range c.Devices {
		both(n.Resource, func() string { return fmt.Sprint(n.N) }, d.chance(2), true)
	}
	if d.chance(20) {
		both("ephemeral-storage", func() string { return "1Gi" }, true, false)
	}
	return out
}

// cpu writes an amount of CPU.
func (d *drawing) cpu(milli int64) string {
	n := milli / 1000
	if milli%1000 == 0 {
		return pick(d.r, fmt.Sprint(n), fmt.Sprintf("%dm", milli), fmt.Sprintf("%d.0", n), fmt.Sprintf("%de0", n),
			fmt.Sprintf("%d.%03dk", n/1000, n%1000), fmt.Sprintf("%du", milli*1000))
	}
	return pick(d.r, fmt.Sprintf("%dm", milli), fmt.Sprintf("%d.%03d", n, milli%1000), fmt.Sprintf("%du", milli*1000-300))
}

// size writes an amount of memory.
func (d *drawing) size(n int64) string {
	out := []string{topo.FormatBytes(n), fmt.Sprint(n), fmt.Sprintf("%dm", n*1000), fmt.Sprintf("%d.0", n)}
	if n%(1<<20) == 0 {
		out = append(out, fmt.Sprintf("%dMi", n>>20))
	}
	if n%(1<<29) == 0 {
		out = append(out, fmt.Sprintf("%.1fGi", float64(n)/(1<<30)))
	}
	return pick(d.r, out...)
}

// whole writes what a pod requests as a whole: all that its containers request, and mostly more CPUs and memory. The
// API server adds hugepages where only containers request them.
func (d *drawing) whole(p *place.Pod) v1.ResourceList {
	cpu := (peakOf(p, func(c *place.Container) int64 { return c.MilliCPU }) + 999) / 1000 * 1000
	cpu += pick(d.r, int64(0), 0, 1, 1, 2, 3) * 1000
	if d.chance(20) {
		cpu += 500
	}
	out := v1.ResourceList{"cpu": resource.MustParse(d.cpu(max(cpu, 1000)))}
	for _, c := range p.Containers {
		for _, a := range c.Memory {
			n := peakOf(p, func(c *place.Container) int64 {
				if i := slices.IndexFunc(c.Memory, func(o place.Amount) bool { return o.Kind == a.Kind }); i >= 0 {
					return c.Memory[i].Bytes
				}
				return 0
			})
			if a.Kind == topo.Memory {
				n = max(1<<20, n+pick(d.r, int64(0), 0, 1, 2)<<30)
			}
			out[v1.ResourceName(a.Kind)] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	if d.chance(30) {
		out["memory"] = resource.MustParse(fmt.Sprintf("%d500m", out.Memory().Value()))
	}
	return out
}

// peakOf returns the most that a pod's containers need at any time (KEP-753).
func peakOf(p *place.Pod, of func(*place.Container) int64) int64 {
	var sidecars, inits, apps int64
	for i := range p.Containers {
		switch n := of(&p.Containers[i]); p.Containers[i].Kind {
		case place.Init:
			inits = max(inits, sidecars+n)
		case place.Sidecar:
			sidecars += n
		default:
			apps += n
		}
	}
	return max(inits, sidecars+apps)
}

// asTheKubeletReads returns the managers' view of a pod, by their own rules (cpumanager/policy_static.go,
// guaranteedCPUs; memorymanager/policy_static.go, getContainerRequestedResources; devicemanager/manager.go,
// allocateContainerResources).
func asTheKubeletReads(pod *v1.Pod) *place.Pod {
	out := &place.Pod{}
	if r := pod.Spec.Resources; r != nil {
		out.PodLevel = len(r.Requests)+len(r.Limits) > 0
		cpu := r.Requests["cpu"]
		out.Whole = place.Whole{MilliCPU: cpu.MilliValue(), Memory: memoryOf(r.Requests)}
	}
	out.QoS = map[v1.PodQOSClass]place.QoS{
		v1.PodQOSGuaranteed: place.Guaranteed, v1.PodQOSBurstable: place.Burstable, v1.PodQOSBestEffort: place.BestEffortQoS,
	}[qos.GetPodQOS(pod)]
	for i, k := range append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		c := place.Container{Name: k.Name}
		if i < len(pod.Spec.InitContainers) {
			c.Kind = place.Init
			if k.RestartPolicy != nil && *k.RestartPolicy == v1.ContainerRestartPolicyAlways {
				c.Kind = place.Sidecar
			}
		}
		cpu := k.Resources.Requests["cpu"]
		c.MilliCPU = cpu.MilliValue()
		c.Memory = memoryOf(k.Resources.Requests)
		c.Unequal = out.PodLevel && !cmqos.IsContainerEquivalentQOSGuaranteed(&k)
		for name, q := range k.Resources.Limits {
			if strings.Contains(string(name), "acme.com/") {
				c.Devices = append(c.Devices, place.Count{Resource: string(name), N: q.Value()})
			}
		}
		slices.SortFunc(c.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
		out.Containers = append(out.Containers, c)
	}
	return out
}

func memoryOf(list v1.ResourceList) (out []place.Amount) {
	for name, q := range list {
		if name == "memory" || strings.HasPrefix(string(name), "hugepages-") {
			n, whole := q.AsInt64()
			if !whole {
				n = q.Value()
			}
			out = append(out, place.Amount{Kind: string(name), Bytes: n, Fractional: !whole})
		}
	}
	slices.SortFunc(out, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// preference is a plugin's answer to the kubelet's request for preferred devices.
type preference int

const (
	lowest preference = iota
	highest
	spread // over as many NUMA nodes as there are
	untied // devices without a NUMA node first
	scarce // fewer devices than are needed
	wrong  // devices that do not exist
	failing
	preferences
)

var errPlugin = errors.New("the plugin does not know")

// prefer makes the plugin's answers. A failing plugin fails every third answer.
func (p preference) prefer(r topo.Resource, failed func()) func(_, _ []string, _ int) ([]string, error) {
	calls := 0
	return func(available, include []string, size int) ([]string, error) {
		if calls++; p == failing && calls%3 == 0 {
			failed()
			return nil, errPlugin
		}
		switch p {
		case scarce:
			size = (size + 1) / 2
		case wrong:
			return []string{"nowhere", "d0"}, nil
		}
		return append(append([]string{}, include...), p.first(r, available, include, size-len(include))...), nil
	}
}

// first returns the plugin's n preferred devices.
func (p preference) first(r topo.Resource, available, include []string, n int) (out []string) {
	rank := map[string]int{}
	seen := map[topo.Mask]int{}
	for i, d := range r.Devices {
		switch rank[d.ID] = i; {
		case p == highest:
			rank[d.ID] = -i
		case p == spread:
			rank[d.ID] += seen[d.NUMAs] * 1000
			seen[d.NUMAs]++
		case p == untied && d.NUMAs != 0:
			rank[d.ID] += 1000
		}
	}
	out = slices.DeleteFunc(slices.Clone(available), func(id string) bool { return slices.Contains(include, id) })
	slices.SortFunc(out, func(a, b string) int { return rank[a] - rank[b] })
	return out[:max(0, min(n, len(out)))]
}
