package coarse

import (
	"fmt"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// devices are the device resources of the cluster, by their short names in descriptions.
var devices = map[string]v1.ResourceName{"nic": "vendor.example/nic", "gpu": "vendor.example/gpu"}

// amount parses part i of a description, from 0 on, into a resource and its quantity. The prefixes "hp"
// (hugepages-2Mi), "eph" (ephemeral storage), "nic" and "gpu" name the resource, as in "hp512Mi" or "nic4". Without a
// prefix, part 0 is CPUs, and any other part is memory.
func amount(i int, text string) (v1.ResourceName, string) {
	if rest, ok := strings.CutPrefix(text, "hp"); ok {
		return v1.ResourceHugePagesPrefix + "2Mi", rest
	}
	if rest, ok := strings.CutPrefix(text, "eph"); ok {
		return v1.ResourceEphemeralStorage, rest
	}
	for short, name := range devices {
		if rest, ok := strings.CutPrefix(text, short); ok {
			return name, rest
		}
	}
	return [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}[min(i, 1)], text
}

// Topology returns the NodeResourceTopology of a node. In zones, "4/8Gi/nic2 0:4/8Gi/nic2" means two NUMA nodes:
// node-0 with 4 CPUs, 8Gi of memory and 2 NICs, and node-1 with the same, but none of its 4 CPUs is available.
// "3:4:6" means that 3 are available, 4 allocatable, and 6 the capacity; a missing number equals the one before it. A
// part "-" omits the resource. policy has the form "single-numa-node/container".
func Topology(node, policy, zones string) *v1alpha2.NodeResourceTopology {
	name, scope, _ := strings.Cut(policy, "/")
	o := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: node}, Zones: v1alpha2.ZoneList{},
		Attributes: v1alpha2.AttributeList{{Name: "topologyManagerPolicy", Value: name}, {Name: "topologyManagerScope",
			Value: scope}}}
	for i, z := range strings.Fields(zones) {
		zone := v1alpha2.Zone{Name: fmt.Sprintf("node-%d", i), Type: "Node"}
		for k, part := range strings.Split(z, "/") {
			if part == "-" {
				continue
			}
			r, q := amount(k, part)
			values := strings.Split(q, ":")
			for len(values) < 3 {
				values = append(values, values[len(values)-1])
			}
			zone.Resources = append(zone.Resources, v1alpha2.ResourceInfo{Name: string(r),
				Available: resource.MustParse(values[0]), Allocatable: resource.MustParse(values[1]),
				Capacity: resource.MustParse(values[2])})
		}
		o.Zones = append(o.Zones, zone)
	}
	return o
}

// Signed adds to o the fingerprint of the named pods, which are in the default namespace, and returns o.
func Signed(o *v1alpha2.NodeResourceTopology, pods ...string) *v1alpha2.NodeResourceTopology {
	fp := podfingerprint.NewFingerprint(len(pods))
	for _, name := range pods {
		_ = fp.Add(metav1.NamespaceDefault, name) // never returns an error
	}
	o.Attributes = append(o.Attributes, v1alpha2.AttributeInfo{Name: podfingerprint.Attribute, Value: fp.Sign()},
		v1alpha2.AttributeInfo{Name: podfingerprint.AttributeMethod, Value: podfingerprint.MethodAll})
	return o
}

// Containers returns the specification of a pod. "init:4/4Gi 2/4Gi/nic1" means an init container and a container,
// whose limits equal their requests; "burstable:2/4Gi" means a container with requests only. Devices and hugepages
// always have limits. The containers are named by kind and position, here init0 and c1.
func Containers(text string) v1.PodSpec {
	s := v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0), AutomountServiceAccountToken: ptr.To(false),
		RestartPolicy: v1.RestartPolicyNever}
	for i, f := range strings.Fields(text) {
		f, init := strings.CutPrefix(f, "init:")
		f, burstable := strings.CutPrefix(f, "burstable:")
		kind := "c"
		if init {
			kind = "init"
		}
		c := v1.Container{Name: fmt.Sprintf("%s%d", kind, i), Image: "lab.invalid/c:1",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
		for k, part := range strings.Split(f, "/") {
			if part == "-" {
				continue
			}
			r, q := amount(k, part)
			c.Resources.Requests[r] = resource.MustParse(q)
			if !burstable || strings.Contains(string(r), "/") || strings.HasPrefix(string(r), v1.ResourceHugePagesPrefix) {
				c.Resources.Limits[r] = resource.MustParse(q)
			}
		}
		if init {
			s.InitContainers = append(s.InitContainers, c)
		} else {
			s.Containers = append(s.Containers, c)
		}
	}
	return s
}
