package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/config"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// This file connects the devices that are kept for requests (package promise) with the plugin that allocates claims
// (package steer), and lets package capacity allocate devices for pods that have not come.

// promised implements steer.Promises.
type promised struct{ places }

// Hidden implements steer.Promises.
func (w promised) Hidden() map[claims.ID]bool { return w.promises.Hidden() }

// hiddenKey is the key of a hiddenDevices in the state of a cycle.
const hiddenKey fwk.StateKey = "tenon.sh/hidden"

// hiddenDevices are the devices that were kept when an attempt began, for a pod with claims to allocate.
type hiddenDevices map[claims.ID]bool

// Clone implements fwk.StateData.
func (d hiddenDevices) Clone() fwk.StateData { return d }

// hiddenIn returns the devices that were kept when an attempt began; nil if there were none, or if the pod has no
// claims to allocate.
func hiddenIn(cs fwk.CycleState) hiddenDevices {
	d, err := cs.Read(hiddenKey)
	if err != nil {
		return nil
	}
	out, _ := d.(hiddenDevices)
	return out
}

// shows reports whether one of some devices is not kept any more.
func (s *Shared) shows(hidden hiddenDevices) bool {
	now := s.promises.Hidden()
	for id := range hidden {
		if !now[id] {
			return true
		}
	}
	return false
}

// Offers implements steer.Promises.
func (w promised) Offers(cs fwk.CycleState, pod *v1.Pod, hidden map[claims.ID]bool) map[string][][]claims.ID {
	cs.Write(hiddenKey, hiddenDevices(hidden))
	a := askedIn(cs)
	if a == nil {
		return nil
	}
	return w.promises.Offers(promise.Coming{UID: string(pod.UID), Request: a.request, Pod: a.pod, Demand: a.demand,
		Claims: a.claims()})
}

// Take implements steer.Promises. While places for a group are only supposed, nothing is used up.
func (w promised) Take(_ fwk.CycleState, pod *v1.Pod, devices []claims.ID) bool {
	if p := w.plugin(); p != nil && p.supposed.Load() != nil {
		return true
	}
	return w.promises.Take(string(pod.UID), devices)
}

// coming returns the pod of a cycle as it uses up a place on a node.
func (p *Plugin) coming(cs fwk.CycleState, a *asked, pod *v1.Pod, node string) promise.Coming {
	out := promise.Coming{UID: string(pod.UID), Request: a.request, Node: node, Pod: a.pod, Demand: a.demand}
	if a.request != "" {
		out.Claims = a.claims()
	}
	if n := p.Book.Snapshot().Node(node); a.request != "" && p.promises.Hidden() != nil && n != nil && n.Machine != nil {
		if out.On = onNUMAs(n.Machine, steer.Chosen(cs, node)); out.On == 0 && !a.pod.Plain() {
			out.On = n.Landing(a.pod, a.demand)
		}
	}
	return out
}

// devices implements capacity.Claims.
type devices struct {
	seen
	client kubernetes.Interface
}

// Look implements capacity.Claims.
func (c devices) Look() (capacity.Look, error) {
	l, err := c.planner.Look()
	if err != nil {
		return nil, fmt.Errorf("read devices: %w", err)
	}
	return look{l, c}, nil
}

// Serves implements capacity.Claims.
func (c devices) Serves(pod *v1.Pod) (serves bool, err error) {
	served := c.served()
	for name := range kube.Requests(pod) {
		serves = serves || served[string(name)]
	}
	if c.planner == nil || !slices.Contains(c.claiming, pod.Spec.SchedulerName) {
		err = fmt.Errorf("the profile %s of this scheduler has no plugin %s, so no devices can be kept",
			printable.Clip(pod.Spec.SchedulerName, 100), steer.Name)
	}
	return serves, err
}

// Template implements capacity.Claims.
func (c devices) Template(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaimTemplate, error) {
	return c.client.ResourceV1().ResourceClaimTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Node implements capacity.Claims.
func (c devices) Node(name string) *state.Node { return c.Book.Snapshot().Node(name) }

// look implements capacity.Look.
type look struct {
	*steer.Look
	of devices
}

// Allocate implements capacity.Look.
func (l look) Allocate(ctx context.Context, x *capacity.Claiming, n *state.Node, holdings []place.Holding,
	kept func(claims.ID) bool) (out promise.Devices, why string) {
	p := places{l.of.Shared, x.Pod.Spec.SchedulerName}.plugin()
	node := l.of.amounts.Node(n.Name)
	if p == nil || node == nil {
		return out, errGone.Error()
	}
	near := steer.Near{Unknown: p.args.Claims == config.Ignore}
	if !near.Unknown && n.Machine != nil {
		near = p.near(n, holdings)
	}
	located := false
	if out.IDs, located, why = l.Look.Allocate(ctx, x.Pod, x.Claims, node, near, kept); why != "" {
		return promise.Devices{}, why
	}
	if located && (near.Must || apipod.NearDevices(x.Pod).Any()) {
		out.On = place.Exclusive(n.Machine, holdings)
	}
	return out, ""
}

// errGone is about a node or a profile that is gone.
var errGone = errors.New("the node is gone")
