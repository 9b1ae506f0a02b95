package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/topo"
)

// AffinityGroupAnnotation names the pods of a namespace that want to share a NUMA node.
const AffinityGroupAnnotation = "tenon.sh/affinity-group"

// maxGroup bounds the name of a group in bytes. It is the bound of the value of a label.
const maxGroup = 63

// AffinityGroup returns the group of pods with which a pod wants to share a NUMA node, as NAMESPACE/NAME. It returns
// "" for no group, and if the annotation is too long or cannot be printed.
func AffinityGroup(p *v1.Pod) string {
	g := p.Annotations[AffinityGroupAnnotation]
	if g == "" || len(g) > maxGroup || printable.Text(g) != g {
		return ""
	}
	return p.Namespace + "/" + g
}

// Shares returns the CPUs, in thousandths, and the memory, in bytes, that a pod requests: as a whole, or else summed
// over its containers and sidecars. Each is at least 0 and at most topo.MaxBytes.
func Shares(p *v1.Pod) (milliCPU, bytes int64) {
	sum := func(name v1.ResourceName, amount func(resource.Quantity) int64) (out int64) {
		bounded := func(q resource.Quantity) int64 {
			if !quantity.Within(q, topo.MaxBytes) {
				return max(0, int64(q.Sign())) * topo.MaxBytes
			}
			return min(amount(q), topo.MaxBytes)
		}
		if r := p.Spec.Resources; r != nil {
			if q, there := r.Requests[name]; there {
				return bounded(q)
			}
		}
		for _, c := range p.Spec.InitContainers {
			if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
				out = min(out+bounded(c.Resources.Requests[name]), topo.MaxBytes)
			}
		}
		for _, c := range p.Spec.Containers {
			out = min(out+bounded(c.Resources.Requests[name]), topo.MaxBytes)
		}
		return out
	}
	return sum(v1.ResourceCPU, func(q resource.Quantity) int64 { return q.MilliValue() }),
		sum(v1.ResourceMemory, func(q resource.Quantity) int64 { return q.Value() })
}
