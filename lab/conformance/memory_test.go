package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// memory is a cluster without an API server: the managers of each node, and a scheduler that is called after each
// action.
type memory struct {
	c     *conformance.Case
	dir   string
	nodes []*memoryNode
	pods  []*v1.Pod // present pods, in the order of their creation
	sched scheduler
	uids  int
}

type memoryNode struct {
	name, dir string
	machine   *topo.Machine
	config    *configv1beta1.KubeletConfiguration
	managers  *kubelet.Managers
	object    *v1.Node
	published string      // the last kind of published data
	frozen    *judge.Node // the node when its data stopped
	mu        sync.Mutex  // guards pods
	pods      []*v1.Pod   // admitted, in this order
	devices   []judge.Device
	claimed   map[types.UID][]judge.Claimed
}

// scheduler binds waiting pods, and may evict others.
type scheduler func(ctx context.Context, m *memory, waiting []*v1.Pod) error

func newMemory(ctx context.Context, dir string, c *conformance.Case, s scheduler) (*memory, error) {
	m := &memory{c: c, dir: dir, sched: s}
	for i, n := range c.Nodes {
		described, err := c.MachineOf(n)
		if err != nil {
			return nil, err
		}
		node := &memoryNode{name: n.Name, dir: filepath.Join(dir, fmt.Sprint("n", i)), machine: described.Topo,
			config: described.Kubelet, claimed: map[types.UID][]judge.Claimed{}}
		if node.devices, err = n.Devices(node.machine); err != nil {
			return nil, err
		}
		if err := node.start(ctx, nil); err != nil {
			return nil, err
		}
		node.object = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name},
			Status: v1.NodeStatus{Allocatable: node.managers.Allocatable()}}
		node.object.Status.Allocatable[v1.ResourcePods] = *podCapacity
		m.nodes = append(m.nodes, node)
	}
	return m, nil
}

func (n *memoryNode) active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods)
}

func (n *memoryNode) set(pods []*v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = pods
}

func (n *memoryNode) start(ctx context.Context, states map[string][]byte) (err error) {
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		return err
	}
	n.managers, err = kubelet.Restore(ctx, n.dir, n.machine, n.config, states, n.active)
	return err
}

// restart makes new managers on the state files of the old ones.
func (n *memoryNode) restart(ctx context.Context) error {
	states, err := kubelet.ReadStates(n.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(n.managers.Stop(), os.RemoveAll(n.dir)); err != nil {
		return err
	}
	return n.start(ctx, states)
}

// view returns the node as a judge sees it.
func (n *memoryNode) view() (*judge.Node, error) {
	states, err := kubelet.ReadStates(n.dir)
	return &judge.Node{Object: n.object, Machine: n.machine, Config: n.config, States: states, Pods: n.active(),
		Claimable: n.devices, Claimed: maps.Clone(n.claimed)}, err
}

func (m *memory) node(name string) *memoryNode {
	return m.nodes[slices.IndexFunc(m.nodes, func(n *memoryNode) bool { return n.name == name })]
}

// Do implements conformance.Cluster.
func (m *memory) Do(ctx context.Context, a conformance.Action) error {
	for _, p := range a.Create {
		if err := m.create(p.DeepCopy()); err != nil {
			return err
		}
	}
	for _, name := range a.End {
		m.remove(func(p *v1.Pod) bool { return p.Name == name })
	}
	if a.Restart != nil {
		described, err := m.c.MachineOf(*a.Restart)
		if err != nil {
			return err
		}
		n := m.node(a.Restart.Name)
		n.config = described.Kubelet
		if err := n.restart(ctx); err != nil {
			return err
		}
	}
	if a.Publish != nil {
		n := m.node(a.Publish.Node)
		n.published = a.Publish.What
		var err error
		if n.frozen, err = n.view(); err != nil {
			return err
		}
	}
	var waiting []*v1.Pod
	for _, p := range m.pods {
		if p.Spec.NodeName == "" {
			waiting = append(waiting, p)
		}
	}
	return m.sched(ctx, m, waiting)
}

func (m *memory) create(p *v1.Pod) error {
	m.uids++
	p.UID, p.Namespace = types.UID(fmt.Sprint("uid-", m.uids)), "default"
	if class := p.Spec.PriorityClassName; class != "" {
		value := conformance.PriorityClasses()[class]
		p.Spec.Priority = &value
	}
	corev1.SetObjectDefaults_Pod(p)
	p.Status.QOSClass = qos.ComputePodQOS(p)
	m.pods = append(m.pods, p)
	if p.Spec.NodeName == "" {
		return nil
	}
	return m.bind(p, p.Spec.NodeName, nil)
}

// remove removes the pods that match.
func (m *memory) remove(match func(*v1.Pod) bool) {
	m.pods = slices.DeleteFunc(slices.Clone(m.pods), match)
	for _, n := range m.nodes {
		n.set(slices.DeleteFunc(n.active(), match))
		n.managers.Collect()
	}
}

// bind binds a pod with devices for its claims. The kubelet admits or refuses it at once.
func (m *memory) bind(p *v1.Pod, to string, claimed []judge.Claimed) error {
	n := m.node(to)
	view, err := n.view()
	if err != nil {
		return err
	}
	p.Spec.NodeName = to
	n.set(append(n.active(), p))
	r := n.managers.Admit(p)
	if why := view.Excludes(p); r.Admit && why != "" {
		r.Admit, r.Reason, r.Message = false, "OutOf", why
	}
	if !r.Admit {
		p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodFailed, r.Reason, r.Message
		n.set(slices.DeleteFunc(n.active(), func(q *v1.Pod) bool { return p == q }))
		n.managers.Forget(p)
		n.managers.Collect()
		return nil
	}
	n.managers.StartContainers(p)
	n.claimed[p.UID] = claimed
	p.Status.Phase = v1.PodRunning
	return nil
}

// Settled implements conformance.Cluster.
func (m *memory) Settled(context.Context) (conformance.State, error) {
	out := conformance.State{Pods: m.pods}
	for _, n := range m.nodes {
		v, err := n.view()
		if err != nil {
			return out, err
		}
		out.Nodes = append(out.Nodes, v)
	}
	return out, nil
}

func (m *memory) stop() (err error) {
	for _, n := range m.nodes {
		err = errors.Join(err, n.managers.Stop())
	}
	return err
}
