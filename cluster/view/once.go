// Package view answers the questions of commands and pages about one cluster: which nodes report, which pods there are,
// and what bears on where a pod is placed. [Once] reads the cluster for one command, and [Live] follows it for a
// console.
//
// Invariant: the answers to one command are of one moment, and each kind of object is read once for them, unless the
// command follows changes. The package only reads, with the rights of its configuration; what these do not cover is
// named by Partial. It refuses pods that Tenon's scheduler would refuse, and leaves them out of lists.
package view

import (
	"context"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
)

// Once is a cluster that is read for one command. Its methods are called by one goroutine.
type Once struct {
	reader  *kube.Reader
	follows bool
	view    *kube.View // nil before the first question
	// complete: the view has volumes and namespaces.
	complete bool
	// omitted names the pods that an answer leaves out; see newPods.
	omitted string
}

// NewOnce returns the cluster of a reader.
func NewOnce(r *kube.Reader) *Once { return &Once{reader: r} }

// read returns the cluster, complete with volumes and namespaces if that is wanted.
func (c *Once) read(ctx context.Context, complete bool) (v *kube.View, err error) {
	switch {
	case c.view == nil || c.follows:
		if complete {
			c.view, err = c.reader.ViewAll(ctx)
		} else {
			c.view, err = c.reader.View(ctx)
		}
	case complete && !c.complete:
		err = c.reader.Around(ctx, c.view)
	}
	if err != nil {
		c.view = nil
		return nil, err
	}
	c.complete = complete || c.complete && !c.follows
	return c.view, nil
}

// Nodes returns the nodes with known data, and why the others are not among them.
func (c *Once) Nodes(ctx context.Context) ([]*state.Node, []document.Problem, error) {
	v, err := c.read(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	return v.States, v.Problems, nil
}

// Notes returns notes on the nodes that Nodes returned last.
func (c *Once) Notes() []document.Problem { return c.reader.Notes() }

// Partial returns what of the cluster could not be read, in words, or "".
func (c *Once) Partial() string {
	var texts []string
	if c.view != nil {
		texts = append(texts, c.view.Partial())
	}
	texts = append(texts, c.omitted)
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// NodeNames returns names for completion.
func (c *Once) NodeNames(ctx context.Context) ([]string, error) { return c.reader.NodeNames(ctx) }

// PodNames returns names of one namespace for completion.
func (c *Once) PodNames(ctx context.Context, namespace string) ([]string, error) {
	return c.reader.PodNames(ctx, namespace)
}

// Changes returns a channel that receives after a change. The cluster is read for every question from then on.
func (c *Once) Changes(ctx context.Context) (<-chan struct{}, error) {
	c.follows = true
	return c.reader.Changes(ctx)
}

// Pod returns one pod; where there is none, the error is the API server's NotFound.
func (c *Once) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	pod, err := c.reader.Pod(ctx, namespace, name)
	if err != nil {
		return Pod{}, err
	}
	out, err := newPod(pod)
	if err != nil {
		return Pod{}, err
	}
	v, err := c.read(ctx, true)
	if err != nil {
		return Pod{}, err
	}
	return out, out.surround(ctx, c.reader, v, pod)
}

// Pods returns the pods of a namespace, or of all if it is empty, without their surroundings. Partial names the pods
// that cannot be judged, which are left out.
func (c *Once) Pods(ctx context.Context, namespace string) (out []Pod, err error) {
	v, err := c.read(ctx, false)
	if err != nil {
		return nil, err
	}
	out, c.omitted = newPods(within(v.Pods, namespace))
	return out, nil
}

// PodsOf returns the pods of a workload, as Pods does.
func (c *Once) PodsOf(ctx context.Context, kind, namespace, name string) (out []Pod, err error) {
	pods, err := c.reader.PodsOf(ctx, kind, namespace, name)
	out, c.omitted = newPods(kube.StoreAll(pods))
	return out, err
}
