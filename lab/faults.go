package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
)

// This file has the functions that cause faults in a running cluster, such as a lost report or a killed kubelet, and
// end them. Most send an order to the process of a node, and return when it has been carried out.

// StopAgent ends the agent of a node, as if its pod were deleted. If none runs, it does nothing.
func (c *Cluster) StopAgent(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doStopAgent, Node: node})
}

// StartAgent starts the agent of a node, unless it runs.
func (c *Cluster) StartAgent(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doStartAgent, Node: node})
}

// HoldReport makes the next report of a node's agent fail, once: the report is kept, and the agent gets the error of
// a broken connection.
func (c *Cluster) HoldReport(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doHold, Node: node})
}

// DeliverReport sends the report that HoldReport kept, so it arrives after newer ones. If none has been kept yet, the
// next report does not fail any more.
func (c *Cluster) DeliverReport(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doDeliver, Node: node})
}

// HangAgent makes requests of a node's agent hang until AnswerAgent is called or they time out. Open watches
// continue.
func (c *Cluster) HangAgent(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doHang, Node: node})
}

// AnswerAgent ends what HangAgent began.
func (c *Cluster) AnswerAgent(ctx context.Context, node string) error {
	return c.send(ctx, order{Do: doAnswer, Node: node})
}

// ChangeMachine changes the machine of a node while its kubelet runs. The kubelet keeps the machine of its start; the
// agent reads the changed one. The changed machine is the kubelet's without the CPUs in offline. On every NUMA node,
// the number of hugepages of each existing size is larger by pages, which may be negative. With no CPUs and 0 pages,
// or after a restart of the kubelet, the agent reads the kubelet's machine again.
func (c *Cluster) ChangeMachine(ctx context.Context, node string, offline idset.Set[idset.CPU], pages int64) error {
	return c.send(ctx, order{Do: doChange, Node: node, Offline: offline, Pages: pages})
}

// FinishPod ends the running containers of a pod with success. It returns an error if the pod does not run on the node.
func (c *Cluster) FinishPod(ctx context.Context, node, uid string) error {
	return c.send(ctx, order{Do: doFinish, Node: node, Pod: uid})
}

// RestartKubelet kills the process of a node's kubelet and agent, and starts it again. Containers continue to run.
// yaml is the new KubeletConfiguration, as an administrator writes it; empty keeps the old one. The node needs a
// process of its own, by [Config.Apart] or [Node.Apart]. RestartKubelet returns when the new process runs; orders to
// the node fail until its kubelet has started.
func (c *Cluster) RestartKubelet(ctx context.Context, node, yaml string) error {
	return c.replaceKubelet(node, yaml, nil)
}

// ChangeRelease restarts a kubelet as RestartKubelet does, as a kubelet of another release of Kubernetes.
// [Config.Programs] must have the program for that release.
func (c *Cluster) ChangeRelease(ctx context.Context, node, release string) error {
	return c.replaceKubelet(node, "", &release)
}

// replaceKubelet kills a node's process and starts another one. An empty yaml keeps the configuration, and a nil
// release keeps the release.
func (c *Cluster) replaceKubelet(node, yaml string, release *string) error {
	at := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == node })
	if at >= 0 && !c.apart(c.Nodes[at]) {
		return fmt.Errorf("restart kubelet of node %s: its process has other nodes too", node)
	}
	old, err := c.processes.child(node)
	if err != nil {
		return err
	}
	m := c.described[node]
	if yaml != "" {
		if m, err = machines.Parse(m.Name, m.Text, yaml); err != nil {
			return fmt.Errorf("restart kubelet of node %s: %w", node, err)
		}
	}
	if err := old.kill(); err != nil {
		return err
	}
	c.described[node] = m
	n := &c.Nodes[at]
	if release != nil {
		n.Release = *release
	}
	if err := c.startProcess(*n); err != nil {
		return fmt.Errorf("restart kubelet of node %s: %w", node, err)
	}
	return nil
}

// NodeErr returns why the process of a node ended by itself, with the end of its log. It returns nil while the
// process runs. RestartKubelet starts the node again.
func (c *Cluster) NodeErr(node string) error {
	p, err := c.processes.child(node)
	if err != nil {
		return err
	}
	return p.failure()
}

// RestartAPIServer ends the API server and starts it again, at the same address and with the same data; etcd continues
// to run.
func (c *Cluster) RestartAPIServer(ctx context.Context) error { return c.plane.Restart(ctx) }

// FollowStore calls a function for every write to the API server's store under a prefix; see
// [control.Plane.FollowStore].
func (c *Cluster) FollowStore(prefix string, each func(control.Change)) (stop func(), err error) {
	return c.plane.FollowStore(prefix, each)
}

// KubeletYAML returns the KubeletConfiguration of a node as it was written.
func (c *Cluster) KubeletYAML(node string) string { return c.described[node].YAML }

// send sends an order to the process of a node, and returns the error of the order.
func (c *Cluster) send(ctx context.Context, o order) error {
	p, err := c.processes.child(o.Node)
	if err != nil {
		return err
	}
	if err := p.send(ctx, o); err != nil {
		return fmt.Errorf("node %s: %s: %w", o.Node, o.Do, err)
	}
	return nil
}

// send sends an order and waits for the answer. It sends one order at a time. If ctx ends while it waits, it must not
// be called again, because the late answer would be taken for the answer to the next order.
func (c *child) send(ctx context.Context, o order) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	if err := json.NewEncoder(c.stdin).Encode(o); err != nil {
		select {
		case <-c.done: // the pipe closes a moment earlier than done
		case <-ctx.Done():
		}
		return errors.Join(fmt.Errorf("give order: %w", err), c.failure())
	}
	got := make(chan error, 1)
	go func() {
		var a answer
		err := c.answers.Decode(&a)
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		got <- err
	}()
	select {
	case err := <-got:
		return err
	case <-c.done:
		return errors.Join(errors.New("the process has ended"), c.failure())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
