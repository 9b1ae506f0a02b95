// Package nri pins the containers of a node through the Node Resource Interface of its container runtime, where the
// node's agent is the arbiter. core/pin decides. This package calls it when containers start, change and end, passes
// the decision to the runtime, and stores decisions in a file.
//
// Invariant: the package writes a decision to the file before the runtime receives it, so that the next agent finds it
// there. When the plugin connects, it pins every running container as core/pin decides, whatever the container was
// pinned to before. It takes exclusive CPUs from other containers before it starts the container that gets them.
//
// The package refuses to place a pod that the API server does not have yet, or whose devices cannot be read.
// Depending on [FailurePolicy], the container of such a pod starts on the shared CPUs, or does not start. It is
// pinned when its pod is known.
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

// FailurePolicy selects what happens to a container whose pod is not known.
type FailurePolicy string

// The policies have the names of Kubernetes' failure policies for webhooks.
const (
	Ignore FailurePolicy = "Ignore" // the container starts, and shares CPUs until its pod is known
	Fail   FailurePolicy = "Fail"   // the container does not start; the kubelet tries again
)

// answerTime bounds the time for one answer to the runtime, including requests to the API server. By default a
// runtime disconnects a plugin that takes two seconds.
const answerTime = time.Second

// Pods returns data about the pods of the node.
type Pods interface {
	// Arriving returns the data about the pod of a sandbox. ok is false if the pod cannot be placed yet: the API server
	// has no such pod or does not answer in time, or the pod's requests or devices cannot be read.
	Arriving(ctx context.Context, s Sandbox) (a Arriving, ok bool)
	// Ended returns the UIDs of the given pods that have ended, by a consistent read of the API server that is at most
	// a fraction of a second old.
	Ended(ctx context.Context, all []Sandbox) (ended []string, err error)
	// Bound returns the pods that are bound to the node with a decision of the scheduler, ordered by UID. It leaves out
	// the pods for whose UID except returns true.
	Bound(except func(uid string) bool) []pin.Arrival
}

// Sandbox identifies a pod of the runtime. The kubelet writes all its fields; the author of the pod writes none.
type Sandbox struct {
	UID, Namespace, Name string
	// Static is set for a pod from the kubelet's files. Its mirror at the API server has another UID.
	Static bool
}

// Arriving is a pod whose containers are about to start.
type Arriving struct {
	Namespace, Name string
	Spec            *place.Pod
	// Decision is the scheduler's decision, or nil if there is none. Refusal is the reason why an existing decision is not
	// used.
	Decision []place.Holding
	Refusal  error
	// Devices are the devices that the kubelet has given to the pod's containers.
	Devices []pin.Given
}

// Config is the configuration of a plugin.
type Config struct {
	Machine *topo.Machine
	Rules   place.Rules
	Pods    Pods
	// State is the path of the file that stores decisions. Its directory must exist, and must survive a restart of the
	// node.
	State   string
	Failure FailurePolicy // "" means Ignore
	// The plugin calls these functions, which may be nil and must return at once. Placed receives every pod that was
	// placed, with its fault if it has one. Faulty receives a pod with a fault if Placed has not received that fault,
	// for example because an earlier agent placed the pod. Changed is called when any pod has changed.
	Placed  func(Arriving, pin.Pod)
	Faulty  func(namespace, name string, p pin.Pod)
	Changed func()
	Logger  logr.Logger
}

