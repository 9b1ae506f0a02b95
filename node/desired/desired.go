// Package desired computes what an agent has to publish of its node: the NodeLayout, and the node as readers of that
// layout have it, of which a NodeResourceTopology is made.
//
// Invariant: [Compute] is a pure function of the previous state and one observation. It reads nothing, has no clock,
// and changes neither argument, so equal arguments give equal results. The package refuses to publish what is about
// to change anyway: state files between two writes, and the pods of a kubelet that has just started. It never
// refuses for longer than a bound.
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
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
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

// Observation is everything that one reconcile read. Nobody changes it after it was made.
type Observation struct {
	// Time is when the reading began.
	Time time.Time
	// Facts are as read by this reconcile, or as in the previous state where it did not read them.
	Facts Facts
	// Node is what the API server has of the Node.
	Node Node
	// Pods are the pods that are bound to the node.
	Pods Pods
	// Kubelet has the podresources answers and the state files. Its Capacity and Known are not used.
	Kubelet kubelet.Observation
	// PublishedOrder has the UIDs of the pods of a layout that an earlier agent published, in the order of that
	// layout. It is given once, in the first observation after the layout was read.
	PublishedOrder []string
}

// State is what one reconcile passes to the next. The zero State is that of an agent that has observed nothing.
type State struct {
	// Facts are the machine and the rules as last read.
	Facts Facts
	// order ranks the pods by when they were first seen to hold something.
	order order
	// devices are those that the kubelet has listed, so that unhealthy ones are known by their NUMA nodes.
	devices devices
	// files says how long state files have contradicted themselves.
	files files
	// startup says how long the kubelet has not listed pods whose resources its managers hold.
	startup startup
	// withDevices and published are the machines that were built last: of the kubelet's devices, and of the layout.
	// They are built again only where their descriptions change.
	withDevices, published builtMachine
}

// Result is what follows from an observation.
type Result struct {
	// State is the previous state of the next observation.
	State State
	// Layout is what is to be published, without sequence and agent. It is nil where nothing is.
	Layout *v1alpha1.NodeLayout
	// Node is the node as readers of Layout have it.
	Node *ledger.Node
	// Faults are inconsistencies of the observation that prevent nothing from being published.
	Faults []error
	// Again asks for another observation soon: what is missing changes no file that is watched.
	Again bool
	// Err says why nothing is published, or which facts of the layout are out of date.
	Err error
}

// Compute returns what is to be published after an observation, and the next state.
func Compute(opts Options, previous State, o Observation) Result {
	out := Result{State: previous, Err: o.Facts.Stale}
	next := &out.State
	next.Facts = o.Facts
	next.order = previous.order.with(o.PublishedOrder...)
	if !o.Facts.Known() {
		return out
	}
	seen := o.Kubelet
	next.devices = previous.devices.learn(seen.Allocatable, o.Node.Capacity)
	seen.Capacity, seen.Known = o.Node.Capacity, next.devices.list()

	var wait bool
	contradiction := seen.Unsettled(o.Facts.Machine, o.Facts.Rules.CPU.Reserved)
	if next.files, wait = previous.files.observe(contradiction); wait {
		out.Again = true
		return out
	}
	listed, missing := listedPods(o.Pods, seen)
	if next.startup, wait, out.Again = previous.startup.observe(listed, missing); wait {
		return out
	}
	out.layout(opts, o, seen)
	return out
}

// layout adds the layout to the result, or the error for which there is none.
func (r *Result) layout(opts Options, o Observation, seen kubelet.Observation) {
	next, facts := &r.State, o.Facts
	m, deviceErr := seen.MachineBy(facts.Machine, next.withDevices.build)
	if m == nil {
		r.Err = errors.Join(deviceErr, r.Err)
		return
	}
	all, podErr := seen.Entries(m, o.Pods)
	policyErr := seen.Contradicts(facts.Rules)
	for _, err := range []error{deviceErr, podErr, policyErr, facts.Configuration.Doubt, facts.DetailErr} {
		if err != nil {
			r.Faults = append(r.Faults, err)
		}
	}
	entries := admitted(opts, m, facts.Rules, o.Pods, all)
	next.order = next.order.sort(entries, o.Pods.times)

	l := v1alpha1.FromCore(opts.NodeName, m, facts.Rules, entries, seen.Groups(m, facts.Rules, entries, o.Pods))
	l.Describe(facts.Detail)
	l.Rules.From = facts.source()
	l.Kubelet = facts.kubelet(o.Node)
	l.Inexact = v1alpha1.FromInexact(inexact(o, seen, reasons{machine: m, entries: all, deviceErr: deviceErr,
		podErr: podErr, policyErr: policyErr, contradiction: next.files.accepted}))
	// The layout is read back as others will read it: what they would refuse is not published.
	core, err := l.CoreOn(next.published.build)
	if err != nil {
		r.Err = errors.Join(fmt.Errorf("observation makes no valid layout: %w", err), r.Err)
		return
	}
	l.ObjectMeta = o.Node.meta(opts.NodeName)
	r.Layout, r.Node = l, stateOf(opts.NodeName, core)
}

// admitted returns the entries without the pods that the kubelet is still admitting: what they hold so far is not
// what they will hold. A pod that the kubelet has reported as started is kept as it is.
func admitted(opts Options, m *topo.Machine, r place.Rules, pods Pods, entries []ledger.Entry) []ledger.Entry {
	out := slices.Clone(entries)
	if opts.Translate == nil {
		return out
	}
	return slices.DeleteFunc(out, func(e ledger.Entry) bool {
		p, ok := pods.get(e.Pod.Namespace, e.Pod.Name)
		if !ok || started(p) {
			return false
		}
		spec, err := opts.Translate(p)
		return err == nil && !spec.Complete(m, r, e.Holdings)
	})
}

// stateOf returns the node that a layout describes.
func stateOf(name string, l v1alpha1.Layout) *ledger.Node {
	var held []place.Holding
	for _, e := range l.Entries {
		held = append(held, e.Holdings...)
	}
	u := place.NewUsage(l.Machine, l.Rules).Hold(held...).WithGroups(l.Groups)
	return &ledger.Node{Name: name, Machine: l.Machine, Rules: l.Rules, Entries: l.Entries, Usage: u, Inexact: l.Inexact}
}

// meta is the metadata that an agent decides: the Node owns what is published, and gives it its labels.
func (n Node) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: n.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: n.UID}}}
}

// builtMachine is a machine with the description that it was built from.
type builtMachine struct {
	spec    topo.Spec
	machine *topo.Machine
}

// build returns the machine of a description: the one that was built last, where the description is equal.
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
