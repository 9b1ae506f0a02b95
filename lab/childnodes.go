package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/machines"
)

// Kinds of orders.
const (
	doStop       = "stop"
	doStopAgent  = "stop agent"
	doStartAgent = "start agent"
	doHold       = "hold a report"
	doDeliver    = "deliver the report"
	doFinish     = "finish a pod"
	doHang       = "answer the agent nothing"
	doAnswer     = "answer the agent"
	doChange     = "change the machine"
)

// order is an order to the child. Orders follow the job on the child's input, as JSON. The child answers each, except
// the order to stop.
type order struct {
	Do, Node string
	Pod      string // UID
	// Offline and Pages are the arguments of [Cluster.ChangeMachine].
	Offline idset.Set[idset.CPU]
	Pages   int64
}

// answer is the child's answer to an order; Error is "" if it succeeded.
type answer struct{ Error string }

// childNodes are the nodes of this child process.
type childNodes struct {
	ctx context.Context
	job job
	mu  sync.Mutex
	// nodes has the nodes that have started, by name.
	nodes map[string]*childNode
}

// childNode is one node of this child process; childNodes.mu guards it.
type childNode struct {
	info    NodeInfo
	kubelet *kubelet.Kubelet
	reports *reportDelay
	machine *hardware // the machine that the agent reads; the kubelet keeps the machine of its start
	text    string    // the description of the machine with which the kubelet started
	// stop ends the agent and waits for its end; nil if none runs.
	stop func()
}

func newChildNodes(ctx context.Context, j job) *childNodes {
	return &childNodes{ctx: ctx, job: j, nodes: map[string]*childNode{}}
}

// start starts all nodes.
func (s *childNodes) start() error {
	described := make([]machines.Machine, len(s.job.Nodes))
	configs := make([]*configv1beta1.KubeletConfiguration, len(s.job.Nodes))
	for i, n := range s.job.Nodes {
		m, err := machines.Parse(n.Machine, n.Text, n.YAML)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		described[i], configs[i] = m, m.Kubelet
		if n.Pinned {
			configs[i] = withoutManagers(m.Kubelet)
		}
	}
	if err := kubelet.PrepareProcess(configs...); err != nil {
		return err
	}
	for i, n := range s.job.Nodes {
		nri, pins, err := pinPaths(n)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		k, err := kubelet.Start(s.ctx, kubelet.Options{
			Node: n.Name, Machine: described[i].Topo, Config: configs[i], Client: n.Access.config(), Root: n.Root,
			Labels:  map[string]string{"kubernetes.io/hostname": n.Name, "lab.tenon.sh/machine": n.Machine},
			Durable: s.job.Durable, NRI: nri,
		})
		if err != nil {
			return err
		}
		machine := &hardware{}
		machine.machine.Store(described[i].Topo)
		one := &childNode{kubelet: k, reports: &reportDelay{}, machine: machine, text: n.Text, info: NodeInfo{
			Name: n.Name, Machine: machine, KubeletConfigPath: k.ConfigPath,
			PodResourcesSocket: k.PodResourcesSocket, StateDir: k.Root, PinConfig: pins, NRI: nri,
			Numatopology: s.job.Volcano,
		}}
		s.mu.Lock()
		s.nodes[n.Name] = one
		if s.job.Agents {
			s.startAgent(one)
		}
		s.mu.Unlock()
	}
	return nil
}

// pinPaths returns, for a node whose agent pins containers, the path of the container runtime's socket and the path
// of the agent's rules, which it writes. For other nodes both are "".
func pinPaths(n jobNode) (nri, pins string, err error) {
	if !n.Pinned {
		return "", "", nil
	}
	pins = filepath.Join(n.Root, "pin.yaml")
	if err := os.MkdirAll(n.Root, 0o755); err != nil {
		return "", "", err
	}
	return filepath.Join(n.Root, "nri.sock"), pins, os.WriteFile(pins, []byte(n.YAML), 0o600)
}

// withoutManagers returns c with the same reservations, but with policies under which a kubelet aligns nothing.
func withoutManagers(c *configv1beta1.KubeletConfiguration) *configv1beta1.KubeletConfiguration {
	out := c.DeepCopy()
	out.CPUManagerPolicy, out.CPUManagerPolicyOptions = "none", nil
	out.MemoryManagerPolicy, out.ReservedMemory = "None", nil
	out.TopologyManagerPolicy, out.TopologyManagerScope, out.TopologyManagerPolicyOptions = "none", "container", nil
	return out
}

// startAgent starts the agent of a node, unless it runs.
func (s *childNodes) startAgent(n *childNode) {
	if n.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	n.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		runAgent(ctx, s.job.Admin.config(), n.info, n.reports)
	}()
}

// carryOut carries out orders until it reads the order to stop, and then returns true. It returns false if the parent
// has died: the input ends, or an answer cannot be written.
func (s *childNodes) carryOut(orders *json.Decoder, answers *json.Encoder) (stop bool) {
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return false // the end of the pipe, or a parent that died while it wrote
		}
		if o.Do == doStop {
			return true
		}
		var a answer
		if err := s.do(o); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return false
		}
	}
}

func (s *childNodes) do(o order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[o.Node]
	if n == nil {
		return errors.New("the node has not started yet")
	}
	switch o.Do {
	case doStartAgent:
		s.startAgent(n)
	case doStopAgent:
		if n.stop != nil {
			n.stop()
			n.stop = nil
		}
	case doHold:
		n.reports.holdNext()
	case doDeliver:
		return n.reports.deliver(s.ctx)
	case doFinish:
		return n.kubelet.Finish(o.Pod)
	case doHang:
		n.reports.hang()
	case doAnswer:
		n.reports.answer()
	case doChange:
		return n.machine.change(n.text, o.Offline, o.Pages)
	default:
		return fmt.Errorf("unknown order %q", o.Do)
	}
	return nil
}
