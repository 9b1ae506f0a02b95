package library_test

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"sigs.k8s.io/scheduler-library/pkg/framework"
	"sigs.k8s.io/scheduler-library/pkg/simulator"
	"sigs.k8s.io/scheduler-library/pkg/state"
	"sigs.k8s.io/scheduler-library/pkg/upstreamsync"
	"sigs.k8s.io/scheduler-library/pkg/upstreamsync/snapshot"

	"github.com/tenon-numa/tenon/scheduler/plugin"
	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// The plugins that Kueue 0.19 enables in the library, with the one for a node's amounts; and the same with Tenon.
const (
	ordinary = `
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: NodeUnschedulable}, {name: TaintToleration}, {name: NodeAffinity},
        {name: NodeResourcesFit}, {name: DefaultBinder}]
`
	tenon = `
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: NodeUnschedulable}, {name: TaintToleration}, {name: NodeAffinity},
        {name: NodeResourcesFit}, {name: Tenon}, {name: Probe}, {name: DefaultBinder}]
`
)

// simulator makes the library's entry with a list of profiles.
func (c *cluster) simulator(profiles string) *simulator.SchedulingSimulator {
	c.Helper()
	client, err := simulator.NewReadonlyClient(c.admin)
	if err != nil {
		c.Fatal(err)
	}
	s, err := simulator.NewSchedulingSimulator(c.ctx,
		&schedapi.KubeSchedulerConfiguration{Profiles: profilestest.Profiles(c, profiles)}, client, nil)
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// without returns a snapshot of the cluster with the frameworks that the library makes itself.
func (c *cluster) without() *snapshot.ClusterSnapshot {
	c.Helper()
	s, err := c.simulator(ordinary).NewClusterSnapshot(c.ctx, c.pods, c.nodes)
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// with returns the cluster's state in the library with Tenon beside the other plugins. All snapshots of a state have
// the same frameworks, so the plugin is made once.
func (c *cluster) with() *state.ClusterState {
	c.Helper()
	shared := cache.NewEmptySnapshot()
	profiles, err := c.frameworks(shared, frameworkruntime.WithKubeConfig(c.writes.of(c.admin)))
	if err != nil {
		c.Fatal(err)
	}
	s := state.New(cache.New(c.ctx, nil, false), profiles, shared)
	for _, n := range c.nodes {
		s.Cache.AddNode(klog.FromContext(c.ctx), n)
	}
	for _, p := range c.pods {
		if err := s.Cache.AddPod(klog.FromContext(c.ctx), p); err != nil {
			c.Fatal(err)
		}
	}
	return s
}

// snapshot returns a snapshot of a state. It ends the one before.
func (c *cluster) snapshot(s *state.ClusterState) *snapshot.ClusterSnapshot {
	c.Helper()
	out, err := s.Snapshot(klog.FromContext(c.ctx))
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// frameworks makes frameworks with Tenon as the library makes its own, and starts their informers. The library has no
// parameter for a registry or a kubeconfig, so this calls what it calls.
func (c *cluster) frameworks(shared *cache.Snapshot, more ...frameworkruntime.Option) (*upstreamsync.ProfileMap,
	error) {
	framework.InitMetricsOnce()
	client := kubernetes.NewForConfigOrDie(c.writes.of(c.admin))
	from := scheduler.NewInformerFactory(client, 0)
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(frameworkruntime.Registry{plugin.Name: plugin.New, probeName: c.probe.make}); err != nil {
		return nil, err
	}
	m, err := profile.NewMap(c.ctx, profilestest.Profiles(c, tenon), registry,
		func(string) events.EventRecorderLogger { return silent{} },
		append(more, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(from),
			frameworkruntime.WithSnapshotSharedLister(shared), frameworkruntime.WithPodNominator(queueless{}),
			frameworkruntime.WithPodActivator(queueless{}))...)
	if err != nil {
		return nil, err
	}
	return &upstreamsync.ProfileMap{Map: m}, begin(c.ctx, from)
}

// begin starts informers, and returns when they have their first lists.
func begin(ctx context.Context, from informers.SharedInformerFactory) error {
	from.StartWithContext(ctx)
	return from.WaitForCacheSyncWithContext(ctx).Err
}

// silent records no events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

func (silent) WithLogger(klog.Logger) events.EventRecorderLogger { return silent{} }

// queueless activates no pods and nominates none: there is no queue.
type queueless struct{}

func (queueless) Activate(klog.Logger, map[string]*v1.Pod) {}

func (queueless) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

func (queueless) DeleteNominatedPodIfExists(*v1.Pod) {}

func (queueless) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

func (queueless) NominatedPodsForNode(string) []fwk.PodInfo { return nil }
