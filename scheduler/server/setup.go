package server

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/plugin"
	"github.com/tenon-numa/tenon/scheduler/profiles"
)

// setUp makes a kube-scheduler with the plugin, and the state that its profiles share. If the plugin's arguments select
// nodes by their labels, the scheduler is for a shard of the cluster: it uses only these nodes and follows only their
// reports.
func setUp(
	ctx context.Context,
	opts *options.Options,
	onOutcome func(state.Outcome),
) (*plugin.Shared, *schedconfig.CompletedConfig,
	*scheduler.Scheduler, error) {
	logger := plugin.Logger(ctx)
	cc, err := configure(ctx, opts)
	if err != nil {
		return nil, nil, nil, err
	}
	list := cc.ComponentConfig.Profiles
	if err := profiles.Complete(list, logger); err != nil {
		return nil, nil, nil, err
	}
	selector, err := profiles.Confine(list)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := selectReports(cc, selector); err != nil {
		return nil, nil, nil, err
	}
	o := plugin.Options{
		OnOutcome:  onOutcome,
		Informers:  cc.DynInformerFactory,
		Nodes:      selector,
		Preemption: profiles.Preemptors(list, logger),
		Election:   followElection(ctx, cc).state,
	}
	if percentage := cc.ComponentConfig.PercentageOfNodesToScore; percentage != nil {
		o.PercentageOfNodesToScore = *percentage
	}
	shared := plugin.NewShared(logger, o)
	s, err := create(ctx, cc, opts, shared, &profiles.Shard{Selector: selector})
	return shared, cc, s, err
}

// configure reads a kube-scheduler's flags and configuration as its own command does. It does not call app.Setup, which
// also makes the scheduler: that would follow the reports of all nodes, before setUp can restrict it to a shard.
func configure(ctx context.Context, opts *options.Options) (*schedconfig.CompletedConfig, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("default configuration: %w", err)
	}
	opts.ComponentConfig = defaults
	if faults := opts.Validate(); len(faults) > 0 {
		return nil, errors.NewAggregate(faults)
	}
	c, err := opts.Config(ctx)
	if err != nil {
		return nil, err
	}
	cc := c.Complete()
	return &cc, nil
}

// create makes the scheduler of a configuration, with the plugin under both of its names, and with the plugin Shard.
// It must pass every option to scheduler.New that app.Setup passes; otherwise a part of the configuration would be
// ignored.
func create(
	ctx context.Context,
	cc *schedconfig.CompletedConfig,
	opts *options.Options,
	s *plugin.Shared,
	shard *profiles.Shard,
) (*scheduler.Scheduler, error) {
	conf := &cc.ComponentConfig
	var built []schedapi.KubeSchedulerProfile // with the defaults of the framework
	made, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory,
		func(name string) recorder { return cc.EventBroadcaster.NewRecorder(name) },
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithComponentConfigVersion(conf.APIVersion),
		scheduler.WithProfiles(conf.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			config.Tenon: s.Factory(config.Tenon), config.Match: s.Factory(config.Match), config.TenonClaims: s.Claims(),
			config.TenonGroups: s.Groups(),
			profiles.ShardName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return shard, nil }}),
		scheduler.WithBuildFrameworkCapturer(func(p schedapi.KubeSchedulerProfile) { built = append(built, p) }),
		scheduler.WithPercentageOfNodesToScore(conf.PercentageOfNodesToScore),
		scheduler.WithParallelism(conf.Parallelism),
		scheduler.WithExtenders(conf.Extenders...),
		scheduler.WithPodInitialBackoffSeconds(conf.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(conf.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
	)
	if err != nil {
		return nil, err
	}
	return made, options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, conf, built)
}
