package sched

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
)

// topologies is where the API server serves NodeResourceTopologies, found once; nil where it does not,
// or does not let this scheduler read them. An informer of what cannot be read would keep the scheduler
// from ever starting.
func (s *Shared) topologies(ctx context.Context, cfg *rest.Config) (*schema.GroupVersionResource, error) {
	s.find.Do(func() { s.topology, s.findErr = findTopologies(ctx, cfg) })
	return s.topology, s.findErr
}

func findTopologies(ctx context.Context, cfg *rest.Config) (*schema.GroupVersionResource, error) {
	known, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	logger := klog.FromContext(ctx).WithName(Name)
	for _, r := range nrt.Resources() {
		list, err := known.ServerResourcesForGroupVersion(r.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find resources of %s: %w", r.GroupVersion(), err)
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == r.Resource {
				return readable(ctx, cfg, r)
			}
		}
	}
	logger.Info("The API server has no NodeResourceTopology: nodes without a layout are unknown. Should it come later, restart the scheduler")
	return nil, nil
}

// readable returns the resource if this scheduler may list it.
func readable(ctx context.Context, cfg *rest.Config, r schema.GroupVersionResource) (*schema.GroupVersionResource, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", r.GroupResource(), err)
	}
	_, err = client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		klog.FromContext(ctx).WithName(Name).Error(err, "NodeResourceTopology may not be read: nodes without a layout are unknown")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
	}
	return &r, nil
}

// eventResource is how the framework names the informer of a resource: resource.version.group.
func eventResource(r schema.GroupVersionResource) fwk.EventResource {
	return fwk.EventResource(r.Resource + "." + r.Version + "." + r.Group)
}

// followTopologies lets the scheduler's own informer of NodeResourceTopologies fill the book, and returns
// whether its first list is in; nil where there are none.
func followTopologies(cc *schedconfig.CompletedConfig, s *parts) (cache.InformerSynced, error) {
	if s.topology == nil {
		return nil, nil
	}
	i := cc.DynInformerFactory.ForResource(*s.topology).Informer()
	if err := i.SetTransform(nrt.Typed); err != nil {
		return nil, fmt.Errorf("decode NodeResourceTopologies: %w", err)
	}
	h, err := i.AddEventHandler(s.Feed.Topologies())
	if err != nil {
		return nil, fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	if _, err := i.AddEventHandler(s.heardCoarse); err != nil {
		return nil, fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	return h.HasSynced, nil
}

// topologyChanged wakes a pod if it fits the node that reported, and the report is what is known of it.
func (p *Plugin) topologyChanged(_ klog.Logger, pod *v1.Pod, _, obj any) (fwk.QueueingHint, error) {
	o, ok := obj.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return fwk.Queue, nil
	}
	p.feed.Topology(o)
	if n := p.book.Snapshot().Node(o.Name); n != nil && n.Quality == ledger.Exact {
		return fwk.QueueSkip, nil
	}
	return p.hint(pod, o.Name), nil
}

// reported returns when a node was last heard of by what is known of it: its layout, or its
// NodeResourceTopology.
func (s *parts) reported(node string) time.Time {
	if n := s.Book.Snapshot().Node(node); n != nil && n.Quality == ledger.Coarse {
		return s.heardCoarse.of(node)
	}
	return s.heard.of(node)
}

// problem returns why what a node says of itself was refused, or "".
func (s *parts) problem(node string) string {
	if why := s.Feed.Problem(node); why != "" {
		return why
	}
	return s.Feed.TopologyProblem(node)
}
