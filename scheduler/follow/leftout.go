package follow

import (
	"context"
	"sync"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenon-numa/tenon/cluster/nrt"
)

// completer reads, as a whole, NodeResourceTopologies that arrived without their data. Tenon's agents write a layout
// for this program, and the same data as a topology for other programs. To save memory, the informer drops the data
// of these topologies. It is needed only while the node has no valid layout.
type completer struct {
	// nodes makes the queue at its first call. A queue has goroutines, which only the end of run ends.
	nodes func() workqueue.TypedRateLimitingInterface[string]
	topos dynamic.Interface
	// onRead is called with each topology that was read. onUnread is called with a node whose topology cannot be
	// read, and the error, or was not found, and nil.
	onRead   func(*v1alpha2.NodeResourceTopology)
	onUnread func(node string, err error)
}

// maxRead bounds one reading, so that a slow answer does not delay all nodes for long; maxReadAll bounds the reading of
// all topologies.
const (
	maxRead    = 10 * time.Second
	maxReadAll = time.Minute
)

func newCompleter() *completer {
	nodes := func() workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))
	}
	return &completer{nodes: sync.OnceValue(nodes)}
}

// fewReads bounds the topologies that readFirst reads one by one. Beyond that, a list of all is cheaper.
const fewReads = 50

// readFirst reads the topologies of the given nodes before the ledger is used, and passes them to use. It returns the
// first error, because the feed will ask for the missing topologies again.
func (c *completer) readFirst(ctx context.Context, nodes []string, use func(*v1alpha2.NodeResourceTopology)) error {
	if len(nodes) > fewReads {
		ctx, cancel := context.WithTimeout(ctx, maxReadAll)
		defer cancel()
		return nrt.EachOf(ctx, c.topos, use)
	}
	for _, node := range nodes {
		o, err := c.get(ctx, node)
		if err != nil {
			return err
		}
		if o != nil {
			use(o)
		}
	}
	return nil
}

// need queues a node whose topology is needed. It does not block.
func (c *completer) need(node string) { c.nodes().Add(node) }

// run reads the topologies that are needed, one after the other, until the context ends. A topology that cannot be read
// is tried again, ever more seldom.
func (c *completer) run(ctx context.Context) {
	nodes := c.nodes()
	go func() {
		<-ctx.Done()
		nodes.ShutDown()
	}()
	for {
		node, stop := nodes.Get()
		if stop {
			return
		}
		o, err := c.get(ctx, node)
		switch {
		case err != nil:
			c.onUnread(node, err)
			nodes.AddRateLimited(node)
		case o != nil:
			c.onRead(o)
			nodes.Forget(node)
		default: // the topology was deleted meanwhile
			c.onUnread(node, nil)
			nodes.Forget(node)
		}
		nodes.Done(node)
	}
}

func (c *completer) get(ctx context.Context, node string) (*v1alpha2.NodeResourceTopology, error) {
	ctx, cancel := context.WithTimeout(ctx, maxRead)
	defer cancel()
	return nrt.Get(ctx, c.topos, node)
}
