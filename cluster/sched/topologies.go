package sched

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
)

// lookup is how often it is looked whether NodeResourceTopologies are served by now.
const lookup = 10 * time.Second

// findTopologies sets topology to where the API server serves NodeResourceTopologies, or to nil where it does not, or
// does not let this scheduler read them. The framework takes no informer later, and an informer of what cannot be read
// would keep the scheduler from ever starting.
func (s *sources) findTopologies(ctx context.Context) (err error) {
	var why string
	if s.topology, why, err = findTopologies(ctx, s.config); why != "" {
		s.logger.Info("NodeResourceTopologies are not followed yet: nodes without a layout are unknown", "reason", why)
	}
	return err
}

// findTopologies returns where NodeResourceTopologies can be read, or nil and why they cannot.
func findTopologies(ctx context.Context, cfg *rest.Config) (r *schema.GroupVersionResource, why string, err error) {
	known, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("make discovery client: %w", err)
	}
	for _, r := range nrt.Resources() {
		list, err := known.ServerResourcesForGroupVersion(r.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("find resources of %s: %w", r.GroupVersion(), err)
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == r.Resource {
				return readable(ctx, cfg, r)
			}
		}
	}
	return nil, "the API server does not serve them", nil
}

// readable returns the resource if this scheduler may list it.
func readable(
	ctx context.Context,
	cfg *rest.Config,
	r schema.GroupVersionResource,
) (*schema.GroupVersionResource, string, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("make client for %s: %w", r.GroupResource(), err)
	}
	_, err = client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", r.GroupResource(), err)
	}
	return &r, "", nil
}

// eventResource is how the framework names the informer of a resource: resource.version.group.
func eventResource(r schema.GroupVersionResource) fwk.EventResource {
	return fwk.EventResource(r.Resource + "." + r.Version + "." + r.Group)
}

// followTopologies lets an informer of NodeResourceTopologies fill the book. Where they are not served yet, they are
// followed once they are.
func (s *sources) followTopologies(ctx context.Context) error {
	if s.topology == nil {
		go s.awaitTopologies(ctx)
		return nil
	}
	synced, err := s.fill(*s.topology, s.Feed.Topologies())
	s.synced["NodeResourceTopologies"] = synced
	return err
}

// fill adds a handler to the informer of NodeResourceTopologies.
func (s *sources) fill(r schema.GroupVersionResource, to cache.ResourceEventHandler) (cache.InformerSynced, error) {
	i := s.dynamic.ForResource(r).Informer()
	if err := i.SetTransform(nrt.Typed); err != nil {
		return nil, fmt.Errorf("decode NodeResourceTopologies: %w", err)
	}
	h, err := i.AddEventHandler(to)
	if err != nil {
		return nil, fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	if _, err := i.AddEventHandler(s.topologyTimes); err != nil {
		return nil, fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	return h.HasSynced, nil
}

// awaitTopologies polls until NodeResourceTopologies can be read, and then follows them. The definition may be
// installed, or the right be granted, while the scheduler runs.
func (s *sources) awaitTopologies(ctx context.Context) {
	_ = poll.PollUntilContextCancel(ctx, lookup, false, func(ctx context.Context) (bool, error) {
		r, _, err := findTopologies(ctx, s.config)
		if err == nil && r != nil {
			_, err = s.fill(*r, s.late())
		}
		if err != nil {
			s.logger.V(2).Info("NodeResourceTopologies not found, will try again", "error", err.Error())
		}
		return err == nil && r != nil, nil
	})
	if ctx.Err() == nil {
		s.logger.Info("NodeResourceTopologies are followed from now on")
		s.dynamic.Start(ctx.Done())
	}
}

// late returns the handler of an informer of which the framework does not know: it does itself what
// topologyChanged does elsewhere.
func (s *sources) late() cache.ResourceEventHandler {
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

// told wakes pods that fit a node of which an object tells something else than before.
func (s *Shared) topologyReported(before, o any) {
	now, ok := o.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return
	}
	if old, ok := before.(*v1alpha2.NodeResourceTopology); ok && equality.Semantic.DeepEqual(old.Zones, now.Zones) &&
		slices.Equal(old.Attributes, now.Attributes) && slices.Equal(old.TopologyPolicies, now.TopologyPolicies) {
		return
	}
	if n := s.Book.Snapshot().Node(now.Name); n == nil || n.Quality == ledger.Coarse {
		s.wake(now.Name)
	}
}

// topologyChanged wakes a pod if it fits the node that reported, and the report is what is known of it.
func (p *Plugin) topologyChanged(_ klog.Logger, pod *v1.Pod, before, obj any) (fwk.QueueingHint, error) {
	if obj == nil {
		o, ok := before.(*v1alpha2.NodeResourceTopology)
		if !ok {
			return fwk.Queue, nil
		}
		p.Feed.TopologyGone(o)
		return p.hint(pod, o.Name), nil
	}
	o, ok := obj.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return fwk.Queue, nil
	}
	p.Feed.Topology(o)
	if n := p.Book.Snapshot().Node(o.Name); n != nil && n.Quality == ledger.Exact {
		return fwk.QueueSkip, nil
	}
	return p.hint(pod, o.Name), nil
}

// reported returns when a node was last heard of by what is known of it: its layout, or its
// NodeResourceTopology.
func (s *sources) reported(node string) time.Time {
	if n := s.Book.Snapshot().Node(node); n != nil && n.Quality == ledger.Coarse {
		return s.topologyTimes.of(node)
	}
	return s.layoutTimes.of(node)
}

// problem returns why what a node says of itself was refused, or "".
func (s *sources) problem(node string) string {
	if why := s.Feed.Problem(node); why != "" {
		return why
	}
	return s.Feed.TopologyProblem(node)
}
