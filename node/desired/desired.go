// Package desired computes what an agent has to publish about its node: the NodeLayout. It also returns the node as
// readers of this layout see it, because the agent makes a NodeResourceTopology of that node.
//
// Invariant: [Compute] is a pure function of the previous state and one observation. It reads nothing, has no clock,
// and changes neither argument, so equal arguments give equal results. The package does not publish state that is about
// to change: state files between two writes, and the pods of a kubelet that has just started. It never waits longer
// than a bound.
package desired

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Options are the same for all observations of a node.
type Options struct {
	// NodeName is the name of the Node, and of the layout.
	NodeName string
	// Translate returns what a pod requests. With it, a pod that the kubelet is still admitting is left out until
	// the kubelet has assigned all that it requests. Nil leaves no pod out.
	Translate func(*v1.Pod) (*place.Pod, error)
}

// Observation has everything that one reconcile read. It is immutable.
type Observation struct {
	// Time is when the reading began.
	Time time.Time
	// Facts are the facts that this reconcile read. If it did not read them, they are the Facts of the previous State.
	Facts Facts
	// Node is the Node object's part that agents need.
	Node Node
	// Pods are the pods that are bound to the node.
	Pods Pods
	// Kubelet has the podresources answers and the state files. Compute sets its Capacity, Usable and Known itself.
	Kubelet kubelet.Observation
	// Unpinned is the reason why an agent that is the arbiter does not pin containers now. It is "" if the agent pins
	// them, or is not the arbiter.
	Unpinned string
	// Earlier is a layout that an earlier agent published. It is given once, in the first observation after the layout
	// was read.
	Earlier *v1alpha1.NodeLayout
}

// State is what one reconcile passes to the next. The zero State is the state of an agent that has observed nothing.
type State struct {
	// Facts are the machine and the rules that were read last.
	Facts Facts
	// start is the machine of the kubelet's start; see factsAtStart.
	start start
	// order ranks the pods by when they were first seen to hold something.
	order order
	// devices are all devices that the kubelet has listed, so that the NUMA nodes of unhealthy devices are known.
	devices devices
	// files counts how long state files have contradicted themselves.
	files files
	// startup counts how long the kubelet has not listed pods whose resources its managers hold.
	startup startup
	// withDevices and published are the machines that were built last: from the kubelet's devices, and from the layout.
	// They are rebuilt only if their descriptions change.
	withDevices, published builtMachine
}

// Result is the result of an observation.
type Result struct {
	// State is the state to pass to the next Compute.
	State State
	// Layout is the layout to publish, without sequence and agent. It is nil if nothing is to be published now.
	Layout *v1alpha1.NodeLayout
	// Node is the node as readers of Layout see it.
	Node *state.Node
	// Faults are inconsistencies of the observation. They do not prevent a layout from being published.
	Faults []error
	// Again requests another observation soon: data is still missing, and its arrival may change no watched file, so
	// that no trigger would report it.
	Again bool
	// Err is why nothing is published, or which facts of the layout are out of date. Err and Layout may both be nil:
	// then Compute waits for data that is about to change.
	Err error
}

// Compute returns what to publish after an observation, and the next state.
func Compute(opts Options, previous State, o Observation) Result {
	out := Result{State: previous, Err: o.Facts.Stale}
	next := &out.State
	o.Facts = o.Facts.forNode(o.Node)
	next.Facts = o.Facts
	next.learn(o.Earlier)
	if !o.Facts.Known() {
		return out
	}
	seen := o.Kubelet
	next.devices = previous.devices.learn(seen.Allocatable, o.Node.Capacity)
	seen.Capacity, seen.Usable, seen.Known = o.Node.Capacity, o.Node.Usable, next.devices.list()

	var wait bool
	var machineChanged string
	o.Facts, machineChanged = next.factsAtStart(o)
	contradiction := seen.Unsettled(o.Facts.Machine, o.Facts.Rules.CPU)
	if next.files, wait = previous.files.observe(contradiction); wait {
		out.Again = true
		return out
	}
	listed, missing := listedPods(o.Pods, seen)
	if next.startup, wait, out.Again = previous.startup.observe(listed, missing); wait {
		return out
	}
	out.addLayout(opts, o, seen, machineChanged)
	return out
}

