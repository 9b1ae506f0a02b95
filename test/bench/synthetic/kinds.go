package synthetic

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// kind is a kind of machine.
type kind struct {
	machines.Machine
	share       int // of the nodes, in percent
	rules       place.Rules
	empty       *place.Usage    // the machine without pods
	allocatable v1.ResourceList // as its kubelet computes it
}

// These configurations are for machines whose own configuration lets the kubelet choose the reserved CPUs, or has a
// policy that a compared scheduler does not support.
const (
	wholePods = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0,56,112,168
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
systemReserved: {memory: 7Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 4Gi}}
- {numaNode: 1, limits: {memory: 4Gi}}
`
	oneOfMany = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: %s
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "16"}
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 4Gi}}
`
	superchip = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: %s
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "64"}
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
`
)

// mixedKinds returns the kinds of machines of a cluster: for packet processing, for services, and with GPUs. A
// quarter of the nodes has the policy restricted, the others single-numa-node.
func mixedKinds() (out []*kind, err error) {
	for _, x := range []struct {
		name, yaml string
		share      int
	}{
		{"xeon-2s", "", 40},
		{"xeon-snc2", "", 25},
		{"gpu-8", wholePods, 20},
		{"epyc-nps4", fmt.Sprintf(oneOfMany, "0-1,128-129"), 15},
	} {
		m, err := machines.Load(x.name)
		if err != nil {
			return nil, err
		}
		if x.yaml != "" {
			if m, err = machines.Parse(m.Name, m.Text, x.yaml); err != nil {
				return nil, err
			}
		}
		k, err := kindOf(m, x.share)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// Total sizes of a machine with a given number of NUMA nodes.
const (
	wholeCPUs, wholeMemory, wholePages = 576, 2304, 288 // memory in GiB; pages of 1 GiB
	wholeDevices                       = 144            // of each sort
)

// kindsWithNUMAs returns one kind of machine with the given number of NUMA nodes and always the same total size. If
// there are more than 16 NUMA nodes, only two have CPUs, memory and devices, as on machines whose GPUs' memory forms
// NUMA nodes. The kubelets of such machines do not pin memory, because no kubelet can compute memory hints for that
// many NUMA nodes.
func kindsWithNUMAs(numas int) ([]*kind, error) {
	parts, config := numas, fmt.Sprintf(oneOfMany, fmt.Sprintf("0,%d", wholeCPUs/2))
	if numas > 16 {
		parts = 2
		config = fmt.Sprintf(superchip, fmt.Sprintf("0,%d", wholeCPUs/2))
	}
	var b strings.Builder
	cores := wholeCPUs / 2
	each := cores / parts
	for i := range numas {
		if i >= parts {
			fmt.Fprintf(&b, "numa %d\n", i)
			continue
		}
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 1 memory %dGi hugepages-1Gi %d\n", i, i*2/parts,
			i*each, (i+1)*each-1, cores+i*each, cores+(i+1)*each-1, wholeMemory/parts, wholePages/parts)
		for _, name := range []string{gpus, functions} {
			var ids []string
			for k := range wholeDevices / parts {
				ids = append(ids, fmt.Sprintf("%02d-%02d", i, k))
			}
			fmt.Fprintf(&b, "device %s %s numa %d\n", name, strings.Join(ids, ","), i)
		}
	}
	m, err := machines.Parse(fmt.Sprintf("numas-%d", numas), b.String(), config)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(m, 100)
	return []*kind{k}, err
}

func kindOf(m machines.Machine, share int) (*kind, error) {
	c, err := kubelet.ParseConfiguration([]byte(m.YAML))
	if err != nil {
		return nil, fmt.Errorf("rules of machine %s: %w", m.Name, err)
	}
	rules, err := c.On(m.Topo, 0)
	if err != nil {
		return nil, fmt.Errorf("rules of machine %s: %w", m.Name, err)
	}
	amounts, err := kubelet.Allocatable([]byte(m.YAML), m.Topo)
	if err != nil {
		return nil, fmt.Errorf("allocatable of machine %s: %w", m.Name, err)
	}
	k := &kind{Machine: m, share: share, rules: rules, empty: place.NewUsage(m.Topo, rules),
		allocatable: v1.ResourceList{}}
	for name, n := range amounts {
		k.allocatable[v1.ResourceName(name)] = *quantity(name, n)
	}
	return k, nil
}

// quantity returns an amount of a resource in the format of a Node's status. n is in thousandths for CPUs, in bytes
// for memory and huge pages, and a count for devices.
func quantity(name string, n int64) *resource.Quantity {
	switch {
	case name == string(v1.ResourceCPU):
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == topo.Memory || strings.HasPrefix(name, v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return resource.NewQuantity(n, resource.DecimalSI)
}

// node returns a ready node of the kind, the i-th of the cluster.
func (k *kind) node(name string, i int) *v1.Node {
	conditions := []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: creationTime(), LastTransitionTime: creationTime()}}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(1, i), CreationTimestamp: creationTime(),
			Labels: map[string]string{
				v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
				v1.LabelInstanceTypeStable: k.Name}},
		Status: v1.NodeStatus{Capacity: k.allocatable, Allocatable: k.allocatable, Conditions: conditions},
	}
}
