// Package exporter publishes the NodeResourceTopology of lab nodes from the kubelets' podresources API, as the
// topology updater of Node Feature Discovery and resource-topology-exporter do.
//
// Invariant: an object has only what podresources reports, and the capacities of the machine. The package does not
// decide about pods, and reads no state files. [Exporter.Change] makes it publish old or wrong data on request.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/topo"
)

// Period is how often an exporter reads podresources. Those in use read every few seconds, or when files change.
const Period = 300 * time.Millisecond

// Node is a node whose object is published.
type Node struct {
	Name          string
	Machine       *topo.Machine
	Policy, Scope string // of the kubelet's topology manager; empty means the kubelet's default
	Socket        string // of the podresources API
}

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
	client *nrt.Client
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
	last *v1alpha2.NodeResourceTopology
}

// Start publishes the objects of all nodes once, and then until Stop whenever they change.
func Start(ctx context.Context, cfg *rest.Config, nodes []Node) (*Exporter, error) {
	client, err := nrt.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("start exporter: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &Exporter{client: client, cancel: cancel, nodes: map[string]*exported{}}
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
	switch m {
	case Absent:
		n.last = nil
		if err := e.client.Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete NodeResourceTopology %s: %w", node, err)
		}
	case Full, Empty:
		o := n.last.DeepCopy()
		for i := range o.Zones {
			for k := range o.Zones[i].Resources {
				r := &o.Zones[i].Resources[k]
				r.Available = r.Allocatable.DeepCopy()
				if m == Empty {
					r.Available.Set(0)
				}
			}
		}
		return e.write(ctx, o)
	}
	return nil
}

// Configure sets the settings of a node's topology manager, which has been restarted.
func (e *Exporter) Configure(node, policy, scope string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.nodes[node]; n != nil {
		n.Policy, n.Scope = policy, scope
	}
}

// publish publishes the object of a node if it has changed.
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
	o := n.object(all, pods.PodResources)
	if n.last != nil && reflect.DeepEqual(o, n.last) {
		return nil
	}
	if err := e.write(ctx, o.DeepCopy()); err != nil {
		return err
	}
	n.last = o
	return nil
}

// write creates or replaces an object.
func (e *Exporter) write(ctx context.Context, o *v1alpha2.NodeResourceTopology) error {
	old, err := e.client.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = e.client.Create(ctx, o, metav1.CreateOptions{})
	case err == nil:
		o.ResourceVersion = old.ResourceVersion
		_, err = e.client.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write NodeResourceTopology %s: %w", o.Name, err)
	}
	return nil
}