// learn takes the order of the pods from the layout of an earlier agent. If s has no machine of the kubelet's start,
// learn takes that from the layout, too. If earlier is nil, learn does nothing.
func (s *State) learn(earlier *v1alpha1.NodeLayout) {
	if earlier == nil {
		return
	}
	var uids []string
	for _, p := range earlier.Holdings {
		uids = append(uids, p.UID)
	}
	s.order = s.order.with(uids...)
	if s.start.machine == nil {
		s.start = publishedStart(earlier)
	}
}

// addLayout adds the layout to the result, or the error that prevents it.
func (r *Result) addLayout(opts Options, o Observation, seen kubelet.Observation, machineChanged string) {
	next, facts := &r.State, o.Facts
	m, err := seen.MachineBy(facts.Machine, next.withDevices.build)
	if err != nil {
		r.Err = errors.Join(err, r.Err)
		return
	}
	all, podErr := seen.Entries(m, o.Pods)
	policyErr := seen.Contradicts(facts.Rules)
	for _, err := range []error{podErr, policyErr, facts.Configuration.Doubt, facts.Configuration.Refusal,
		facts.DetailErr} {
		if err != nil {
			r.Faults = append(r.Faults, err)
		}
	}
	entries := admitted(opts, m, facts.Rules, o.Pods, all)
	for _, h := range seen.Held {
		if !slices.ContainsFunc(all, func(e state.Entry) bool { return e.Pod.UID == h.Pod.UID }) {
			all, entries = append(all, h), append(entries, h)
		}
	}
	next.order = next.order.sort(entries, o.Pods.times)

	l := v1alpha1.FromCore(opts.NodeName, m, facts.Rules, entries, seen.Groups(m, facts.Rules, entries, o.Pods))
	l.Describe(facts.Detail)
	l.Rules.From = facts.source()
	l.Kubelet = facts.kubelet(o.Node)
	l.Kubelet.Started = metav1.NewMicroTime(kubeletStarted(seen))
	l.Inexact = v1alpha1.FromInexact(inexact(o, seen, reasons{machine: m, entries: all, podErr: podErr,
		policyErr: policyErr, contradiction: next.files.accepted, machineChanged: machineChanged}))
	// The layout is parsed as readers will parse it: a layout that they would reject is not published.
	core, err := l.CoreOn(v1alpha1.Sharing{Machine: next.published.build})
	if err != nil {
		r.Err = errors.Join(fmt.Errorf("observation makes no valid layout: %w", err), r.Err)
		return
	}
	l.ObjectMeta = o.Node.meta(opts.NodeName)
	r.Layout, r.Node = l, stateOf(opts.NodeName, core)
}

// admitted returns the entries without the pods that the kubelet is still admitting, whose holdings are incomplete. It
// keeps a pod that the kubelet has reported as started.
func admitted(opts Options, m *topo.Machine, r place.Rules, pods Pods, entries []state.Entry) []state.Entry {
	out := slices.Clone(entries)
	if opts.Translate == nil {
		return out
	}
	return slices.DeleteFunc(out, func(e state.Entry) bool {
		p, ok := pods.get(e.Pod.Namespace, e.Pod.Name)
		if !ok || started(p) {
			return false
		}
		spec, err := opts.Translate(p.Pod)
		return err == nil && !spec.Complete(m, r, e.Holdings)
	})
}

// stateOf returns the node that a layout describes.
func stateOf(name string, l v1alpha1.Layout) *state.Node {
	var held []place.Holding
	for _, e := range l.Entries {
		held = append(held, e.Holdings...)
	}
	u := place.NewUsage(l.Machine, l.Rules).Hold(held...).WithGroups(l.Groups)
	return &state.Node{Name: name, Machine: l.Machine, Rules: l.Rules, Entries: l.Entries, Usage: u, Inexact: l.Inexact}
}

// meta returns the agent's part of the metadata: the Node owns the published objects, and gives them its labels.
func (n Node) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: n.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: n.UID}}}
}

// builtMachine is a machine with the description that it was built from.
type builtMachine struct {
	spec    topo.Spec
	machine *topo.Machine
}

// build returns the machine of a description. If the description is equal to the last one, it returns the same machine.
func (b *builtMachine) build(s topo.Spec) (*topo.Machine, error) {
	if b.machine != nil && reflect.DeepEqual(b.spec, s) {
		return b.machine, nil
	}
	m, err := topo.New(s)
	if err == nil {
		*b = builtMachine{s, m}
	}
	return m, err
}
