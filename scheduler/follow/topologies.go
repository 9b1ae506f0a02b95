package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/state"
)

// lookup is the interval at which the scheduler checks whether NodeResourceTopologies and Numatopologies can be read.
const lookup = 10 * time.Second

// findTopologies sets s.topology to the resource of NodeResourceTopologies, or to nil if the API server does not
// serve them or does not let this scheduler read them. This is decided at the start for two reasons: the framework
// accepts no informers later, and an informer that cannot read would keep the scheduler from starting.
func (s *Sources) findTopologies(ctx context.Context) (err error) {
	var why string
	if s.topology, why, err = findTopologies(ctx, s.config); why != "" {
		s.logger.Info("NodeResourceTopologies are not followed yet: nodes without a layout are unknown", "reason", why)
	}
	return err
}

// followTopologies fills the ledger from an informer of NodeResourceTopologies. If they are not served yet, it starts
// the informer once they are.
func (s *Sources) followTopologies(ctx context.Context) error {
	if s.topology == nil {
		go s.await(ctx, "NodeResourceTopologies", findTopologies)
		return nil
	}
	synced, err := s.fill(*s.topology, s.Feed.Topologies())
	s.synced["NodeResourceTopologies"] = synced
	return err
}

// fill adds a handler to the informer of NodeResourceTopologies or Numatopologies. It returns a function that reports
// whether the handler has received the first list.
func (s *Sources) fill(r schema.GroupVersionResource, to cache.ResourceEventHandler) (cache.InformerSynced, error) {
	read := nrt.TypedOthers
	if r == nrt.Numatopologies() {
		read = nrt.TypedNumatopology
	}
	i := s.dynamic.ForResource(r).Informer()
	if err := i.SetTransform(read); err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.Resource, err)
	}
	h, err := i.AddEventHandler(to)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", r.Resource, err)
	}
	if _, err := i.AddEventHandler(s.topologyTimes); err != nil {
		return nil, fmt.Errorf("follow %s: %w", r.Resource, err)
	}
	return h.HasSynced, nil
}

// followNumatopologies fills the ledger from an informer of Numatopologies. If they are not served yet, it starts the
// informer once they are. The framework has no informer of Numatopologies and so no queueing hints for them; the
// handler wakes pods itself.
func (s *Sources) followNumatopologies(ctx context.Context) error {
	r, why, err := findNumatopologies(ctx, s.config)
	if err != nil {
		return err
	}
	if r == nil {
		s.logger.V(2).Info("Numatopologies are not followed yet", "reason", why)
		go s.await(ctx, "Numatopologies", findNumatopologies)
		return nil
	}
	s.synced["Numatopologies"], err = s.fill(*r, s.wakingHandler())
	return err
}

// finder returns a resource, or nil and the reason why it cannot be read.
type finder = func(context.Context, *rest.Config) (*schema.GroupVersionResource, string, error)

// await polls until a resource can be read, and then follows it. Somebody may install the definition, or grant the
// right, while the scheduler runs.
func (s *Sources) await(ctx context.Context, name string, find finder) {
	_ = poll.PollUntilContextCancel(ctx, lookup, false, func(ctx context.Context) (bool, error) {
		r, _, err := find(ctx, s.config)
		if err == nil && r != nil {
			_, err = s.fill(*r, s.wakingHandler())
		}
		if err != nil {
			s.logger.V(2).Info(name+" not found, will try again", "error", err.Error())
		}
		return err == nil && r != nil, nil
	})
	if ctx.Err() == nil {
		s.logger.Info(name + " are followed from now on")
		s.dynamic.Start(ctx.Done())
	}
}

// wakingHandler returns the handler for an informer that the framework does not have. Since the framework calls no
// queueing hints for its events, the handler wakes pods itself.
func (s *Sources) wakingHandler() cache.ResourceEventHandler {
	feed := s.Feed.Topologies()
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, first bool) {
			feed.OnAdd(o, first)
			s.topologyReported(nil, o)
		},
		UpdateFunc: func(before, o any) {
			feed.OnUpdate(before, o)
			s.topologyReported(before, o)
		},
		DeleteFunc: feed.OnDelete,
	}
}

// topologyRead receives a NodeResourceTopology that was read because its data was left out.
func (s *Sources) topologyRead(o *v1alpha2.NodeResourceTopology) {
	if s.Feed.Complete(o) {
		s.topologyReported(nil, o)
	}
}

// topologyUnread receives a node without a layout whose NodeResourceTopology could not be read, or, with a nil error,
// has gone.
func (s *Sources) topologyUnread(node string, err error) {
	s.Feed.Unreadable(node)
	if err != nil {
		s.logger.V(2).Info("The NodeResourceTopology of a node without a layout cannot be read, will try again", "node", node,
			"error", err.Error())
	}
}

// topologyReported wakes pods that fit the node of a changed NodeResourceTopology or Numatopology. It does nothing if
// the node is exact, because then its layout counts, or if the change concerns nothing that is read.
func (s *Sources) topologyReported(before, o any) {
	now, ok := o.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return
	}
	if old, ok := before.(*v1alpha2.NodeResourceTopology); ok && equality.Semantic.DeepEqual(old.Zones, now.Zones) &&
		slices.Equal(old.Attributes, now.Attributes) && slices.Equal(old.TopologyPolicies, now.TopologyPolicies) {
		return
	}
	if n := s.Book.Snapshot().Node(now.Name); n == nil || n.Quality == state.Estimated {
		s.options.Wake(now.Name)
	}
}

// Reported returns when the last report of a node was received: the NodeResourceTopology of an estimated node, and
// the layout of any other node. It returns the zero time if there was none.
func (s *Sources) Reported(node string) time.Time {
	if n := s.Book.Snapshot().Node(node); n != nil && n.Quality == state.Estimated {
		return s.topologyTimes.of(node)
	}
	return s.layoutTimes.of(node)
}

// Problem returns why an object that the node published was rejected, or "". A rejected layout comes first.
func (s *Sources) Problem(node string) string {
	if why := s.Feed.Problem(node); why != "" {
		return why
	}
	return s.Feed.TopologyProblem(node)
}
