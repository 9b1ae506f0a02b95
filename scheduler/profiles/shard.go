package profiles

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// ShardName is the name of the plugin [Shard], which Confine enables in profiles.
const ShardName = "TenonShard"

// Shard is a scheduler plugin that keeps all pods of a profile, including pods that hold nothing, on the nodes whose
// labels match a selector. It is a separate plugin because Tenon's skips pods that hold nothing. NodeAffinity's
// addedAffinity would do the same, but in Kubernetes 1.36 it wakes no pod when a node's labels change to match.
type Shard struct{ Selector labels.Selector }

var (
	_ fwk.FilterPlugin      = (*Shard)(nil)
	_ fwk.EnqueueExtensions = (*Shard)(nil)
	_ fwk.SignPlugin        = (*Shard)(nil)
)

// Name returns ShardName.
func (s *Shard) Name() string { return ShardName }

// Filter refuses the nodes that the selector does not match.
func (s *Shard) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if s.Selector.Matches(labels.Set(info.Node().Labels)) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node is not in this scheduler's shard, "+s.Selector.String())
}

// EventsToRegister returns the events by which a node may enter the shard: it is new, or its labels change.
func (s *Shard) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: s.entered},
	}, nil
}

// entered wakes pods if a node enters the shard.
func (s *Shard) entered(_ klog.Logger, _ *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	if s.has(after) && !s.has(before) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (s *Shard) has(obj any) bool {
	n, ok := obj.(*v1.Node)
	return ok && s.Selector.Matches(labels.Set(n.Labels))
}

// SignPod returns no fragment, because the plugin treats all pods alike.
func (s *Shard) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// Confine enables [Shard] in the profiles whose arguments for the plugin select nodes. It returns the selector, which
// matches everything if no profile has one. All profiles must have the same selector, because they share one ledger.
func Confine(profiles []schedapi.KubeSchedulerProfile) (labels.Selector, error) {
	selector, firstProfile := "", ""
	for i := range profiles {
		p := &profiles[i]
		text, enabled, err := selectorOf(p)
		switch {
		case err != nil:
			return nil, fmt.Errorf("profile %q: %w", p.SchedulerName, err)
		case !enabled:
			continue
		case firstProfile == "":
			selector, firstProfile = text, p.SchedulerName
		case text != selector:
			return nil, fmt.Errorf(
				"profiles %q and %q have the layoutSelectors %q and %q: profiles of one scheduler share one",
				firstProfile,
				p.SchedulerName,
				selector,
				text,
			)
		}
		if text != "" {
			enableShard(p.Plugins)
		}
	}
	return labels.Parse(selector)
}

// selectorOf returns the selector in the profile's arguments for Tenon's plugin, and whether the profile enables that
// plugin.
func selectorOf(p *schedapi.KubeSchedulerProfile) (text string, enabled bool, err error) {
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

// enableShard enables Shard before all other filters, because it is the cheapest, and because the answers of other
// filters about nodes outside the shard do not matter. It names Shard at the filter point, too, so that Shard also
// runs in profiles that disable all filters of multiPoint.
func enableShard(pl *schedapi.Plugins) {
	for _, set := range []*schedapi.PluginSet{&pl.MultiPoint, &pl.Filter} {
		set.Enabled = slices.Insert(slices.Clone(set.Enabled), 0, schedapi.Plugin{Name: ShardName})
	}
}
