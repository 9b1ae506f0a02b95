// Package scheduler runs a kube-scheduler inside the process of a lab cluster, with Tenon's plugin or without.
//
// It is kube-scheduler's own command path, with a KubeSchedulerConfiguration as an administrator would write it.
// Invariant: after Stop the scheduler binds no pod. The package refuses configurations that kube-scheduler refuses.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/configz"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/plugin"
	"github.com/tenon-numa/tenon/scheduler/server"
)

// Profiles for Start, as YAML lists.
const (
	// Plain is kube-scheduler without Tenon.
	Plain = `- schedulerName: default-scheduler
`
	// Packed is kube-scheduler without Tenon and with the score MostAllocated, which prefers the fullest node. Devices
	// have the highest weight, as where GPUs are to be kept together.
	Packed = `- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: nvidia.com/gpu, weight: 3}
        - {name: intel.com/sriov_vf, weight: 3}
        - {name: cpu, weight: 1}
        - {name: memory, weight: 1}
`
	// Tenon is kube-scheduler with Tenon as the only scheduler.
	Tenon = `- schedulerName: default-scheduler
` + enabled
	// Defaults is Tenon with the plugin's default arguments.
	Defaults = `- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
`
	// Second is kube-scheduler with Tenon under its own name, for a cluster that also has a default scheduler.
	Second = `- schedulerName: tenon-scheduler
` + enabled
	// Both is one kube-scheduler with two profiles: the default one without Tenon, and Second.
	Both = `- schedulerName: default-scheduler
` + Second

	enabled = `  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
  pluginConfig:
  - name: Tenon
    args: {apiVersion: tenon.sh/v1alpha1, kind: TenonArgs, unknownNodes: Refuse}
`
)

