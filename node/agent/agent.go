// Package agent keeps one node's NodeLayout true: it discovers the machine, reads the kubelet's
// configuration, observes what every container holds, and publishes when something changed.
//
// Invariant: one agent writes one layout, by server-side apply, at most once per interval, and only
// when its content changed; the first change after a quiet time is written as soon as the kubelet's
// files are at rest. Of its objects at the API server it learns by watches, and reads them where something is
// odd, and else seldom. What cannot be read is retried with growing pauses, and the last published layout
// stays; where only the machine or the rules cannot be read, holdings are published with those last known,
// and nothing is published before both are known. A layout that somebody else changed or deleted is
// written again at once, but of two agents that claim one node the later one writes and the other stands
// by. A [Publisher] may bring the same facts into another form, at the same pace; where it fails,
// the layout is written all the same. An agent has no state outside its Run, so a process may run many.
//
// The package refuses to judge: it publishes what the kubelet says, and places nothing.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// MachineReader reads the node's hardware. It need not know devices: the kubelet reports them.
type MachineReader interface {
	// ReadMachine returns the machine, and the detail on which nothing that fits depends. The machine is nil where
	// it cannot be read. Where there is a machine and an error, the detail could not be read.
	ReadMachine(ctx context.Context) (*topo.Machine, v1alpha1.Detail, error)
}

// Publisher brings what the agent sees of its node into another form than the layout.
type Publisher interface {
	// Object is the kind of what is published.
	Object() string
	// Resource is where the API server has it.
	Resource() schema.GroupVersionResource
	// Publish writes the node's state where that changes what is published, as an object with the name, the
	// labels and the owners of as. With read, nothing that was known of the object before may be kept: it is
	// read as these options say. is is the object as it was read or written, nil where it was neither.
	Publish(ctx context.Context, n *ledger.Node, as metav1.ObjectMeta, read *metav1.GetOptions) (is metav1.Object, wrote bool, err error)
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
	Machine  MachineReader
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
	// Pulse is told when looks begin and end; it may be nil.
	Pulse *Pulse
	// Pods, where it is not nil, is called once, before the first look, with a function that lists the pods
	// of the node as far as they are known. That may be called from any goroutine; its pods have no more
	// than the agent needs, and the IDs of the containers that run, and are not to be changed.
	Pods func(list func() []*v1.Pod)

	// Labels are the keys of labels that are copied from the Node to what is published, at most MaxLabels.
	Labels []string

	// Interval is the least time between two writes, between MinInterval and MaxInterval; 0 means 200 ms.
	Interval time.Duration
	// Resync is the time between readings of everything on this host, between MinResync and MaxResync; 0
	// means 30 s.
	Resync time.Duration
	// Reread is the time between readings of what is published that no watch asks for, between MinResync and
	// MaxReread; 0 means 10 minutes.
	Reread time.Duration

	// dial is added to how the podresources service is reached.
	dial []grpc.DialOption
}

// Defaults and bounds of Config. What is written more often than a hundred times a second, nobody reads; what is
// looked at less often than these, somebody would take for broken.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultResync   = 30 * time.Second
	DefaultReread   = 10 * time.Minute

	MinInterval, MaxInterval = 10 * time.Millisecond, time.Minute
	MinResync, MaxResync     = time.Second, time.Hour
	MaxReread                = 24 * time.Hour
	MaxLabels                = 16
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
	for _, d := range []struct {
		field            string
		value, low, high time.Duration
	}{{"Interval", c.Interval, MinInterval, MaxInterval}, {"Resync", c.Resync, MinResync, MaxResync}, {"Reread", c.Reread, MinResync, MaxReread}} {
		if d.value != 0 && (d.value < d.low || d.value > d.high) {
			faults = append(faults, fmt.Errorf("%s %s is not between %s and %s", d.field, d.value, d.low, d.high))
		}
	}
	return errors.Join(append(faults, CheckLabels(c.Labels))...)
}

// CheckLabels says what is wrong with the keys of labels that are to be copied.
func CheckLabels(keys []string) error {
	if len(keys) > MaxLabels {
		return fmt.Errorf("%d labels to copy, at most %d are", len(keys), MaxLabels)
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			return fmt.Errorf("label %q is named twice", k)
		}
		if faults := validation.IsQualifiedName(k); len(faults) > 0 {
			return fmt.Errorf("label %q: %s", k, strings.Join(faults, "; "))
		}
	}
	return nil
}

// withDefaults returns the configuration with what it leaves open.
func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Resync = cmp.Or(c.Resync, DefaultResync)
	c.Reread = cmp.Or(c.Reread, DefaultReread)
	if c.Witness == nil {
		c.Witness = nobody{}
	}
	if c.Pulse == nil {
		c.Pulse = &Pulse{}
	}
	if c.Rules == nil {
		c.Rules = kubelet.Files{File: c.KubeletConfig, Dir: c.KubeletConfigDir}
	}
	return c
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
	changes := newChanges()
	k, err := newParts(cfg, changes)
	if err != nil {
		return nil, err
	}
	k.cfg.Pulse.every(k.cfg.Resync)
	return &agent{k, &loop{
		pace:    pace{settle: settle, most: mostSettle, look: lookInterval, write: k.cfg.Interval},
		resync:  k.cfg.Resync,
		changes: changes,
		look:    k.do,
		looked:  k.cfg.Witness.Looked,
		pulse:   k.cfg.Pulse,
		log:     k.log,
	}, changes}, nil
}

// run looks until ctx ends; watch is what tells of changed files.
func (a *agent) run(ctx context.Context, watch func(context.Context)) {
	defer a.look.service.Close()
	if pods := a.look.cfg.Pods; pods != nil {
		pods(a.look.pods.list)
	}
	watches := []func(context.Context){a.look.pods.run, a.look.home.run, a.look.own.run, watch}
	if a.look.also != nil {
		watches = append(watches, a.look.also.run)
	}
	runAll(ctx, append(watches,
		func(ctx context.Context) {
			if a.look.pods.wait(ctx) {
				a.loop.run(ctx)
			}
		})...)
}

// newParts makes the clients of an agent.
func newParts(cfg Config, c *changes) (*look, error) {
	cfg = cfg.withDefaults()
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
	k := &look{cfg: cfg, log: cfg.Logger.WithValues("node", cfg.NodeName), root: kubelet.Dir(cfg.StateDir), service: service,
		pods: newPodSet(core.Pods, cfg.NodeName, c.some), nodes: core.Nodes, layouts: layouts, order: newOrder(), devices: newDevices(), claim: newClaim(),
		home: newHome(core.Nodes, cfg.NodeName, cfg.Labels, c.some),
		own:  newOwn(meta.Resource(v1alpha1.NodeLayoutResource()), cfg.NodeName, cfg.Labels, c.every),
		// Agents that start at once do not read at once for ever.
		slow: time.Now().Add(rand.N(cfg.Reread))}
	if p := cfg.Publisher; p != nil {
		k.also = newOwn(meta.Resource(p.Resource()), cfg.NodeName, cfg.Labels, c.every)
	}
	return k, nil
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
