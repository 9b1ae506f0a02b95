// Package arbiter makes an agent the arbiter of its node. While the kubelet's managers are off, the agent places the
// pods of the node by its own rules, and pins their containers through the container runtime.
//
// Invariant: the agent publishes the decisions of the plugin (node/nri) in the form that a kubelet with static
// managers uses for its own. While the kubelet's managers are on, the package pins nothing. Pods come from the
// agent's watch; where a container starts before the watch has its pod, the package asks the API server.
//
// The package refuses to decide what a container gets: core/pin does.
package arbiter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/cgroup"
	"github.com/tenon-numa/tenon/node/desired"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/nri"
)

// Config is the configuration of an Arbiter.
type Config struct {
	NodeName string
	REST     *rest.Config
	// Socket is the container runtime's socket for NRI plugins. State is the file that stores decisions; the
	// Arbiter creates its directory.
	Socket, State string
	Failure       nri.FailurePolicy
	// PodResourcesSocket and StateDir have the meaning of the fields in the agent's configuration.
	PodResourcesSocket, StateDir string
	// Translate returns the request of a pod.
	Translate func(*v1.Pod) (*place.Pod, error)
	// Kernel reads the pins of containers, so that a container that is not pinned as decided is pinned again. If it is
	// nil, pins are not compared with the decisions.
	Kernel Kernel
	// Affinity runs beside the plugin; it may be nil.
	Affinity Affinity
	Logger   logr.Logger
}

// Kernel reads the CPUs and NUMA nodes to which the kernel restricts a container: its cpuset.
type Kernel interface {
	Cpuset(cgroup.Container) (cgroup.Cpuset, error)
}

// Affinity places pods that share CPUs on NUMA nodes.
type Affinity interface {
	// Run runs until ctx ends. list returns the pods of the node. plugin returns the plugin that pins them, or nil
	// while the agent is not the arbiter.
	Run(ctx context.Context, list func() []*v1.Pod, plugin func() *nri.Plugin)
}

// Arbiter pins the containers of one node. It pins nothing before Run is called.
type Arbiter struct {
	cfg    Config
	pods   *pods
	report *reporter

	// plugin pins containers while the agent is the arbiter; nil otherwise. Only Observe changes it.
	plugin *nri.Plugin
	// current is plugin, for other goroutines.
	current atomic.Pointer[nri.Plugin]
	// machines keeps the machine with its devices while the plugin uses it.
	machines topo.Pool
	// late has the UIDs of pods whose decision came too late, after that was reported. Only Observe uses it.
	late map[string]bool
	// begin receives the plugin that Run has to connect to the runtime, or nil to connect none.
	begin chan *nri.Plugin

	mu      sync.Mutex
	changed func()
	// tried is closed after the first attempt to connect the current plugin. err is the reason why that plugin is not
	// connected now; it is nil before the first attempt.
	tried chan struct{}
	err   error
}

// New returns an Arbiter that pins nothing yet.
func New(cfg Config) (*Arbiter, error) {
	p, err := newPods(cfg)
	if err != nil {
		return nil, err
	}
	r, err := newReporter(cfg)
	if err != nil {
		return nil, err
	}
	return &Arbiter{cfg: cfg, pods: p, report: r, begin: make(chan *nri.Plugin, 1), changed: func() {}}, nil
}

// Run keeps the current plugin connected to the container runtime until ctx ends. Beside that it runs the Affinity
// and sends events. list returns the pods of the node, and changed is called when any pin has changed. Both may be
// called from any goroutine.
func (a *Arbiter) Run(ctx context.Context, list func() []*v1.Pod, changed func()) {
	a.pods.setList(list)
	a.mu.Lock()
	a.changed = changed
	a.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { a.report.events.run(ctx) })
	if a.cfg.Affinity != nil {
		all.Go(func() { a.cfg.Affinity.Run(ctx, list, a.current.Load) })
	}
	stop := func() {}
	for {
		select {
		case <-ctx.Done():
			stop()
			_ = a.pods.service.Close() // the client only reads, so no data can be lost
			return
		case p := <-a.begin:
			stop()
			stop = func() {}
			if p == nil {
				continue
			}
			pluginCtx, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			all.Go(func() {
				defer close(ended)
				p.Run(pluginCtx, a.cfg.Socket, a.connected)
			})
			stop = func() {
				cancel()
				<-ended
			}
		}
	}
}

