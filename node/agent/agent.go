// Package agent keeps one node's NodeLayout true: it discovers the machine, reads the kubelet's
// configuration, observes what every container holds, and publishes when something changed.
//
// Invariant: one agent writes one layout, by server-side apply, at most once per interval, and only
// when its content changed; the first change after a quiet time is written as soon as the kubelet's
// files are at rest. What cannot be read is retried with growing pauses, and the last published layout
// stays. A [Publisher] may bring the same facts into another form, at the same pace; where it fails,
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
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

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
	// KubeletConfig is the path of the KubeletConfiguration, for example /var/lib/kubelet/config.yaml.
	KubeletConfig string
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
}

// Defaults of Config.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultResync   = 30 * time.Second
)

func (c *Config) check() error {
	var faults []error
	for _, f := range []struct{ field, value string }{
		{"NodeName", c.NodeName}, {"KubeletConfig", c.KubeletConfig},
		{"PodResourcesSocket", c.PodResourcesSocket}, {"StateDir", c.StateDir},
	} {
		if f.value == "" {
			faults = append(faults, fmt.Errorf("%s is empty", f.field))
		}
	}
	if c.PodResourcesSocket != "" && !filepath.IsAbs(c.PodResourcesSocket) {
		faults = append(faults, fmt.Errorf("PodResourcesSocket %q is not an absolute path", c.PodResourcesSocket))
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
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Resync == 0 {
		cfg.Resync = DefaultResync
	}
	changes := newChanges()
	k, err := newParts(cfg, changes.some)
	if err != nil {
		return err
	}
	defer k.service.Close()
	if cfg.Pods != nil {
		cfg.Pods(k.pods.list)
	}
	l := &loop{
		pace:    pace{settle: settle, most: mostSettle, look: lookInterval, write: cfg.Interval},
		resync:  cfg.Resync,
		changes: changes,
		look:    k.do,
		looked:  k.cfg.Witness.Looked,
		log:     k.log,
	}
	runAll(ctx,
		k.pods.run,
		func(ctx context.Context) { watchFiles(ctx, k.log, cfg.watched(), changes) },
		func(ctx context.Context) {
			if k.pods.wait(ctx) {
				l.run(ctx)
			}
		})
	return nil
}

// newParts makes the clients of an agent; changed is called when a pod came, went or ended.
func newParts(cfg Config, changed func()) (*look, error) {
	if cfg.Witness == nil {
		cfg.Witness = nobody{}
	}
	// The pace of the loop bounds the requests; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS = -1
	layouts, err := client.New(rc)
	if err != nil {
		return nil, err
	}
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = rc.ContentType + ",application/json"
	core, err := corev1.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("make core client for %s: %w", rc.Host, err)
	}
	service, err := kubelet.DialPodResources(cfg.PodResourcesSocket)
	if err != nil {
		return nil, err
	}
	return &look{cfg: cfg, log: cfg.Logger.WithValues("node", cfg.NodeName), root: os.DirFS(cfg.StateDir),
		service: service, pods: newPodSet(core, cfg.NodeName, changed), core: core, layouts: layouts, order: newOrder()}, nil
}

// watched names the files whose change means a change of the layout.
func (c *Config) watched() []watched {
	return []watched{
		{path: filepath.Join(c.StateDir, kubelet.CPUStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.MemoryStateFile)},
		{path: filepath.Join(c.StateDir, kubelet.DeviceStateFile)},
		{path: c.KubeletConfig, full: true},
		// The socket is made again when the kubelet restarts, perhaps with another configuration.
		{path: c.PodResourcesSocket, full: true},
	}
}

// runAll runs the parts until ctx ends and all of them have returned.
func runAll(ctx context.Context, parts ...func(context.Context)) {
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}
