// Package agent keeps one node's NodeLayout true: it discovers the machine, reads the kubelet's
// configuration, observes what every container holds, and publishes when something changed.
//
// Invariant: one agent writes one layout, by server-side apply, at most once per interval, and only
// when its content changed; the first change after a quiet time is written as soon as the kubelet's
// files are at rest. What cannot be read is retried with growing pauses, and the last published layout
// stays; where only the machine or the rules cannot be read, holdings are published with those last known,
// and nothing is published before both are known. A layout that somebody else changed or deleted is
// written again at once, but of two agents that claim one node the later one writes and the other stands
// by. A [Publisher] may bring the same facts into another form, at the same pace; where it fails,
// the layout is written all the same. An agent has no state outside its Run, so a process may run many.
//
// The package refuses to judge: it publishes what the kubelet says, and places nothing.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Machine says what hardware the node has. Devices are not asked of it: the kubelet knows them.
type Machine interface {
	Machine(ctx context.Context) (*topo.Machine, error)
}

// Publisher brings what the agent sees of its node into another form than the layout.
type Publisher interface {
	// Object is the kind of what is published.
	Object() string
	// Publish writes the node's state where that changes what is published, as an object that the Node
	// with the UID owns. With read, nothing that was known of the published object before may be kept.
	Publish(ctx context.Context, n *ledger.Node, owner types.UID, read bool) (wrote bool, err error)
}

// Witness is told what the agent does, for metrics. Its methods return at once.
type Witness interface {
	// Saw is told the node's state after each look at it, and the sequence of the layout that says so.
	Saw(n *ledger.Node, sequence int64)
	// Wrote is told of each write of an object of the kind, and of each failure to.
	Wrote(object string, err error)
	// Looked is told of each look: how long after the first change that it met it ended, whether anything
	// was written, and what failed.
	Looked(after time.Duration, wrote bool, err error)
}

// Config is everything that an agent needs.
type Config struct {
	// NodeName is the name of the Node, and of the layout.
	NodeName string
	Machine  Machine
	// Detail says more of the hardware than decides; it may be nil.
	Detail func(ctx context.Context) (v1alpha1.Detail, error)
	// KubeletConfig is the path of the KubeletConfiguration, for example /var/lib/kubelet/config.yaml, and
	// KubeletConfigDir the directory of its drop-in files; each is empty where the kubelet has none.
	KubeletConfig, KubeletConfigDir string
	// Rules says what the kubelet's configuration is; nil means what the files say.
	Rules kubelet.Source
	// PodResourcesSocket is the absolute path of the kubelet's podresources socket.
	PodResourcesSocket string
	// StateDir is the kubelet's root directory, for example /var/lib/kubelet.
	StateDir string
	REST     *rest.Config
	Logger   logr.Logger
	// Translate says what a pod asks for. With it, a pod that the kubelet is still admitting is not
	// published before it has all that it will get; it may be nil.
	Translate func(*v1.Pod) (*place.Pod, error)
	// Publisher publishes beside the layout; it may be nil.
	Publisher Publisher
	// Witness may be nil.
	Witness Witness
	// Pods, where it is not nil, is called once, before the first look, with a function that lists the pods
	// of the node as far as they are known. That may be called from any goroutine; its pods have no more
	// than the agent needs, and the IDs of the containers that run, and are not to be changed.
	Pods func(list func() []*v1.Pod)

	// Interval is the least time between two writes; 0 means 200 ms.
	Interval time.Duration
	// Resync is the time between full readings of everything; 0 means 30 s.
	Resync time.Duration

	// dial is added to how the podresources service is reached.
	dial []grpc.DialOption
}

// Defaults of Config.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultResync   = 30 * time.Second
)

