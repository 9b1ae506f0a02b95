// Package view answers the questions of commands and pages about one cluster: which nodes report, which pods there are,
// and what bears on where a pod is placed. [Once] reads the cluster for one command, and [Live] follows it for a
// console.
//
// Invariant: the answers to one command are of one moment, and each kind of object is read once for them, unless the
// command follows changes. The package only reads, with the rights of its configuration. Partial names what these
// rights do not cover. It refuses pods that Tenon's scheduler would refuse, and leaves them out of lists.
package view

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/state"
)

// Once is a cluster that is read for one command. Its methods are called by one goroutine.
type Once struct {
	reader  *kube.Reader
	follows bool       // set by Changes: every question reads the cluster again
	view    *kube.View // nil before the first question
	// complete: the view has volumes and namespaces.
	complete bool
	// requests has what the pods of the view request, which takes longest of all that a stage of it has.
	requests stage.Requests
	// omitted names the pods that an answer leaves out; see newPods.
	omitted string
}

// NewOnce returns the cluster of a reader.
func NewOnce(r *kube.Reader) *Once { return &Once{reader: r} }

// read returns the cluster, from memory if it was read before and the command does not follow changes. With complete,
// the result has volumes and namespaces.
func (o *Once) read(ctx context.Context, complete bool) (v *kube.View, err error) {
	switch {
	case o.view == nil || o.follows:
		if complete {
			o.view, err = o.reader.ViewAll(ctx)
		} else {
			o.view, err = o.reader.View(ctx)
		}
	case complete && !o.complete:
		err = o.reader.Around(ctx, o.view)
	}
	if err != nil {
		o.view = nil
		return nil, err
	}
	o.complete = complete || o.complete && !o.follows
	return o.view, nil
}

// Nodes returns the nodes that have a state, and for each other node the reason why it has none.
func (o *Once) Nodes(ctx context.Context) ([]*state.Node, []document.Problem, error) {
	v, err := o.read(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	return v.States, v.Problems, nil
}

// Notes returns notes on the nodes that Nodes returned last.
func (o *Once) Notes() []document.Problem { return o.reader.Notes() }

// Partial describes, for people, which pods and topologies could not be read, and which pods the last list left out.
// It is "" if none of this applies.
func (o *Once) Partial() string {
	var texts []string
	if o.view != nil {
		texts = append(texts, o.view.Partial())
	}
	texts = append(texts, o.omitted)
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// NodeNames returns names of nodes for shell completion.
func (o *Once) NodeNames(ctx context.Context) ([]string, error) { return o.reader.NodeNames(ctx) }

// NamespaceNames returns names of namespaces for shell completion, and to tell a wrong name from an empty namespace.
func (o *Once) NamespaceNames(ctx context.Context) ([]string, error) {
	return o.reader.NamespaceNames(ctx)
}

// WorkloadNames returns names of the workloads of one kind in a namespace for shell completion.
func (o *Once) WorkloadNames(ctx context.Context, kind, namespace string) ([]string, error) {
	return o.reader.WorkloadNames(ctx, kind, namespace)
}

// NodesWith returns the names of the nodes that a label selector selects, in ascending order. None is an error.
func (o *Once) NodesWith(ctx context.Context, selector string) ([]string, error) {
	v, err := o.read(ctx, false)
	if err != nil {
		return nil, err
	}
	all := map[string]labels.Set{}
	for i := range v.Nodes {
		all[v.Nodes[i].Name] = v.Nodes[i].Labels
	}
	return kube.Selected("node", selector, all)
}

// PodsWith returns the UIDs of the pods that a label selector selects in a namespace, or in all if it is empty, in
// ascending order. None is an error, and so are pods of a namespace that may not be read.
func (o *Once) PodsWith(ctx context.Context, namespace, selector string) ([]string, error) {
	o.reader.Within(namespace)
	v, err := o.read(ctx, false)
	if err == nil {
		err = readable(v.Seen, namespace)
	}
	if err != nil {
		return nil, err
	}
	all := map[string]labels.Set{}
	for p := range kube.EachPod(within(v.Pods, namespace)) {
		all[string(p.UID)] = p.Labels
	}
	return kube.Selected("pod", selector, all)
}

// PodNames returns names of the pods of one namespace for shell completion.
func (o *Once) PodNames(ctx context.Context, namespace string) ([]string, error) {
	return o.reader.PodNames(ctx, namespace)
}

// Changes returns a channel that receives after a change. From then on, the cluster is read again for every question.
func (o *Once) Changes(ctx context.Context) (<-chan struct{}, error) {
	o.follows = true
	return o.reader.Changes(ctx)
}

// Pod returns one pod; where there is none, the error is the API server's NotFound.
func (o *Once) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	o.reader.Within(namespace)
	pod, err := o.reader.Pod(ctx, namespace, name)
	if err != nil {
		return Pod{}, err
	}
	out, err := newPod(pod)
	if out.Pod == nil {
		return Pod{}, err
	}
	v, err := o.read(ctx, true)
	if err == nil && out.Claimed && v.Devices == nil {
		v.Devices, err = o.reader.Devices(ctx, v.Seen)
	}
	if err != nil {
		return Pod{}, err
	}
	s, err := stage.OfAgain(v, &o.requests)
	if err != nil {
		return Pod{}, err
	}
	return out, out.surround(ctx, o.reader, s, pod)
}

// Pods returns the pods of a namespace, or of all if it is empty, without their surroundings. Partial names the pods
// that cannot be judged, which are left out. Pods of a namespace that may not be read are an error.
func (o *Once) Pods(ctx context.Context, namespace string) (out []Pod, err error) {
	o.reader.Within(namespace)
	v, err := o.read(ctx, false)
	if err == nil {
		err = readable(v.Seen, namespace)
	}
	if err != nil {
		return nil, err
	}
	out, o.omitted = newPods(within(v.Pods, namespace))
	return out, nil
}

// PodsOf returns the pods of a workload in the form of Pods, and also those that are Refused; see kube.Reader.PodsOf
// for the error.
func (o *Once) PodsOf(ctx context.Context, kind, namespace, name string) ([]Pod, error) {
	o.reader.Within(namespace)
	pods, err := o.reader.PodsOf(ctx, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	o.omitted = ""
	return newPodsOf(kube.StoreAll(pods))
}

// Gang returns what a PodGroup needs to start; see [kube.Reader.Gang].
func (o *Once) Gang(ctx context.Context, namespace, name string) (needs int, label string, err error) {
	return o.reader.Gang(ctx, namespace, name)
}

// ClaimsOn returns the claims of all nodes: a list of one node's claims would be as large a request.
func (o *Once) ClaimsOn(ctx context.Context, _ string) (*document.Claims, error) {
	return o.Claims(ctx)
}

// Claims returns what drivers publish and what claims hold. Kinds that the identity may not list count as missing, and
// the result names them.
func (o *Once) Claims(ctx context.Context) (*document.Claims, error) {
	v := o.view // of the same moment as the last answer
	if v == nil {
		var err error
		if v, err = o.read(ctx, false); err != nil {
			return nil, err
		}
	}
	if v.Devices == nil {
		var err error
		if v.Devices, err = o.reader.Devices(ctx, v.Seen); err != nil {
			return nil, err
		}
	}
	return held.Of(v), nil
}
