package main

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/nrt"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// kind is a machine whose objects are measured: the number of its NUMA nodes, the GPUs of each, and the virtual
// functions of the one network card of each. Every NUMA node has 32 CPUs and 256 GiB of memory.
type kind struct{ numas, gpus, functions int }

func (k kind) cpus() int { return k.numas * 32 }

var kinds = [...]kind{{numas: 2, gpus: 2, functions: 8}, {numas: 8, gpus: 2, functions: 16}}

// crowds are the numbers of pods on the measured nodes.
var crowds = [...]int{0, 30, 110}

const (
	vf    = "openshift.io/sriov_net"
	apart = 32 // distance of NUMA nodes on other sockets
)

func (k kind) machine() (*topo.Machine, error) {
	var b strings.Builder
	cores := 16
	for n := range k.numas {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory 256Gi hugepages-1Gi 16\ndistances", n, n*2/k.numas,
			n*cores, (n+1)*cores-1, (k.numas+n)*cores, (k.numas+n+1)*cores-1)
		for to := range k.numas {
			switch {
			case to == n:
				b.WriteString(" 10")
			case to*2/k.numas == n*2/k.numas:
				b.WriteString(" 12")
			default:
				fmt.Fprintf(&b, " %d", apart)
			}
		}
		b.WriteByte('\n')
		for d := range k.gpus {
			fmt.Fprintf(&b, "device nvidia.com/gpu GPU-4d1f0c3a-%04d-4b5e-9c37-1f2e3d4c5b6a numa %d\n", n*k.gpus+d, n)
		}
		for d := range k.functions {
			fmt.Fprintf(&b, "device %s %s numa %d\n", vf, address(n, 1+d), n)
		}
	}
	return topo.ParseMachine(b.String())
}

// address returns the PCI address of a virtual function on the network card of a NUMA node. Functions count from 1; 0
// is the card itself.
func address(numa, function int) string {
	return fmt.Sprintf("0000:%02x:%02x.%d", 0x11+numa*0x10, function/8, function%8)
}

// detail returns what an agent publishes about PCI functions: on every NUMA node the GPUs, a network card and a disk.
func (k kind) detail() v1alpha1.Detail {
	d := v1alpha1.Detail{Roots: map[string]string{}}
	for n := range k.numas {
		near, bus := v1alpha1.IDList(fmt.Sprint(n)), 0x11+n*0x10
		for g := range k.gpus {
			d.Functions = append(d.Functions, v1alpha1.Function{Address: fmt.Sprintf("0000:%02x:00.0", bus+1+g), Class: "gpu",
				ID: "10de:2330", Driver: "nvidia", NUMAs: near})
		}
		d.Functions = append(d.Functions,
			v1alpha1.Function{Address: address(n, 0), Class: "nic", ID: "15b3:1021", Driver: "mlx5_core", NUMAs: near,
				Virtual: int32(k.functions), VirtualDriver: "vfio-pci"},
			v1alpha1.Function{Address: fmt.Sprintf("0000:%02x:00.0", bus+8), Class: "nvme", ID: "144d:a80a",
				Driver: "nvme", NUMAs: near})
		for f := range k.functions {
			d.Roots[address(n, 1+f)] = fmt.Sprintf("pci0000:%02x", bus-1)
		}
	}
	return d
}

func (k kind) rules() place.Rules {
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA, MaxNUMAs: 8},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, idset.CPU(k.cpus()/2))},
		Memory:   place.MemoryRules{Static: true},
	}
	for n := range k.numas {
		r.Memory.Reserved = append(r.Memory.Reserved, place.Reserved{NUMA: idset.NUMA(n), Kind: topo.Memory, Bytes: 1 << 30})
	}
	return r
}

// wishes returns three variants of the i-th pod; the first one that fits is used. In the first variant, many pods
// request a virtual function and some a GPU; the second one lacks the device; the third one shares CPUs, and holds
// memory only. Every other pod has a second container.
func wishes(i int) (out []*place.Pod) {
	full := pod(2, 4, 0, 0)
	switch {
	case i%9 == 4:
		full.Containers[0].Devices = []place.Count{{Resource: "nvidia.com/gpu", N: 1}}
	case i%3 == 0:
		full.Containers[0].Devices = []place.Count{{Resource: vf, N: 1}}
	}
	shared := pod(0, 2, 0, 0)
	shared.Containers[0].MilliCPU = 500
	for _, p := range []*place.Pod{full, pod(2, 4, 0, 0), shared} {
		if i%2 == 1 {
			c := place.Container{Name: "proxy", MilliCPU: 100, Memory: []place.Amount{{Kind: topo.Memory, Bytes: 128 << 20}}}
			p.Containers = append(p.Containers, c)
		}
		out = append(out, p)
	}
	return out
}

// node returns a node with this many pods, each placed as its kubelet would place it. It fails if one does not fit.
func (k kind) node(pods int) (*state.Node, error) {
	m, err := k.machine()
	if err != nil {
		return nil, err
	}
	n := &state.Node{Name: "worker-00042", Machine: m, Rules: k.rules()}
	n.Usage = place.NewUsage(m, n.Rules)
	for i := range pods {
		var v place.Verdict
		for _, p := range wishes(i) {
			if v = place.Place(n.Usage, p); v.Fits() {
				break
			}
		}
		if !v.Fits() {
			return nil, fmt.Errorf("machine of %d CPUs: no room for pod %d of %d", k.cpus(), i, pods)
		}
		n.Usage = n.Usage.Hold(v.Holdings...)
		n.Entries = append(n.Entries, state.Entry{Source: state.Observed, Holdings: v.Holdings, Pod: state.PodID{
			UID: fmt.Sprintf("6f0e8a52-3b1d-4c7f-9d2e-%012d", i), Namespace: "team-payments",
			Name: fmt.Sprintf("inference-5d8f7c9b6d-%05d", i)}})
	}
	return n, nil
}

// owner returns the owner reference that an agent adds to its objects.
func owner(node string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node,
		UID: "0b6a5d1e-7c2f-4a39-8e10-5f4d3c2b1a09"}}
}

// layout returns the object that an agent applies.
func (k kind) layout(n *state.Node) (*v1alpha1.NodeLayout, error) {
	l := v1alpha1.FromCore(n.Name, n.Machine, n.Rules, n.Entries, nil)
	l.Describe(k.detail())
	l.Rules.From = v1alpha1.FromKubelet
	l.Kubelet = v1alpha1.Kubelet{Version: synthetic.KubeletVersion(),
		Started: metav1.NewMicroTime(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))}
	l.Sequence = 1<<20 + 4711
	l.OwnerReferences = owner(n.Name)
	l.Agent = v1alpha1.Agent{ID: "3f9d0c7e-52ab-4e16-b1a8-90c4d7e6f512",
		Since: metav1.NewMicroTime(time.Date(2026, 11, 21, 5, 30, 0, 123456000, time.UTC))}
	if _, err := l.Core(); err != nil {
		return nil, fmt.Errorf("layout of %d pods: %w", len(n.Entries), err)
	}
	return l, nil
}

func topology(n *state.Node) *v1alpha2.NodeResourceTopology {
	o := nrt.FromCore(n)
	o.OwnerReferences = owner(n.Name)
	return o
}