func (c *Config) check() error {
	var faults []error
	for _, f := range []struct{ field, value string }{
		{"NodeName", c.NodeName}, {"PodResourcesSocket", c.PodResourcesSocket}, {"StateDir", c.StateDir},
	} {
		if f.value == "" {
			faults = append(faults, fmt.Errorf("%s is empty", f.field))
		}
	}
	if c.PodResourcesSocket != "" && !filepath.IsAbs(c.PodResourcesSocket) {
		faults = append(faults, fmt.Errorf("PodResourcesSocket %q is not an absolute path", c.PodResourcesSocket))
	}
	if c.Rules == nil && c.KubeletConfig == "" && c.KubeletConfigDir == "" {
		faults = append(faults, errors.New("Rules, KubeletConfig and KubeletConfigDir are all empty"))
	}
	if c.Machine == nil {
		faults = append(faults, errors.New("Machine is missing"))
	}
	if c.REST == nil {
		faults = append(faults, errors.New("REST is missing"))
	}
	if c.Interval < 0 || c.Resync < 0 {
		faults = append(faults, fmt.Errorf("Interval %s or Resync %s is below 0", c.Interval, c.Resync))
	}
	return errors.Join(faults...)
}

// Run publishes the layout of a node until ctx ends, and then returns nil. It returns an error only
// for a Config that can never work; a kubelet or an API server that does not answer is waited for.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("agent configuration: %w", err)
	}
	a, err := newAgent(cfg)
	if err != nil {
		return err
	}
	a.run(ctx, func(ctx context.Context) { watchFiles(ctx, a.look.log, cfg.watched(), a.changes) })
	return nil
}

// agent is the parts of a Run.
type agent struct {
	look    *look
	loop    *loop
	changes *changes
}

func newAgent(cfg Config) (*agent, error) {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Resync == 0 {
		cfg.Resync = DefaultResync
	}
	changes := newChanges()
	k, err := newParts(cfg, changes)
	if err != nil {
		return nil, err
	}
	return &agent{k, &loop{
		pace:    pace{settle: settle, most: mostSettle, look: lookInterval, write: cfg.Interval},
		resync:  cfg.Resync,
		changes: changes,
		look:    k.do,
		looked:  k.cfg.Witness.Looked,
		log:     k.log,
	}, changes}, nil
}

// run looks until ctx ends; watch is what tells of changed files.
func (a *agent) run(ctx context.Context, watch func(context.Context)) {
	defer a.look.service.Close()
	if pods := a.look.cfg.Pods; pods != nil {
		pods(a.look.pods.list)
	}
	runAll(ctx, a.look.pods.run, a.look.own.run, watch,
		func(ctx context.Context) {
			if a.look.pods.wait(ctx) {
				a.loop.run(ctx)
			}
		})
}

// newParts makes the clients of an agent.
func newParts(cfg Config, c *changes) (*look, error) {
	if cfg.Witness == nil {
		cfg.Witness = nobody{}
	}
	if cfg.Rules == nil {
		cfg.Rules = kubelet.Files{File: cfg.KubeletConfig, Dir: cfg.KubeletConfigDir}
	}
	// The pace of the loop bounds the requests; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS = -1
	layouts, err := client.New(rc)
	if err != nil {
		return nil, err
	}
	own, err := newOwn(rc, cfg.NodeName, c.every)
	if err != nil {
		return nil, err
	}
	core, err := objects.NewCore(rc)
	if err != nil {
		return nil, err
	}
	service, err := kubelet.DialPodResources(cfg.PodResourcesSocket, cfg.dial...)
	if err != nil {
		return nil, err
	}
	return &look{cfg: cfg, log: cfg.Logger.WithValues("node", cfg.NodeName), root: os.DirFS(cfg.StateDir), service: service,
		pods: newPodSet(core.Pods, cfg.NodeName, c.some), nodes: core.Nodes, layouts: layouts, own: own, order: newOrder(), claim: newClaim()}, nil
}

// watched names the files whose change means a change of the layout.
func (c *Config) watched() []watched {
	out := []watched{
		{path: filepath.Join(c.StateDir, kubelet.CPUStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.MemoryStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.DeviceStateFile)},
		// The socket is made again when the kubelet restarts, perhaps with another configuration.
		{path: c.PodResourcesSocket, full: true},
	}
	if c.KubeletConfig != "" {
		out = append(out, watched{path: c.KubeletConfig, full: true})
	}
	if c.KubeletConfigDir != "" {
		out = append(out, watched{path: c.KubeletConfigDir, full: true, all: true})
	}
	return out
}

// runAll runs the parts until ctx ends and all of them have returned.
func runAll(ctx context.Context, parts ...func(context.Context)) {
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}