// Plugin pins the containers of one runtime. The runtime calls its exported methods through the stub, possibly
// several at once.
type Plugin struct {
	cfg  Config
	file file

	mu   sync.Mutex
	node *pin.Node
	// synchronized is set once the runtime has listed its running containers.
	synchronized bool
	// written is the node that the file contains.
	written *pin.Node
	// containers are the containers that were created and have not ended, by ID.
	containers map[string]*container
	// known are the pods that the runtime has, by UID.
	known map[string]Sandbox
	// reported are the faults of pods that were reported already, by UID.
	reported map[string]pin.FaultCode
	// near has, by UID, the NUMA node of each pod that shares CPUs and was given one by Near. If migrate is set, the
	// memory of these pods is bound there, too.
	near    map[string]idset.NUMA
	migrate bool
	// pinned gets an element when all containers of the runtime are pinned after the plugin has connected.
	pinned chan struct{}
	// send sends updates to the runtime that are not part of an answer; it is nil while no runtime is connected.
	// sending is set while a goroutine calls send.
	send    func([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	sending bool
}

// container is one container of the runtime.
type container struct {
	pod, name string
	sandbox   *api.PodSandbox
	sent      pin.Pin // last pin that the runtime received; the zero Pin if it has to be sent (again)
	created   pin.Pin // pin at its creation, which it keeps until an update reaches it
	runs      bool    // it runs, so updates reach it
	differs   int     // how often in a row the kernel had another pin
}

// New returns a plugin with the decisions of its file. It fails where the rules do not allow an agent as the arbiter.
// It also fails where the file cannot be read: an agent without the stored decisions would give exclusive CPUs away
// twice.
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

// Node returns the present pins of the node's pods.
func (p *Plugin) Node() *pin.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// Synchronize is called when the plugin connects, with all pods and containers of the runtime. It forgets pods without
// a sandbox, and pins every container.
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
	var present []*api.PodSandbox
	slices.SortFunc(all, func(a, b *api.Container) int { return int(a.CreatedAt - b.CreatedAt) })
	for _, c := range all {
		s := sandboxes[c.PodSandboxId]
		if s == nil || c.State == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		p.containers[c.Id] = &container{pod: s.Uid, name: c.Name, sandbox: s,
			runs: c.State != api.ContainerState_CONTAINER_CREATED}
		present = append(present, s)
	}
	p.synchronized = true
	p.arriveAll(ctx, present)
	p.reportFaults()
	if err := p.save(); err != nil {
		return nil, err
	}
	select {
	case p.pinned <- struct{}{}:
	default:
	}
	return p.updates(""), nil
}

// CreateContainer pins a container before it starts, and takes its exclusive CPUs from the containers that share
// them. Under the policy Fail it returns an error if the pod is not known or its decision cannot be saved, unless the
// pod is static. Otherwise such a container shares CPUs.
func (p *Plugin) CreateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment,
	[]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	before, mustPin := p.node, p.cfg.Failure == Fail && !sandbox(s).Static
	if !p.arrive(ctx, s) && mustPin {
		return nil, nil, fmt.Errorf("pod %s/%s is not known yet, so its containers cannot be pinned", s.Namespace, s.Name)
	}
	if err := p.save(); err != nil {
		if mustPin {
			return nil, nil, err
		}
		p.cfg.Logger.Error(err, "containers share CPUs until that is possible", "pod", s.Namespace+"/"+s.Name)
		p.node = before
	}
	want := p.pin(s.Uid, c.Name)
	p.containers[c.Id] = &container{pod: s.Uid, name: c.Name, sandbox: s, sent: want, created: want}
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetCPUs(want.CPUs.String())
	adjust.SetLinuxCPUSetMems(p.mems(want))
	return adjust, p.updates(c.Id), nil
}

// UpdateContainer is called when the kubelet changes the resources of a container in place. The requests of the pod may
// have changed, and its exclusive CPUs with them.
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
		known.sent = pin.Pin{} // send the pin again: the kubelet's update may replace it
	}
	return p.updates(""), nil
}

