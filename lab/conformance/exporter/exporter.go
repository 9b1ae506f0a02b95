// Package exporter publishes facts about lab nodes for schedulers: NodeResourceTopologies, as the topology updater of
// Node Feature Discovery and resource-topology-exporter do, and Numatopologies, as Volcano's resource-exporter does.
//
// Invariant: an object has only what the kubelet's podresources API reports, what the machine has, and settings of the
// kubelet. The package does not decide about pods, and reads no state files. [Exporter.Change] makes it publish old or
// wrong data on request.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/numatopo"
)

// Period is how often an exporter reads podresources. Those in use read every few seconds, or when files change.
const Period = 300 * time.Millisecond

// Node is a node whose object is published.
type Node struct {
	Name    string
	Machine *topo.Machine
	Kubelet *configv1beta1.KubeletConfiguration
	Socket  string // of the podresources API
}

// Kinds are the kinds of objects that are published.
type Kinds struct{ NodeResourceTopology, Numatopology bool }

// Mode is what is published about a node.
type Mode string

// The modes. All but Normal keep one object until the mode changes again.
const (
	Normal  Mode = ""
	Stopped Mode = "stop"    // the last object stays
	Absent  Mode = "nothing" // no object
	Full    Mode = "full"    // everything is available
	Empty   Mode = "empty"   // nothing is available
)

// Exporter publishes the objects of several nodes.
type Exporter struct {
	kinds  []kind
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu    sync.Mutex // guards the nodes
	nodes map[string]*exported
}

type exported struct {
	Node
	api  podresources.PodResourcesListerClient
	conn *grpc.ClientConn
	mode Mode
	last facts
}

// facts are the answers of a kubelet's podresources API.
type facts struct {
	all  *podresources.AllocatableResourcesResponse
	pods []*podresources.PodResources
}

// kind is a kind of objects.
type kind interface {
	// write creates or replaces the object of a node if it has changed. The mode is Normal, Full or Empty.
	write(ctx context.Context, n *exported, f facts, m Mode) error
	// remove deletes the object of a node if it exists.
	remove(ctx context.Context, node string) error
}

// Start publishes the objects of all nodes once, and then until Stop whenever they change.
func Start(ctx context.Context, cfg *rest.Config, kinds Kinds, nodes []Node) (*Exporter, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &Exporter{cancel: cancel, nodes: map[string]*exported{}}
	if err := e.addKinds(cfg, kinds); err != nil {
		cancel()
		return nil, fmt.Errorf("start exporter: %w", err)
	}
	for _, n := range nodes {
		conn, err := grpc.NewClient("unix://"+n.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start exporter of node %s: %w", n.Name, err), e.Stop())
		}
		one := &exported{Node: n, conn: conn, api: podresources.NewPodResourcesListerClient(conn)}
		e.nodes[n.Name] = one
		if err := e.publish(ctx, one); err != nil {
			return nil, errors.Join(err, e.Stop())
		}
		e.wait.Go(func() { e.repeat(running, one) })
	}
	return e, nil
}

// repeat publishes the object of a node until ctx ends. It retries after errors, since kubelets restart.
func (e *Exporter) repeat(ctx context.Context, n *exported) {
	t := time.NewTicker(Period)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_ = e.publish(ctx, n)
		case <-ctx.Done():
			return
		}
	}
}

// Stop stops the exporter. The objects stay.
func (e *Exporter) Stop() error {
	e.cancel()
	e.wait.Wait()
	var errs []error
	for _, n := range e.nodes {
		errs = append(errs, n.conn.Close())
	}
	return errors.Join(errs...)
}

// Change changes what is published about a node.
func (e *Exporter) Change(ctx context.Context, node string, m Mode) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.nodes[node]
	if n == nil {
		return fmt.Errorf("exporter has no node %q", node)
	}
	n.mode = m
	if m == Normal || m == Stopped {
		return nil
	}
	for _, k := range e.kinds {
		var err error
		if m == Absent {
			err = k.remove(ctx, node)
		} else {
			err = k.write(ctx, n, n.last, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Configure sets the configuration of a node's kubelet, which has been restarted.
func (e *Exporter) Configure(node string, kubelet *configv1beta1.KubeletConfiguration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.nodes[node]; n != nil {
		n.Kubelet = kubelet
	}
}

// publish publishes the objects of a node if they have changed.
func (e *Exporter) publish(ctx context.Context, n *exported) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.mode != Normal {
		return nil
	}
	pods, err := n.api.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return fmt.Errorf("list resources of pods on node %s: %w", n.Name, err)
	}
	all, err := n.api.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return fmt.Errorf("get allocatable resources of node %s: %w", n.Name, err)
	}
	n.last = facts{all, pods.PodResources}
	for _, k := range e.kinds {
		if err := k.write(ctx, n, n.last, Normal); err != nil {
			return err
		}
	}
	return nil
}

// addKinds makes clients for the kinds.
func (e *Exporter) addKinds(cfg *rest.Config, kinds Kinds) error {
	if kinds.NodeResourceTopology {
		client, err := nrt.NewClient(cfg)
		if err != nil {
			return err
		}
		e.kinds = append(e.kinds, &topologies{client, map[string]*v1alpha2.NodeResourceTopology{}})
	}
	if kinds.Numatopology {
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			return err
		}
		e.kinds = append(e.kinds, &numatopologies{client.Resource(numatopology), map[string]numatopo.Spec{}})
	}
	return nil
}