// connected receives the result of an attempt to connect to the runtime: nil if containers are pinned. It triggers a
// reconcile when pinning begins or fails, because the layout shows that.
func (a *Arbiter) connected(err error) {
	a.mu.Lock()
	was := a.err
	a.err = err
	select {
	case <-a.tried:
	default:
		close(a.tried)
	}
	changed := a.changed
	a.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		a.cfg.Logger.Error(err, "containers are not pinned; will connect again")
	case err == nil:
		a.cfg.Logger.Info("containers are pinned", "runtime", a.cfg.Socket)
	}
	if (was == nil) != (err == nil) {
		changed()
	}
}

// unconnected is the published reason why the agent does not pin. The text is the same for every attempt, so that a
// new error does not cause a write.
const unconnected = "the agent is not connected to the container runtime, so containers start without being pinned; " +
	"the agent's log says why"

// Observe receives the facts that a reconcile has read. Where the agent is the arbiter, Observe updates the plugin, and
// replaces the kubelet's state files in seen by the plugin's decisions. It waits until the plugin has tried once to
// connect, or ctx ends. unpinned is the reason why containers are not pinned; it is "" where they are pinned, or where
// the kubelet is the arbiter.
func (a *Arbiter) Observe(ctx context.Context, f desired.Facts,
	seen *kubelet.Observation) (unpinned string, err error) {
	if f.Rules.Arbiter != place.ByAgent {
		return "", a.setPlugin(ctx, nil)
	}
	m, err := seen.MachineBy(f.Machine, a.machines.New)
	if err != nil {
		return "", fmt.Errorf("arbiter: %w", err)
	}
	if err := a.updatePlugin(ctx, m, f.Rules); err != nil {
		return "", fmt.Errorf("arbiter: %w", err)
	}
	a.mu.Lock()
	tried := a.tried
	a.mu.Unlock()
	select {
	case <-tried:
	case <-ctx.Done():
	}
	exists, err := a.passPods(ctx)
	if err != nil {
		return "", fmt.Errorf("arbiter: %w", err)
	}
	a.reportLate()
	a.comparePins()
	for _, l := range a.plugin.Lingering(exists) {
		if len(l.Holdings) > 0 {
			seen.Held = append(seen.Held, state.Entry{Holdings: l.Holdings,
				Pod: state.PodID{UID: l.UID, Namespace: l.Namespace, Name: l.Name}})
		}
	}
	seen.CPU, seen.Memory = stateOf(a.plugin.Node())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || ctx.Err() != nil {
		return unconnected, nil
	}
	return "", nil
}

// updatePlugin makes a plugin for the machine and the rules, or passes them to the existing plugin.
func (a *Arbiter) updatePlugin(ctx context.Context, m *topo.Machine, r place.Rules) error {
	a.pods.setMachine(m)
	if a.plugin != nil {
		return a.plugin.Use(m, r)
	}
	if err := os.MkdirAll(filepath.Dir(a.cfg.State), 0o700); err != nil {
		return err
	}
	p, err := nri.New(nri.Config{Machine: m, Rules: r, Pods: a.pods, State: a.cfg.State, Failure: a.cfg.Failure,
		Placed: a.report.placed, Faulty: a.report.faulty, Changed: func() {
			a.mu.Lock()
			changed := a.changed
			a.mu.Unlock()
			changed()
		}, Logger: a.cfg.Logger})
	if err != nil {
		return err
	}
	return a.setPlugin(ctx, p)
}

