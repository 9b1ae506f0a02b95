// Package nri pins the containers of a node through the Node Resource Interface of its container runtime, where the
// node's agent is the arbiter. core/pin decides; this package asks it when containers come, change and go, passes the
// answer to the runtime, and keeps what was decided in a file.
//
// Invariant: what the runtime receives was written to the file before, so that an agent that starts again has it. When
// the plugin connects, every container that runs is pinned as core/pin decides, whatever it was pinned to before.
// Exclusive CPUs are taken from other containers before the container that gets them starts.
//
// The package refuses to place a pod that the API server does not have yet, or whose devices cannot be read: such a
// container starts on the CPUs that are shared, or not at all, by [FailurePolicy], and is pinned when its pod is known.
package nri

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// FailurePolicy is what becomes of a container whose pod is not known.
type FailurePolicy string

// The policies, by the names that Kubernetes has for webhooks.
const (
	Ignore FailurePolicy = "Ignore" // it starts, and shares CPUs until its pod is known
	Fail   FailurePolicy = "Fail"   // it does not start; the kubelet tries again
)

// answerTime is how long an answer may take in all, with what the API server is asked for it. By default a runtime
// drops a plugin that takes two seconds.
const answerTime = time.Second

// Pods returns what is known of the pods of the node.
type Pods interface {
	// Arriving returns what is to be known of the pod of a sandbox. ok is false where the API server has no such pod, or
	// does not say so in time.
	Arriving(ctx context.Context, s Sandbox) (a Arriving, ok bool)
	// Ended returns the UIDs of those pods that have ended, by a consistent read of the API server.
	Ended(ctx context.Context, all []Sandbox) (ended []string, err error)
	// Bound returns the pods of the node for which the scheduler has decided, but for some, ordered by UID.
	Bound(but func(uid string) bool) []pin.Arrival
}

// Sandbox is a pod as the runtime has it. The kubelet has written all of it, not the author of the pod.
type Sandbox struct {
	UID, Namespace, Name string
	// Static is set for a pod of the kubelet's files. Its mirror at the API server has another UID.
	Static bool
}

// Arriving is a pod whose containers are about to start.
type Arriving struct {
	Namespace, Name string
	Spec            *place.Pod
	// Decision is what the scheduler has decided; nil: nothing. Refusal is why a decision that is there is not used.
	Decision []place.Holding
	Refusal  error
	// Devices are those that the kubelet has given to the pod's containers.
	Devices []pin.Given
}

// Config is what a plugin needs.
type Config struct {
	Machine *topo.Machine
	Rules   place.Rules
	Pods    Pods
	// State is the file that keeps what was decided. Its directory must be there and must outlive the node's restart.
	State   string
	Failure FailurePolicy // Ignore when empty
	// Placed, if not nil, is called when a pod was placed, with what is wrong with that, if anything; Faulty for a pod
	// with a fault that Placed was not called for, such as one that an earlier agent has placed; Changed when anything
	// about any pod has changed. All must return at once.
	Placed  func(Arriving, pin.Pod)
	Faulty  func(namespace, name string, p pin.Pod)
	Changed func()
	Logger  logr.Logger
}