// StopContainer is called when a container has ended. The pod keeps its holdings.
func (p *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.forget(c.Id)
	if p.cfg.Changed != nil {
		p.cfg.Changed() // the pod may be deleted already, and end now that its container has
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

// RemovePodSandbox ends a pod, unless it has containers in another sandbox. Its exclusive CPUs become shared.
func (p *Plugin) RemovePodSandbox(_ context.Context, s *api.PodSandbox) error {
	return p.endPods(func(one Sandbox) bool { return one.UID == s.Uid })
}

// Left ends the pods for which the given function returns false, because the API server no longer has them, unless
// the runtime still has a container of the pod. It does nothing before the runtime has listed its running containers.
func (p *Plugin) Left(exists func(Sandbox) bool) error {
	p.mu.Lock()
	unknown := !p.synchronized
	p.mu.Unlock()
	if unknown {
		return nil
	}
	return p.endPods(func(one Sandbox) bool { return !exists(one) })
}

// Lingering is a pod that the API server has deleted and whose containers still run.
type Lingering struct {
	Namespace, Name string
	pin.Pod
}

// Lingering returns the pods that have containers although the given function returns false for them, in the order of
// their arrival.
func (p *Plugin) Lingering(exists func(Sandbox) bool) (out []Lingering) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sandboxes := p.sandboxes()
	for _, one := range p.node.Pods() {
		if s := sandboxes[one.UID]; s != nil && !exists(sandbox(s)) {
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

// endPods forgets the pods for which over returns true, if they have no containers left, and so frees what they held.
// Other pods may then get these CPUs (pin.Node.Mended).
func (p *Plugin) endPods(over func(Sandbox) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uids []string
	for _, one := range p.node.Pods() {
		if over(p.sandboxOf(one.UID)) && !p.hasContainer(one.UID) {
			uids = append(uids, one.UID)
		}
	}
	maps.DeleteFunc(p.known, func(uid string, one Sandbox) bool { return over(one) && !p.hasContainer(uid) })
	p.reserveForBound()
	return p.replaceNode(p.node.Without(uids...).Mended())
}

// sandboxOf returns the runtime's pod with a UID, or a Sandbox with only the UID if the runtime has no such pod.
func (p *Plugin) sandboxOf(uid string) Sandbox {
	if one, ok := p.known[uid]; ok {
		return one
	}
	return Sandbox{UID: uid}
}

// Use changes the machine or the rules. Pods keep their holdings if the new machine and rules permit them; the others
// are placed anew. Use returns an error, and changes nothing, if an agent cannot be the arbiter with these.
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
	return p.replaceNode(next)
}

// Resized receives the new request of a pod after the kubelet has carried out a resize.
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

// resize changes the holdings of a pod to match a's request. It does nothing if they match already, or if the resize
// has the same fault as the last attempt.
func (p *Plugin) resize(uid string, a Arriving) {
	p.reserveForBound()
	before, _ := p.node.Pod(uid)
	next := p.node.Resized(uid, a.Spec)
	after, _ := next.Pod(uid)
	if next == p.node || sameFault(before.Fault, after.Fault) {
		return
	}
	p.setNode(next, uid, a)
}

// replaceNode makes n the present node, reports faults that are not reported yet, and pins the containers whose pin
// differs.
func (p *Plugin) replaceNode(n *pin.Node) error {
	before := p.node
	if n != before {
		p.setNode(n, "", Arriving{})
		p.reportFaults()
	}
	return p.commit(before)
}

// commit saves the present node, and pins the containers whose pin differs. If the node cannot be saved, commit makes
// before the present node again, and returns the error.
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
	if _, known := p.node.Pod(uid); known || !p.hasContainer(uid) {
		return nil
	}
	before := p.node
	p.arrive(ctx, p.sandboxes()[uid])
	return p.commit(before)
}

// sandbox returns the pod of a sandbox. A static pod never waits for the API server: the API server itself may be one.
// The kubelet overwrites the annotation with the pod's source, so the pod's author cannot forge it (pkg/kubelet/config,
// podStorage.merge).
func sandbox(s *api.PodSandbox) Sandbox {
	source := s.GetAnnotations()["kubernetes.io/config.source"]
	return Sandbox{UID: s.Uid, Namespace: s.Namespace, Name: s.Name, Static: source == "file" || source == "http"}
}

// hasContainer reports whether the runtime has a container of a pod.
func (p *Plugin) hasContainer(uid string) bool {
	for _, c := range p.containers {
		if c.pod == uid {
			return true
		}
	}
	return false
}

// arrive places the pod of a sandbox if it is new, and reports whether the pod is known. If the placement has a
// fault, for example because decided CPUs are not free, arrive removes the pods that have ended according to the API
// server, and places the pod again. The scheduler may have counted their CPUs as free before the runtime reported
// their end.
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
	p.reserveForBound()
	next := p.node.With(arrival)
	if one, _ := next.Pod(s.Uid); one.Fault != nil {
		if ended := p.ended(ctx); len(ended) > 0 {
			p.node = p.node.Without(ended...)
			next = p.node.With(arrival)
		}
	}
	p.setNode(next, s.Uid, a)
	return true
}

// reserveForBound makes the present node keep free the CPUs that the scheduler has decided for pods that are bound to
// the node and have not arrived.
func (p *Plugin) reserveForBound() {
	p.node = p.node.Awaiting(p.cfg.Pods.Bound(func(uid string) bool {
		_, arrived := p.node.Pod(uid)
		return arrived
	}))
}

// arriveAll places the pods that arrived while the agent was away. Pods with a decision of the scheduler come first, so
// that no other pod gets their CPUs.
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

// ended returns the UIDs of pods that have ended while the runtime has no container for them. A pod that was deleted
// by force may still have one. If the API server does not answer, ended logs the error and returns nil.
func (p *Plugin) ended(ctx context.Context) []string {
	var all []Sandbox
	for _, known := range p.node.Pods() {
		if !p.hasContainer(known.UID) {
			all = append(all, p.sandboxOf(known.UID))
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

// reportFaults reports, for pods with containers, the faults that were not reported when the pod was placed. An
// earlier agent may have placed the pod, or the machine or the rules may have changed since.
func (p *Plugin) reportFaults() {
	sandboxes := p.sandboxes()
	present := map[string]bool{}
	for _, one := range p.node.Pods() {
		present[one.UID] = true
		s := sandboxes[one.UID]
		if s == nil || one.Fault != nil && p.reported[one.UID] == one.Fault.Code {
			continue
		}
		p.recordReported(one)
		if one.Fault != nil && p.cfg.Faulty != nil {
			p.cfg.Faulty(s.Namespace, s.Name, one)
		}
	}
	maps.DeleteFunc(p.reported, func(uid string, _ pin.FaultCode) bool { return !present[uid] })
}

// recordReported records which fault of a pod was reported.
func (p *Plugin) recordReported(one pin.Pod) {
	delete(p.reported, one.UID)
	if one.Fault != nil {
		p.reported[one.UID] = one.Fault.Code
	}
}

// setNode makes n the present node, and reports the pod with the UID as placed, if n has it.
func (p *Plugin) setNode(n *pin.Node, uid string, a Arriving) {
	p.node = n
	if one, ok := n.Pod(uid); ok {
		p.recordReported(one)
		if p.cfg.Placed != nil {
			p.cfg.Placed(a, one)
		}
	}
	if p.cfg.Changed != nil {
		p.cfg.Changed()
	}
}
