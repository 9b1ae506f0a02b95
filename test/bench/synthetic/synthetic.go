// Package synthetic makes the clusters on which schedulers are compared: nodes of a few kinds of machines with running
// pods, and arriving pods.
//
// Invariant: the same size and seed give the same cluster. Its nodes, pods, layouts and NodeResourceTopologies agree
// with each other. Every pod holds what a kubelet would have given it if the node's pods had arrived in their order.
// The package refuses sizes that it cannot fill, and does not depend on schedulers.
package synthetic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/nrt"
)

// Bounds of a cluster.
const (
	MaxNodes = 100_000
	MaxFull  = 97 // percent; the last free CPUs are in pieces that are too small for any shape
)

// Size is the size and the load of a cluster.
type Size struct {
	Nodes int // 1..MaxNodes
	// Full is the used share of all CPUs, in percent, 0..MaxFull. The shares of single nodes are spread evenly around
	// it: in a cluster that is 95 % full, each node is between 90 and 100 % full.
	Full int
	// NUMAs is the number of NUMA nodes of every machine: 1, 2, 4, 8 or 16 equal ones, or 36, where only two have CPUs,
	// memory and devices. All machines then have the same total size. 0 means a mix of different machines.
	NUMAs int
}

func (s Size) check() error {
	if s.Nodes < 1 || s.Nodes > MaxNodes || s.Full < 0 || s.Full > MaxFull {
		return fmt.Errorf("make cluster of %d nodes, %d %% full: 1 to %d nodes and at most %d %% are possible", s.Nodes,
			s.Full, MaxNodes, MaxFull)
	}
	if !slices.Contains([]int{0, 1, 2, 4, 8, 16, 36}, s.NUMAs) {
		return fmt.Errorf("make machines of %d NUMA nodes: 1, 2, 4, 8, 16 and 36 are possible", s.NUMAs)
	}
	return nil
}

// Cluster is a static cluster: the layouts have what all running pods hold. Objects share parts, so a caller makes a
// deep copy before it changes one.
type Cluster struct {
	Nodes []*v1.Node
	// Pods are bound and running, in the order of their bindings: node by node.
	Pods []*v1.Pod
	// States are the nodes' states in a ledger, in the order of Nodes.
	States []*state.Node

	kinds []*kind // of each node
	seed  uint64
}

// Make makes a cluster. It returns an error that names a number that is out of bounds.
func Make(s Size, seed uint64) (*Cluster, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	kinds, err := mixedKinds()
	if s.NUMAs > 0 {
		kinds, err = kindsWithNUMAs(s.NUMAs)
	}
	if err != nil {
		return nil, err
	}
	shapes, err := newShapes()
	if err != nil {
		return nil, err
	}
	c := &Cluster{seed: seed}
	for i := range s.Nodes {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		k := pick(r, kinds, func(k *kind) int { return k.share })
		c.add(r, k, shapes, s.Full)
	}
	return c, nil
}

// add makes a node and its pods.
func (c *Cluster) add(r *rand.Rand, k *kind, shapes []*shape, full int) {
	name := fmt.Sprintf("node-%05d", len(c.Nodes))
	f := filling{kind: k, usage: k.empty, target: spread(r, full) * float64(k.allocatable.Cpu().MilliValue())}
	n := &state.Node{Name: name, Quality: state.Exact, Machine: k.Machine.Topo, Rules: k.rules}
	for _, s := range f.fill(r, shapes) {
		p := s.shape.runningPod(name, len(c.Pods))
		c.Pods = append(c.Pods, p)
		if len(s.holdings) > 0 {
			n.Entries = append(n.Entries, state.Entry{Pod: kube.ID(p), Source: state.Observed, Holdings: s.holdings})
		}
	}
	n.Usage = f.usage
	c.States, c.kinds = append(c.States, n), append(c.kinds, k)
	c.Nodes = append(c.Nodes, k.node(name, len(c.Nodes)))
}

// spread draws the share of a node's CPUs to use, from 0 to 1. The shares of many nodes are spread evenly, and their
// mean is full percent.
func spread(r *rand.Rand, full int) float64 {
	lowest := max(0, 2*full-100)
	return (float64(lowest) + r.Float64()*2*float64(full-lowest)) / 100
}

// Machine returns the hardware of the node at position i, and the configuration of its kubelet.
func (c *Cluster) Machine(i int) machines.Machine { return c.kinds[i].Machine }

// Layout returns the complete layout of the node at position i.
func (c *Cluster) Layout(i int) *v1alpha1.NodeLayout {
	n := c.States[i]
	return v1alpha1.FromCore(n.Name, n.Machine, n.Rules, n.Entries, nil)
}

// Base returns the LayoutBase that the agent of the node at position i has written, with what all its pods hold.
func (c *Cluster) Base(i int) *v1alpha1.LayoutBase {
	return v1alpha1.BaseOf(c.layoutOf(i, c.States[i].Entries, 1))
}