// Plugin is a plugin of a container runtime. Its exported methods are called by the runtime through the stub, one at a
// time or at once.
type Plugin struct {
	cfg  Config
	file file

	mu   sync.Mutex
	node *pin.Node
	// synchronized: the runtime has said which containers run.
	synchronized bool
	// written is the node that the file has.
	written *pin.Node
	// containers are those that were created and have not ended, by their ID.
	containers map[string]*container
	// known are the pods that the runtime has, by UID.
	known map[string]Sandbox
	// reported are the faults of pods that were passed on, by UID.
	reported map[string]pin.FaultCode
	// near has the NUMA nodes of pods that share CPUs; migrate: their memory is bound there.
	near    map[string]idset.NUMA
	migrate bool
	// pinned receives when all containers of the runtime were pinned after the plugin has connected.
	pinned chan struct{}
	// send asks the runtime for updates that answer none of its requests; nil while there is no runtime. sending: a
	// goroutine does so.
	send    func([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	sending bool
}

// container is one container that the runtime has.
type container struct {
	pod, name string
	sandbox   *api.PodSandbox
	is        pin.Pin // what the runtime received last; the zero Pin: nothing
	made      pin.Pin // what it was created with
	runs      bool    // updates reach it
	differs   int     // how often in a row the kernel had something else
}

// New returns a plugin with the state of its file. It fails where an agent cannot be the arbiter by the rules, and
// where the file cannot be read: a node whose exclusive CPUs are forgotten would give them away twice.
func New(cfg Config) (*Plugin, error) {
	if err := pin.Check(cfg.Machine, cfg.Rules); err != nil {
		return nil, fmt.Errorf("pin containers: %w", err)
	}
	p := &Plugin{cfg: cfg, file: file{cfg.State}, node: pin.New(cfg.Machine, cfg.Rules),
		containers: map[string]*container{}, known: map[string]Sandbox{}, reported: map[string]pin.FaultCode{},
		pinned: make(chan struct{}, 1)}
	if cfg.Failure == "" {
		p.cfg.Failure = Ignore
	}
	pods, err := p.file.read(cfg.Machine)
	if err != nil {
		return nil, err
	}
	p.node = p.node.Restored(pods)
	return p, nil
}

// Node returns what the pods of the node are pinned to now.
func (p *Plugin) Node() *pin.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// Synchronize is called when the plugin connects, with all that the runtime has. Pods without a sandbox are forgotten,
// and every container is pinned.
func (p *Plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox,
	all []*api.Container) ([]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	sandboxes := map[string]*api.PodSandbox{}
	p.known = map[string]Sandbox{}
	for _, s := range pods {
		sandboxes[s.Id], p.known[s.Uid] = s, sandbox(s)
	}
	var gone []string
	for _, known := range p.node.Pods() {
		if _, has := p.known[known.UID]; !has {
			gone = append(gone, known.UID)
		}
	}
	p.node = p.node.Without(gone...)
	p.containers = map[string]*container{}
	var came []*api.PodSandbox
	slices.SortFunc(all, func(a, b *api.Container) int { return int(a.CreatedAt - b.CreatedAt) })
	for _, c := range all {
		s := sandboxes[c.PodSandboxId]
		if s == nil || c.State == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		p.containers[c.Id] = &container{pod: s.Uid, name: c.Name, sandbox: s,
			runs: c.State != api.ContainerState_CONTAINER_CREATED}
		came = append(came, s)
	}
	p.synchronized = true
	p.arriveAll(ctx, came)
	p.tell()
	if err := p.save(); err != nil {
		return nil, err
	}
	select {
	case p.pinned <- struct{}{}:
	default:
	}
	return p.updates(""), nil
}

// CreateContainer pins a container before it starts, and takes its exclusive CPUs from the containers that share them.
func (p *Plugin) CreateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment,
	[]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	before, holds := p.node, p.cfg.Failure == Fail && !sandbox(s).Static
	if !p.arrive(ctx, s) && holds {
		return nil, nil, fmt.Errorf("pod %s/%s is not known yet, so its containers cannot be pinned", s.Namespace, s.Name)
	}
	if err := p.save(); err != nil {
		if holds {
			return nil, nil, err
		}
		p.cfg.Logger.Error(err, "containers share CPUs until that is possible", "pod", s.Namespace+"/"+s.Name)
		p.node = before
	}
	is := p.pin(s.Uid, c.Name)
	p.containers[c.Id] = &container{pod: s.Uid, name: c.Name, sandbox: s, is: is, made: is}
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetCPUs(is.CPUs.String())
	adjust.SetLinuxCPUSetMems(p.mems(is))
	return adjust, p.updates(c.Id), nil
}

// UpdateContainer is called when the kubelet changes the resources of a container in place. Its pod's requests may have
// changed, and with them its exclusive CPUs.
func (p *Plugin) UpdateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container,
	_ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.node
	if a, ok := p.cfg.Pods.Arriving(ctx, sandbox(s)); ok {
		p.resize(s.Uid, a)
	}
	if err := p.save(); err != nil {
		p.cfg.Logger.Error(err, "containers keep their CPUs until that is possible", "pod", s.Namespace+"/"+s.Name)
		p.node = before
	}
	if known := p.containers[c.Id]; known != nil {
		known.is = pin.Pin{} // the kubelet's own update must not take its place
	}
	return p.updates(""), nil
}

// StopContainer is called when a container has ended. What its pod holds stays the pod's.
func (p *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.forget(c.Id)
	if p.cfg.Changed != nil {
		p.cfg.Changed() // its pod may have gone before
	}
	return nil, nil
}

// RemoveContainer forgets a container.
func (p *Plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.forget(c.Id)
	return nil
}

func (p *Plugin) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.containers, id)
}

// RemovePodSandbox ends a pod, unless it has containers in another sandbox: its exclusive CPUs are shared from then on.
func (p *Plugin) RemovePodSandbox(_ context.Context, s *api.PodSandbox) error {
	return p.end(func(one Sandbox) bool { return one.UID == s.Uid })
}