const header = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 2
profiles:
%s`

// Running is a running scheduler.
type Running struct {
	// Shared has the scheduler's ledger; nil if no profile has Tenon.
	Shared *plugin.Shared
	// Kube is the kube-scheduler itself.
	Kube *kubescheduler.Scheduler
	// Metrics and Inspection are URLs; only [StartServed] sets them.
	Metrics, Inspection string

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Observer has functions that are called while a scheduler with Tenon's plugin runs. They may be nil; they must
// return quickly.
type Observer struct {
	// Outcome receives the outcome of every prediction.
	Outcome func(state.Outcome)
	// Delivered receives every pod, NodeLayout and LayoutBase from the API server, at the moment at which the scheduler
	// itself receives it.
	Delivered func(object any, how Delivery)
}

// Delivery is how a scheduler received an object.
type Delivery int

const (
	// Listed objects existed when the scheduler began: it schedules nothing before it has all of them.
	Listed Delivery = iota
	// Changed objects are new or have changed.
	Changed
	// Deleted objects are gone.
	Deleted
)

// Start starts a scheduler with the given profiles (a YAML list). Its configuration is written to dir.
// onOutcome, if not nil, receives the outcome of every prediction; profiles without Tenon make none.
func Start(dir, kubeconfig, profiles string, onOutcome func(state.Outcome)) (*Running, error) {
	return StartObserved(dir, kubeconfig, profiles, Observer{Outcome: onOutcome})
}

// StartObserved is Start with an observer, which needs a profile with Tenon.
func StartObserved(dir, kubeconfig, profiles string, o Observer) (*Running, error) {
	file, err := configFile(dir, kubeconfig, profiles)
	if err != nil {
		return nil, err
	}
	opts, err := newOptions(file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{cancel: cancel, done: make(chan struct{})}
	run, err := r.prepare(ctx, opts, HasTenon(profiles), o)
	if err != nil {
		cancel()
		return nil, err
	}
	r.begin(ctx, run)
	return r, nil
}

// HasTenon reports whether one of the profiles has Tenon's plugin.
func HasTenon(profiles string) bool { return strings.Contains(profiles, "name: Tenon") }

// StartServed is Start for profiles with Tenon, and serves metrics and inspection on ports of the loopback interface.
// The result has their URLs.
func StartServed(dir, kubeconfig, profiles string) (*Running, error) {
	file, err := configFile(dir, kubeconfig, profiles)
	if err != nil {
		return nil, err
	}
	opts, err := newOptions(file)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scheduler: %w", err)
	}
	opts.SecureServing.Listener, opts.SecureServing.BindAddress = l, net.IPv4(127, 0, 0, 1)
	opts.SecureServing.BindPort = l.Addr().(*net.TCPAddr).Port
	opts.Authentication.RemoteKubeConfigFile, opts.Authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
	configz.Delete("componentconfig") // as in prepare
	ctx, cancel := context.WithCancel(context.Background())
	s, err := server.Prepare(ctx, opts, nil)
	if err != nil {
		cancel()
		return nil, errors.Join(err, l.Close())
	}
	inspection, err := s.Inspect(ctx, "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, errors.Join(err, l.Close())
	}
	_, kube := s.Parts()
	r := &Running{Shared: s.Shared, Kube: kube, Metrics: "https://" + l.Addr().String() + "/metrics",
		Inspection: "https://" + inspection.String() + inspect.Prefix, cancel: cancel, done: make(chan struct{})}
	r.begin(ctx, s.Run)
	return r, nil
}

// begin runs the scheduler in a new goroutine until the context ends.
func (r *Running) begin(ctx context.Context, run func(context.Context) error) {
	go func() {
		defer close(r.done)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			r.err = fmt.Errorf("scheduler ended: %w", err)
		}
	}()
}

// configFile writes the configuration of a scheduler with these profiles to dir.
func configFile(dir, kubeconfig, profiles string) (string, error) {
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, header, kubeconfig, profiles), 0o600); err != nil {
		return "", fmt.Errorf("write scheduler configuration: %w", err)
	}
	return file, nil
}

// newOptions returns the scheduler's options. The scheduler gets its own feature gates, because the process-wide ones
// belong to the API server beside it.
func newOptions(file string) (*options.Options, error) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	reg := basecompatibility.NewComponentGlobalsRegistry()
	err := reg.Register(basecompatibility.DefaultKubeComponent,
		compatibility.DefaultKubeEffectiveVersionForTest(), utilfeature.DefaultMutableFeatureGate.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("register scheduler component: %w", err)
	}
	opts := options.NewOptionsWithComponentGlobalsRegistry(reg)
	opts.ConfigFile = file
	opts.SecureServing.BindPort = 0
	if err := reg.Set(); err != nil {
		return nil, fmt.Errorf("set scheduler feature gates: %w", err)
	}
	return opts, nil
}

// prepare sets a scheduler up and returns the function that runs it.
func (r *Running) prepare(ctx context.Context, opts *options.Options, tenon bool, o Observer) (
	func(context.Context) error, error) {
	configz.Delete("componentconfig") // a process-wide name; an earlier scheduler leaves it registered
	if tenon {
		s, err := server.Prepare(ctx, opts, o.Outcome)
		if err != nil {
			return nil, err
		}
		r.Shared = s.Shared
		_, r.Kube = s.Parts()
		return s.Run, o.observe(s)
	}
	cc, s, err := app.Setup(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	r.Kube = s
	return func(ctx context.Context) error {
		configz.Delete("componentconfig")
		return app.Run(ctx, cc, s)
	}, nil
}

// observe calls o.Delivered for pods, layouts and their bases. It observes the same informers as the scheduler's own
// handlers.
func (o Observer) observe(s *server.Scheduler) error {
	if o.Delivered == nil {
		return nil
	}
	handler := cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, listed bool) {
			if listed {
				o.Delivered(object, Listed)
			} else {
				o.Delivered(object, Changed)
			}
		},
		UpdateFunc: func(_, object any) { o.Delivered(object, Changed) },
		DeleteFunc: func(object any) {
			if t, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = t.Obj
			}
			o.Delivered(object, Deleted)
		},
	}
	cc, _ := s.Parts()
	for _, i := range []cache.SharedInformer{cc.InformerFactory.Core().V1().Pods().Informer(),
		cc.DynInformerFactory.ForResource(v1alpha1.LayoutBaseResource()).Informer(),
		cc.DynInformerFactory.ForResource(v1alpha1.NodeLayoutResource()).Informer()} {
		if _, err := i.AddEventHandler(handler); err != nil {
			return fmt.Errorf("observe scheduler: %w", err)
		}
	}
	return nil
}

// Done returns a channel that is closed when the scheduler has ended, by itself or by Stop.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns why the scheduler ended by itself. It is nil while the scheduler runs, and if Stop ended it.
func (r *Running) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Stop ends the scheduler and waits until it has ended. It returns an error only if the scheduler had ended by itself
// before.
func (r *Running) Stop() error {
	r.cancel()
	<-r.done
	return r.err
}
