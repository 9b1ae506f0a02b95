// Package agent publishes the NodeLayout of one node, as a reconciler. It observes the machine, the kubelet and the
// API server, and computes the desired layout (package desired). It writes this layout if it differs from the published
// one.
//
// Invariant: one agent writes one layout, by server-side apply, at most once per interval and only when its content
// changed. It writes the first change after a quiet time as soon as the kubelet's files are at rest. A reconcile
// reads each source at most once. If a source cannot be read, the agent tries again after growing pauses, and the
// published layout stays as it is. If only the machine or the configuration cannot be read, the agent publishes the
// current holdings with the last known machine and configuration. Before it has read both, it publishes nothing. If
// another writer changes or deletes the layout, the agent rewrites it without waiting for the next resync. If two
// agents run on one node, the agent that started later writes, and the other one stands by. A [Publisher] may write a
// second object at the same pace; if that write fails, the agent still writes the layout. An agent keeps no state
// outside its Run, so a process may run many.
//
// The package refuses to judge: it publishes what the kubelet reports, or what its [Arbiter] has decided, and places
// nothing.
package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/node/desired"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Run publishes the layout of a node until ctx ends, and then returns nil. It returns an error only
// for a Config that can never work; it waits for a kubelet or an API server that does not answer.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("agent configuration: %w", err)
	}
	a, err := newAgent(cfg)
	if err != nil {
		return err
	}
	a.run(ctx, func(ctx context.Context) { watchFiles(ctx, a.reconciler.log, cfg.watchedFiles(), a.triggers) })
	return nil
}

// agent has the parts of one Run: the loop calls the reconciler when a trigger or the resync is due.
type agent struct {
	cfg        Config
	reconciler *reconciler
	loop       *loop
	triggers   *triggers
}

func newAgent(cfg Config) (*agent, error) {
	cfg = cfg.withDefaults()
	t := newTriggers()
	r, err := newReconciler(cfg, t)
	if err != nil {
		return nil, err
	}
	cfg.Health.setResync(cfg.Resync)
	return &agent{cfg, r, &loop{
		pace:      pace{settle: settle, maxSettle: maxSettle, observe: observeInterval, write: cfg.Interval},
		resync:    cfg.Resync,
		triggers:  t,
		reconcile: r.reconcile,
		record:    cfg.Recorder.RecordReconcile,
		health:    cfg.Health,
		log:       r.log,
	}, t}, nil
}

// run runs the loop, the watches and the arbiter beside each other until ctx ends. The loop begins once the pods of
// the node are known. watchFiles triggers reconciles when files change; it returns when ctx ends.
func (a *agent) run(ctx context.Context, watchFiles func(context.Context)) {
	o := a.reconciler.observer
	defer func() { _ = o.service.Close() }() // the client only reads, so no data can be lost
	if a.cfg.Pods != nil {
		a.cfg.Pods(o.pods.list)
	}
	arbiter := func(ctx context.Context) { a.cfg.Arbiter.Run(ctx, o.pods.list, a.triggers.holdings) }
	parts := []func(context.Context){arbiter, o.pods.run, o.node.run, o.published.layout.watch.run,
		o.published.layout.base.watch.run, watchFiles}
	if t := o.published.topology; t != nil {
		parts = append(parts, t.watch.run)
	}
	runAll(ctx, append(parts, func(ctx context.Context) {
		if o.pods.wait(ctx) {
			a.loop.run(ctx)
		}
	})...)
}

// newReconciler makes a reconciler with its clients. cfg has its defaults.
func newReconciler(cfg Config, t *triggers) (*reconciler, error) {
	// The pace of the loop bounds the requests; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS = -1
	layouts, err := client.New(rc)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("make metadata client for %s: %w", rc.Host, err)
	}
	core, err := objects.NewCore(rc)
	if err != nil {
		return nil, err
	}
	service, err := kubelet.DialPodResources(cfg.PodResourcesSocket, cfg.dial...)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger.WithValues("node", cfg.NodeName)
	base := &baseWriter{client: layouts, name: cfg.NodeName, log: log,
		watch: newSelfWatch(meta.Resource(v1alpha1.LayoutBaseResource()), cfg.NodeName, cfg.Labels, t.everything)}
	published := &published{
		layout: &layoutWriter{client: layouts, name: cfg.NodeName, labels: cfg.Labels, log: log, claim: newClaim(),
			base:  base,
			watch: newSelfWatch(meta.Resource(v1alpha1.NodeLayoutResource()), cfg.NodeName, cfg.Labels, t.everything)},
		interval: cfg.Reread,
		// A random start keeps agents that start together from always reading at the same time.
		next: time.Now().Add(rand.N(cfg.Reread)),
	}
	if p := cfg.Publisher; p != nil {
		published.topology = &topologyWriter{publisher: p,
			watch: newSelfWatch(meta.Resource(p.Resource()), cfg.NodeName, cfg.Labels, t.everything)}
	}
	return &reconciler{
		observer: &observer{
			machine: cfg.Machine, checkCapacity: cfg.CheckCapacity,
			rules:     cfg.Rules,
			service:   service,
			root:      kubelet.Dir(cfg.StateDir),
			node:      newNodeWatch(core.Nodes, cfg.NodeName, cfg.Labels, t.holdings),
			pods:      newPodWatch(core.Pods, cfg.NodeName, t.holdings),
			published: published,
			arbiter:   cfg.Arbiter,
		},
		options:  desired.Options{NodeName: cfg.NodeName, Translate: cfg.Translate},
		recorder: cfg.Recorder,
		again:    t.holdings,
		log:      log,
	}, nil
}

// runAll runs the parts beside each other, and returns when all of them have returned. Each part returns when ctx
// ends.
func runAll(ctx context.Context, parts ...func(context.Context)) {
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}