// Left ends pods that are not there any more and have no container that runs. It does nothing before the runtime has
// said which do.
func (p *Plugin) Left(there func(Sandbox) bool) error {
	p.mu.Lock()
	unknown := !p.synchronized
	p.mu.Unlock()
	if unknown {
		return nil
	}
	return p.end(func(one Sandbox) bool { return !there(one) })
}

// Lingering is a pod that is gone at the API server and whose containers still run.
type Lingering struct {
	Namespace, Name string
	pin.Pod
}

// Lingering returns the pods with containers that are not among those that are there, in the order of their arrival.
func (p *Plugin) Lingering(there func(Sandbox) bool) (out []Lingering) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sandboxes := p.sandboxes()
	for _, one := range p.node.Pods() {
		if s := sandboxes[one.UID]; s != nil && !there(sandbox(s)) {
			out = append(out, Lingering{s.Namespace, s.Name, one})
		}
	}
	return out
}

// sandboxes returns the sandboxes of pods with containers, by UID.
func (p *Plugin) sandboxes() map[string]*api.PodSandbox {
	out := map[string]*api.PodSandbox{}
	for _, c := range p.containers {
		out[c.pod] = c.sandbox
	}
	return out
}

// end ends the pods without containers for which over returns true.
func (p *Plugin) end(over func(Sandbox) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uids []string
	for _, one := range p.node.Pods() {
		if over(p.of(one.UID)) && !p.has(one.UID) {
			uids = append(uids, one.UID)
		}
	}
	maps.DeleteFunc(p.known, func(uid string, one Sandbox) bool { return over(one) && !p.has(uid) })
	p.await()
	return p.become(p.node.Without(uids...).Mended())
}

// of returns the pod that the runtime has of a UID.
func (p *Plugin) of(uid string) Sandbox {
	if one, ok := p.known[uid]; ok {
		return one
	}
	return Sandbox{UID: uid}
}

// Use changes the machine or the rules. Pods keep what they hold where the new ones permit it.
func (p *Plugin) Use(m *topo.Machine, r place.Rules) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == p.node.Machine() && r.Equal(p.node.Rules()) {
		return nil
	}
	if err := pin.Check(m, r); err != nil {
		return fmt.Errorf("pin containers: %w", err)
	}
	var kept []pin.Pod
	var anew []pin.Arrival
	for _, one := range p.node.Pods() {
		d := v1alpha1.DecisionOf(p.node.Machine(), one.UID, "", one.Holdings)
		hs, err := d.Holdings(m)
		if err != nil {
			anew = append(anew, pin.Arrival{UID: one.UID, Spec: one.Spec})
			continue
		}
		one.Holdings = hs
		kept = append(kept, one)
	}
	next := pin.New(m, r).Restored(kept, anew...)
	return p.become(next)
}

// Resized receives what a pod requests after the kubelet has carried out a change of its requests.
func (p *Plugin) Resized(uid string, spec *place.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, a := p.node, Arriving{Spec: spec}
	if s := p.sandboxes()[uid]; s != nil {
		a.Namespace, a.Name = s.Namespace, s.Name
	}
	p.resize(uid, a)
	return p.commit(before)
}

// resize changes what a pod holds, unless it holds what it requests.
func (p *Plugin) resize(uid string, a Arriving) {
	p.await()
	before, _ := p.node.Pod(uid)
	next := p.node.Resized(uid, a.Spec)
	after, _ := next.Pod(uid)
	if next == p.node || after.Fault != nil && before.Fault != nil && after.Fault.Code == before.Fault.Code &&
		after.Fault.Resize == before.Fault.Resize {
		return // it is as before, or fails as before
	}
	p.set(next, uid, a)
}

// become makes a node the present one, and has the runtime pin what differs.
func (p *Plugin) become(n *pin.Node) error {
	before := p.node
	if n != before {
		p.set(n, "", Arriving{})
		p.tell()
	}
	return p.commit(before)
}

// commit saves the node and has the runtime pin what differs. Where it cannot be saved, it becomes what it was before.
func (p *Plugin) commit(before *pin.Node) error {
	if err := p.save(); err != nil {
		p.node = before
		return err
	}
	p.push()
	return nil
}

// Arrived places a pod whose containers may have started before it was known.
func (p *Plugin) Arrived(ctx context.Context, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.node.Pod(uid); known || !p.has(uid) {
		return nil
	}
	before := p.node
	p.arrive(ctx, p.sandboxes()[uid])
	return p.commit(before)
}