// layoutOf returns the complete layout that the agent of the node at position i writes when the node has these
// holdings.
func (c *Cluster) layoutOf(i int, entries []state.Entry, sequence int64) *v1alpha1.NodeLayout {
	n := c.States[i]
	l := v1alpha1.FromCore(n.Name, n.Machine, n.Rules, entries, nil)
	l.Sequence, l.Agent.ID, l.Kubelet.Version = sequence, "agent", KubeletVersion()
	return l
}

// KubeletVersion returns the release of all kubelets, in the form of a Node's status.
func KubeletVersion() string { return "v" + place.DefaultRelease.String() + ".0" }

// Difference returns the layout that the agent of the node at position i writes when the node has these holdings. It
// refers to the node's base where that is possible, and is complete otherwise. others is the number of layouts that
// the agent has written since the base.
func (c *Cluster) Difference(i int, entries []state.Entry, others int64) *v1alpha1.NodeLayout {
	l := c.layoutOf(i, entries, 2+others)
	if d, ok := l.Since(c.Base(i)); ok {
		return d
	}
	return l
}

// Topology returns what an exporter on the node at position i publishes, with the fingerprint of its pods.
func (c *Cluster) Topology(i int) *v1alpha2.NodeResourceTopology { return nrt.FromCore(c.States[i]) }

// Block is the number of pods after which each shape has arrived in its proportion.
const Block = 20

// Arrivals returns the first n arriving pods, unbound. A longer list begins with the same pods. All blocks of [Block]
// pods have the same shapes in different orders, so that their costs can be compared.
func (c *Cluster) Arrivals(n int) ([]*v1.Pod, error) {
	shapes, err := newShapes()
	if err != nil {
		return nil, err
	}
	var block []*shape
	for _, s := range shapes {
		for range s.perBlock {
			block = append(block, s)
		}
	}
	r := rand.New(rand.NewPCG(c.seed, 1<<63))
	out := make([]*v1.Pod, 0, n)
	for i := range n {
		if i%len(block) == 0 {
			r.Shuffle(len(block), func(a, b int) { block[a], block[b] = block[b], block[a] })
		}
		out = append(out, block[i%len(block)].arrivingPod(i))
	}
	return out, nil
}

// pick draws one of several by their shares. At least one share is not 0.
func pick[T any](r *rand.Rand, all []T, share func(T) int) T {
	sum := 0
	for _, x := range all {
		sum += share(x)
	}
	at := r.IntN(sum)
	for _, x := range all {
		if at -= share(x); at < 0 {
			return x
		}
	}
	return all[len(all)-1]
}

// placed is a pod on a node.
type placed struct {
	shape    *shape
	holdings []place.Holding
}

// filling is a node while pods are added.
type filling struct {
	*kind
	usage  *place.Usage
	target float64         // thousandths of CPUs
	sum    v1.ResourceList // requests
}

// fill adds pods until no shape brings the node closer to its target. It does not retry a shape that did not fit.
func (f *filling) fill(r *rand.Rand, shapes []*shape) (out []placed) {
	var candidates []*shape
	for _, s := range shapes {
		if s.weight > 0 && s.servedBy(f.allocatable) {
			candidates = append(candidates, s)
		}
	}
	f.sum = v1.ResourceList{}
	for len(candidates) > 0 {
		s := pick(r, candidates, func(s *shape) int { return s.weight })
		hs, ok := f.addPod(s)
		if !ok {
			candidates = without(candidates, s)
			continue
		}
		out = append(out, placed{s, hs})
	}
	return out
}

func without(all []*shape, gone *shape) (out []*shape) {
	for _, s := range all {
		if s != gone {
			out = append(out, s)
		}
	}
	return out
}

// addPod adds a pod and returns its holdings, if the node has room for it and it brings the node closer to its
// target. Otherwise it returns false.
func (f *filling) addPod(s *shape) ([]place.Holding, bool) {
	gap := f.target - float64(f.sum.Cpu().MilliValue())
	if float64(s.requests.Cpu().MilliValue()) > 2*gap {
		return nil, false
	}
	sum := v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(1+f.sum.Pods().Value(), resource.DecimalSI)}
	for name, q := range f.sum {
		if name != v1.ResourcePods {
			sum[name] = q.DeepCopy()
		}
	}
	for name, q := range s.requests {
		have := sum[name]
		have.Add(q)
		sum[name] = have
	}
	for name, q := range sum {
		if limit := f.allocatable[name]; q.Cmp(limit) > 0 {
			return nil, false
		}
	}
	v := place.Place(f.usage, s.place)
	if !v.Fits() {
		return nil, false
	}
	f.sum, f.usage = sum, f.usage.Hold(v.Holdings...)
	return v.Holdings, true
}

// creationTime is the creation time of all objects, equal for all clusters.
func creationTime() metav1.Time { return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }

// uid returns a UID for the n-th object of a kind.
func uid(sort, n int) types.UID {
	return types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", sort, n))
}