// setPlugin makes p the current plugin, and makes Run connect it. If p is nil, Run only disconnects the current
// plugin. setPlugin returns an error if ctx ends before Run can receive p.
func (a *Arbiter) setPlugin(ctx context.Context, p *nri.Plugin) error {
	if a.plugin == p {
		return nil
	}
	a.mu.Lock()
	a.tried, a.err = make(chan struct{}), nil
	a.mu.Unlock()
	select {
	case a.begin <- p:
		a.plugin = p
		a.current.Store(p)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passPods passes to the plugin what the runtime may not have reported: which pods the node has, which have ended,
// and which were resized. It returns a function that reports whether the API server still has the pod of a sandbox,
// according to the agent's watch.
func (a *Arbiter) passPods(ctx context.Context) (exists func(nri.Sandbox) bool, err error) {
	all, resized := a.pods.active()
	exists = existsIn(all)
	if err := a.plugin.Left(exists); err != nil {
		return nil, err
	}
	for _, pod := range all {
		uid := string(pod.UID)
		if apipod.Mirror(pod) {
			uid = apipod.StaticUID(pod)
		}
		if err := a.plugin.Arrived(ctx, uid); err != nil {
			return nil, err
		}
	}
	for uid, spec := range resized {
		if err := a.plugin.Resized(uid, spec); err != nil {
			return nil, err
		}
	}
	return exists, nil
}

// reportLate reports decisions of the scheduler that arrived after the plugin had placed their pods without a
// decision. The agent does not move such a pod. Its node reports where it is, and schedulers follow the report.
func (a *Arbiter) reportLate() {
	late, n := map[string]bool{}, a.plugin.Node()
	for _, pod := range a.pods.withDecision() {
		uid := string(pod.UID)
		p, arrived := n.Pod(uid)
		if !arrived || p.Offered {
			continue
		}
		if late[uid] = true; !a.late[uid] {
			a.report.late(pod.Pod, p)
		}
	}
	a.late = late
}

// comparePins reads the cpusets of running containers from the kernel, and passes them to the plugin. The plugin pins
// again the containers whose cpuset differs from its decisions.
func (a *Arbiter) comparePins() {
	if a.cfg.Kernel == nil {
		return
	}
	found := map[string]nri.Cpuset{}
	for _, c := range cgroup.Running(a.pods.watched()) {
		set, err := a.cfg.Kernel.Cpuset(c)
		if err != nil {
			continue // the container has ended, or runs in a virtual machine
		}
		_, id, _ := strings.Cut(c.ID, "://")
		found[id] = nri.Cpuset(set)
	}
	a.plugin.Compare(found)
}

// stateOf returns the pins of pods in the form of the kubelet's state files.
func stateOf(n *pin.Node) (*kubelet.CPUState, *kubelet.MemoryState) {
	cpu := &kubelet.CPUState{Policy: "static", Shared: n.Shared(),
		Containers: map[string]map[string]idset.Set[idset.CPU]{}}
	memory := &kubelet.MemoryState{Policy: "Static", Containers: map[string]map[string][]kubelet.MemoryBlock{}}
	if !n.Rules().Memory.Static {
		memory.Policy = "None"
	}
	for _, p := range n.Pods() {
		cpus, blocks := map[string]idset.Set[idset.CPU]{}, map[string][]kubelet.MemoryBlock{}
		for _, h := range p.Holdings {
			if !h.CPUs.Empty() {
				cpus[h.Container] = h.CPUs
			}
			for _, b := range h.Memory {
				blocks[h.Container] = append(blocks[h.Container], kubelet.MemoryBlock{Kind: b.Kind, Bytes: b.Bytes,
					NUMAs: idset.Of(n.Machine().IDs(b.NUMAs)...)})
			}
		}
		if len(cpus) > 0 {
			cpu.Containers[p.UID] = cpus
		}
		if len(blocks) > 0 {
			memory.Containers[p.UID] = blocks
		}
	}
	return cpu, memory
}