// sandbox returns the pod of a sandbox. A static pod never waits until it is known: the API server itself may be one.
// The kubelet writes the annotation that says where it has a pod from, whatever the pod's author has written
// (pkg/kubelet/config, podStorage.merge).
func sandbox(s *api.PodSandbox) Sandbox {
	source := s.GetAnnotations()["kubernetes.io/config.source"]
	return Sandbox{UID: s.Uid, Namespace: s.Namespace, Name: s.Name, Static: source == "file" || source == "http"}
}

// has reports whether the runtime has a container of a pod.
func (p *Plugin) has(uid string) bool {
	for _, c := range p.containers {
		if c.pod == uid {
			return true
		}
	}
	return false
}

// arrive places the pod of a sandbox where it is new. It reports whether the pod is known. Where what was decided for
// it is not free, pods that have ended are looked for first: the scheduler may know of their end before the runtime
// does.
func (p *Plugin) arrive(ctx context.Context, s *api.PodSandbox) (known bool) {
	if _, known := p.node.Pod(s.Uid); known {
		return true
	}
	a, ok := p.cfg.Pods.Arriving(ctx, sandbox(s))
	if !ok {
		return false
	}
	p.known[s.Uid] = sandbox(s)
	arrival := pin.Arrival{UID: s.Uid, Spec: a.Spec, Decision: a.Decision, Devices: a.Devices}
	p.await()
	next := p.node.With(arrival)
	if one, _ := next.Pod(s.Uid); one.Fault != nil {
		if ended := p.ended(ctx); len(ended) > 0 {
			p.node = p.node.Without(ended...)
			next = p.node.With(arrival)
		}
	}
	p.set(next, s.Uid, a)
	return true
}

// await keeps free what is decided for pods that are bound to the node and have not arrived.
func (p *Plugin) await() {
	p.node = p.node.Awaiting(p.cfg.Pods.Bound(func(uid string) bool {
		_, arrived := p.node.Pod(uid)
		return arrived
	}))
}

// arriveAll places the pods that came while the agent was away: first those for which the scheduler has decided, so
// that the others do not get what is theirs.
func (p *Plugin) arriveAll(ctx context.Context, all []*api.PodSandbox) {
	for _, decided := range []bool{true, false} {
		for _, s := range all {
			if _, known := p.node.Pod(s.Uid); known {
				continue
			}
			if a, ok := p.cfg.Pods.Arriving(ctx, sandbox(s)); ok && (a.Decision != nil) == decided {
				p.arrive(ctx, s)
			}
		}
	}
}

// ended returns pods that have ended and have no container that runs: one that was deleted by force still has some.
func (p *Plugin) ended(ctx context.Context) []string {
	var all []Sandbox
	for _, known := range p.node.Pods() {
		if !p.has(known.UID) {
			all = append(all, p.of(known.UID))
		}
	}
	if len(all) == 0 {
		return nil
	}
	ended, err := p.cfg.Pods.Ended(ctx, all)
	if err != nil {
		p.cfg.Logger.Error(err, "cannot find out which pods have ended")
	}
	return ended
}

// tell passes on the faults of pods with containers that were not passed on when the pod was placed: the agent may have
// ended before, or the machine or the rules have changed.
func (p *Plugin) tell() {
	sandboxes := p.sandboxes()
	there := map[string]bool{}
	for _, one := range p.node.Pods() {
		there[one.UID] = true
		s := sandboxes[one.UID]
		if s == nil || one.Fault != nil && p.reported[one.UID] == one.Fault.Code {
			continue
		}
		p.passed(one)
		if one.Fault != nil && p.cfg.Faulty != nil {
			p.cfg.Faulty(s.Namespace, s.Name, one)
		}
	}
	maps.DeleteFunc(p.reported, func(uid string, _ pin.FaultCode) bool { return !there[uid] })
}

// passed notes which fault of a pod was passed on.
func (p *Plugin) passed(one pin.Pod) {
	delete(p.reported, one.UID)
	if one.Fault != nil {
		p.reported[one.UID] = one.Fault.Code
	}
}

// set makes a node the present one, and tells of the pod that was placed, if any.
func (p *Plugin) set(n *pin.Node, uid string, a Arriving) {
	p.node = n
	if one, ok := n.Pod(uid); ok {
		p.passed(one)
		if p.cfg.Placed != nil {
			p.cfg.Placed(a, one)
		}
	}
	if p.cfg.Changed != nil {
		p.cfg.Changed()
	}
}
