package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/state"
)

// Live is a cluster that is followed. Its methods may be called from any goroutine. They wait until everything was
// read once: an earlier answer would lack nodes and pods.
type Live struct {
	view   *live.View
	reader *kube.Reader // reads what the view does not follow
}

// NewLive returns the cluster of a live view and a reader of what it does not follow, both with the same rights.
func NewLive(v *live.View, r *kube.Reader) *Live { return &Live{v, r} }

// await waits until the view is ready. It returns an error if ctx ends before that.
func (c *Live) await(ctx context.Context) error {
	select {
	case <-c.view.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read the cluster for the first time: %w", ctx.Err())
	}
}

// Whole returns the followed view, and adds what the view does not follow, which it reads for each call.
func (c *Live) Whole(ctx context.Context) (*kube.View, error) {
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	v := c.view.View()
	c.recordLimits(v)
	if err := c.reader.AddKept(ctx, v); err != nil {
		return nil, err
	}
	return v, c.reader.Complete(ctx, v)
}

// recordLimits records in v what the followed view lacks. v.Seen already has the limits of pods.
func (c *Live) recordLimits(v *kube.View) {
	for _, l := range c.view.Limits() {
		if v.Seen == nil || !strings.HasPrefix(l.Resource, "pods ") {
			v.Miss(l.Resource, l.Reason)
		}
	}
}

// Partial describes, for people, which pods and topologies the view lacks; see kube.View.Partial.
func (c *Live) Partial() string {
	v := &kube.View{Seen: c.view.Seen(), Problems: c.view.Problems()}
	c.recordLimits(v)
	return v.Partial()
}

// served returns the followed view, and adds the extended resources that DeviceClasses serve, which it reads.
func (c *Live) served(ctx context.Context) (v *kube.View, err error) {
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	v = c.view.View()
	c.recordLimits(v)
	if v.Served, err = c.reader.Served(ctx); err != nil {
		return nil, err
	}
	return v, c.reader.AddKept(ctx, v)
}

// Stage returns the cluster for simulations, and why the states of some of its nodes are missing.
func (c *Live) Stage(ctx context.Context) (*stage.Stage, []document.Problem, error) {
	v, err := c.served(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := stage.Of(v)
	return s, v.Problems, err
}

// Nodes returns the nodes that have a state, and for each other node the reason why it has none.
func (c *Live) Nodes(ctx context.Context) (out []*state.Node, problems []document.Problem, err error) {
	if err := c.await(ctx); err != nil {
		return nil, nil, err
	}
	v := c.view.View()
	if err := c.reader.AddKept(ctx, v); err != nil {
		return nil, nil, err
	}
	return v.States, v.Problems, nil
}

// Pods returns the pods of a namespace, or of all if it is empty, without their surroundings. Pods that cannot be
// judged are left out. Pods of a namespace that may not be read are an error.
func (c *Live) Pods(ctx context.Context, namespace string) ([]Pod, error) {
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	v := c.view.View()
	if err := readable(v.Seen, namespace); err != nil {
		return nil, err
	}
	out, _ := newPods(within(v.Pods, namespace))
	return out, nil
}

// PodsOf returns the pods that name a PodGroup, without their surroundings. If there are none, the error is NotFound.
// Other kinds are an error.
func (c *Live) PodsOf(ctx context.Context, kind, namespace, name string) ([]Pod, error) {
	if kind != "podgroup" {
		return nil, fmt.Errorf("the pods of a %s cannot be read here", kind)
	}
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	v := c.view.View()
	if err := readable(v.Seen, namespace); err != nil {
		return nil, err
	}
	out, err := newPodsOf(slices.DeleteFunc(slices.Clone(within(v.Pods, namespace)), func(p kube.Stored) bool {
		return group.Of(&p.Pod().Spec) != name
	}))
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}, name)
	}
	return out, nil
}

// Gang returns what a PodGroup needs to start; see [kube.Reader.Gang].
func (c *Live) Gang(ctx context.Context, namespace, name string) (needs int, label string, err error) {
	return c.reader.Gang(ctx, namespace, name)
}

// ClaimsOn returns the devices of one node and what its pods hold by claims. With the name "", it returns what pods
// without a node hold, and which devices are kept from them. Where drivers publish only the address of a device, it
// reads the layout of the node.
func (c *Live) ClaimsOn(ctx context.Context, node string) (*document.Claims, error) {
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	v := c.view.Claims(node)
	if err := c.reader.AddKept(ctx, v); err != nil {
		return nil, err
	}
	if node == "" {
		var err error
		if v.Served, err = c.reader.Served(ctx); err != nil {
			return nil, err
		}
		if len(v.Kept) > 0 {
			c.view.AddDevices(v)
		}
	}
	if node != "" && claims.NeedFunctions(v.Devices.Slices) {
		if err := c.reader.AddLayout(ctx, v, node); err != nil {
			return nil, err
		}
	}
	out := held.Of(v)
	if n := out.Node(node); n != nil {
		for _, l := range v.Unread { // what is kept
			n.Problems = append(n.Problems, fmt.Sprintf("devices may be kept for pods that have not come: %s were not read "+
				"(%s)", l.Resource, l.Reason))
		}
	}
	return out, nil
}

// KeptOn returns the room that a node keeps for pods that have not come yet. It reads ProvisioningRequests; unread is
// why it could not, or "".
func (c *Live) KeptOn(ctx context.Context, node string) (kept []document.Kept, unread string, err error) {
	if err := c.await(ctx); err != nil {
		return nil, "", err
	}
	v := c.view.View()
	if err := c.reader.AddKept(ctx, v); err != nil {
		return nil, "", err
	}
	for _, l := range v.Unread {
		unread = l.Resource + ": " + l.Reason
	}
	for _, n := range v.States {
		if n.Name == node {
			kept = document.KeptOn(n)
		}
	}
	return kept, unread, nil
}

// Pod returns one pod; where the view has none, the error is the API server's NotFound.
func (c *Live) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	if err := c.await(ctx); err != nil {
		return Pod{}, err
	}
	pod := c.view.Pod(namespace, name)
	if pod == nil {
		return Pod{}, apierrors.NewNotFound(v1.Resource("pods"), name)
	}
	out, err := newPod(pod)
	if out.Pod == nil {
		return Pod{}, err
	}
	s, _, err := c.Stage(ctx)
	if err != nil {
		return Pod{}, err
	}
	return out, out.surround(ctx, c.reader, s, pod)
}
