package sched

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
)

// shardName is the name of the plugin that keeps pods in the shard, which profiles are given by [confine].
const shardName = "TenonShard"

// border keeps the pods of a profile, those that hold nothing, too, to the nodes of a shard: each by its own
// labels. It is a plugin of its own because Tenon's is not asked about pods that hold nothing. NodeAffinity's
// addedAffinity would do the same, but in Kubernetes 1.36 wakes no pod when a node comes to match it.
type border struct{ shard labels.Selector }

var (
	_ fwk.FilterPlugin      = (*border)(nil)
	_ fwk.EnqueueExtensions = (*border)(nil)
	_ fwk.SignPlugin        = (*border)(nil)
)

func (b *border) Name() string { return shardName }

// Filter keeps pods from nodes of other shards.
func (b *border) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if b.shard.Matches(labels.Set(info.Node().Labels)) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node is not in this scheduler's shard, "+b.shard.String())
}

// EventsToRegister says that a node may come into the shard.
func (b *border) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: b.entered},
	}, nil
}

func (b *border) entered(_ klog.Logger, _ *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	if b.has(after) && !b.has(before) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (b *border) has(obj any) bool {
	n, ok := obj.(*v1.Node)
	return ok && b.shard.Matches(labels.Set(n.Labels))
}

// SignPod says that all pods are alike here.
func (b *border) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// confine gives the profiles that enable the plugin a border around the nodes that its arguments select, and
// returns the selector, which matches everything where they say none. All profiles must say the same, because
// they share what is known of nodes.
func confine(profiles []schedapi.KubeSchedulerProfile) (labels.Selector, error) {
	said, first := "", ""
	for i := range profiles {
		p := &profiles[i]
		text, enabled, err := selects(p)
		switch {
		case err != nil:
			return nil, fmt.Errorf("profile %q: %w", p.SchedulerName, err)
		case !enabled:
			continue
		case first == "":
			said, first = text, p.SchedulerName
		case text != said:
			return nil, fmt.Errorf("profiles %q and %q have the layoutSelectors %q and %q: profiles of one scheduler share one", first, p.SchedulerName, said, text)
		}
		if text != "" {
			enclose(p.Plugins)
		}
	}
	return labels.Parse(said)
}

// selects returns the selector of a profile's arguments, and whether it enables the plugin.
func selects(p *schedapi.KubeSchedulerProfile) (text string, enabled bool, err error) {
	for _, name := range []string{config.Tenon, config.Match} {
		if p.Plugins == nil || !enabledSomewhere(p.Plugins, name) {
			continue
		}
		enabled = true
		for _, c := range p.PluginConfig {
			if c.Name != name {
				continue
			}
			args, err := config.Decode(name, c.Args)
			if err != nil {
				return "", true, err
			}
			text = args.LayoutSelector
		}
	}
	return text, enabled, nil
}

// enclose puts the border before all other filters: it is the cheapest, and whether they would refuse a node
// that is none of the scheduler's does not matter. Named at the point itself it stays where a profile disables
// all of them.
func enclose(pl *schedapi.Plugins) {
	for _, set := range []*schedapi.PluginSet{&pl.MultiPoint, &pl.Filter} {
		set.Enabled = slices.Insert(slices.Clone(set.Enabled), 0, schedapi.Plugin{Name: shardName})
	}
}

// follows has a scheduler list and watch only the layouts and NodeResourceTopologies that are selected.
func follows(cc *schedconfig.CompletedConfig, selector labels.Selector) error {
	if selector.Empty() {
		return nil
	}
	client, err := dynamic.NewForConfig(cc.KubeConfig)
	if err != nil {
		return fmt.Errorf("make client for layouts of a shard: %w", err)
	}
	cc.DynInformerFactory = &shard{
		rest: cc.DynInformerFactory,
		own: dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, metav1.NamespaceAll,
			func(o *metav1.ListOptions) { o.LabelSelector = selector.String() }),
	}
	return nil
}

// shard makes informers of which those of what nodes publish are of selected nodes.
type shard struct {
	own, rest dynamicinformer.DynamicSharedInformerFactory
}

var _ dynamicinformer.DynamicSharedInformerFactory = (*shard)(nil)

func (f *shard) ForResource(r schema.GroupVersionResource) informers.GenericInformer {
	if r == v1alpha1.NodeLayoutResource() || slices.Contains(nrt.Resources(), r) {
		return f.own.ForResource(r)
	}
	return f.rest.ForResource(r)
}

func (f *shard) Start(stop <-chan struct{}) {
	f.own.Start(stop)
	f.rest.Start(stop)
}

func (f *shard) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	out := f.rest.WaitForCacheSync(stop)
	for r, ok := range f.own.WaitForCacheSync(stop) {
		out[r] = ok
	}
	return out
}

func (f *shard) Shutdown() {
	f.own.Shutdown()
	f.rest.Shutdown()
}
