package follow

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenon-numa/tenon/cluster/nrt"
)

// completer reads NodeResourceTopologies as a whole that arrived without their data. Tenon's agents write a topology
// for other programs, and a layout for this one, so a large cluster's topologies are not kept twice. The topology is
// needed only while the node has no valid layout.
type completer struct {
	nodes workqueue.TypedRateLimitingInterface[string]
	topos dynamic.Interface
	to    cache.ResourceEventHandler
	// unread is called with a node whose topology cannot be read, with the error, or was not found.
	unread func(node string, err error)
}

func newCompleter() *completer {
	return &completer{nodes: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))}
}

// need asks for the topology of a node. It does not block.
func (c *completer) need(node string) { c.nodes.Add(node) }

// run reads the topologies that are needed, one after the other, until the context ends. A topology that cannot be read
// is tried again, ever more seldom.
func (c *completer) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		c.nodes.ShutDown()
	}()
	for {
		node, stop := c.nodes.Get()
		if stop {
			return
		}
		o, err := nrt.Get(ctx, c.topos, node)
		switch {
		case err != nil:
			c.unread(node, err)
			c.nodes.AddRateLimited(node)
		case o != nil:
			c.to.OnAdd(o, false)
			c.nodes.Forget(node)
		default: // it was deleted meanwhile
			c.unread(node, nil)
			c.nodes.Forget(node)
		}
		c.nodes.Done(node)
	}
}
