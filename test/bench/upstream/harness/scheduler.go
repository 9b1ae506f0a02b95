// Package harness runs one of upstream's scheduling benchmarks (test/integration/scheduler_perf of Kubernetes) in one
// process, with kube-scheduler as it is or with Tenon's plugin.
//
// It is a test binary, because upstream's code needs a *testing.B; package upstream builds and starts it. Everything
// but the plugin is upstream's code: API server, etcd, creation of objects, and measurement. Invariant: without the
// plugin no part of Tenon runs, except for imitated nodes where the job asks for layouts.
package harness

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/plugin"
	"github.com/tenon-numa/tenon/test/bench/upstream"
)

// subject is the scheduler of one run.
type subject struct {
	job        upstream.Job
	preemption preemption

	shared    *plugin.Shared // nil unless the plugin is set up as tenon-scheduler sets it up
	informers dynamicinformer.DynamicSharedInformerFactory
	extend    sync.Once // for shared.Extend
	imitated  sync.Once // for imitate
}

// registry returns the plugins that upstream's code adds to kube-scheduler.
func (s *subject) registry() frameworkruntime.Registry {
	switch s.job.Subject {
	case upstream.Tenon:
		return frameworkruntime.Registry{
			config.Tenon:       s.made(func(shared *plugin.Shared) plugin.Factory { return shared.Factory(config.Tenon) }),
			config.TenonClaims: s.made((*plugin.Shared).Claims),
			config.TenonGroups: s.made((*plugin.Shared).Groups),
		}
	case upstream.Alone:
		return frameworkruntime.Registry{config.Tenon: func(ctx context.Context, args runtime.Object, h fwk.Handle) (
			fwk.Plugin, error) {
			if err := define(ctx, h); err != nil {
				return nil, err
			}
			return plugin.New(ctx, args, h)
		}}
	}
	return nil
}

// define has the API server serve NodeLayouts, as an installed Tenon does.
func define(ctx context.Context, h fwk.Handle) error {
	return (&control.Plane{Admin: h.KubeConfig()}).Define(ctx, crd.Layouts()...)
}

// made makes a plugin of Tenon with the options of tenon-scheduler. Upstream's code passes no dynamic informers to
// kube-scheduler, so the queue gets no events of layouts; the plugin's own queue of waiting pods does.
func (s *subject) made(of func(*plugin.Shared) plugin.Factory) plugin.Factory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if s.shared == nil {
			if err := define(ctx, h); err != nil {
				return nil, err
			}
			c, err := dynamic.NewForConfig(h.KubeConfig())
			if err != nil {
				return nil, fmt.Errorf("make client for layouts: %w", err)
			}
			s.informers = dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
			s.shared = plugin.NewShared(plugin.Logger(ctx), plugin.Options{Informers: s.informers, Preemption: s.preemption})
		}
		p, err := of(s.shared)(ctx, args, h)
		s.informers.Start(ctx.Done())
		return p, err
	}
}

// nodesMade is called by upstream's code whenever it has created nodes. In the workloads that package upstream lists,
// nodes are created before pods. It is the first call that receives the scheduler, so the scheduler is extended here.
func (s *subject) nodesMade(t ktesting.TContext, sched *scheduler.Scheduler, _ *perf.Workload, n *v1.NodeList) (
	err error) {
	if s.shared != nil {
		s.extend.Do(func() { s.shared.Extend(t, sched) })
	}
	if s.job.NUMA {
		s.imitated.Do(func() { err = s.imitate(t, len(n.Items)) })
	}
	return err
}
