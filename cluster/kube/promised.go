package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds out which room is kept for pods that have not come yet, from the status of ProvisioningRequests. The
// scheduler keeps it, and the commands say so.

// Kept is the room that is kept on a node: of each request the plain amounts of its pods, by its name, the pods that
// hold something, and devices of claims (DRA).
type Kept struct {
	Amounts  map[string]whatif.Amounts
	Promised []state.Promised
	Devices  []KeptDevice
	// Owners are the controllers of requests, by the name of the request, without requests that have none.
	Owners map[string]KeptOwner
}

// KeptDevice is a device that is kept for pods of a request. A pod of the request may have got it since: then a claim
// holds it.
type KeptDevice struct {
	Driver, Pool, Name string
	Request            string // "namespace/name"
	Until              time.Time
}

// AddKept adds to a view the room that ProvisioningRequests of all namespaces keep. If the identity may not list them,
// they are recorded in Unread; if the API server does not serve them, there are none.
func (r *Reader) AddKept(ctx context.Context, v *View) error {
	c, err := provisioning.NewClient(r.cfg)
	if err != nil {
		return err
	}
	list, err := c.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		v.Miss(provisioning.Resource().Resource, notListed)
	case apierrors.IsNotFound(err):
	case ctx.Err() != nil:
		return fmt.Errorf("list ProvisioningRequests: %w", err)
	case err != nil: // all else is known
		v.Miss(provisioning.Resource().Resource, printable.Clip(err.Error(), 200))
	default:
		v.Keep(list.Items, r.now())
	}
	return nil
}

// Keep adds the room that requests keep at a time.
func (v *View) Keep(requests []provisioning.Request, at time.Time) {
	var all bool
	if v.Kept, all = KeptBy(requests, v.Pods, at); !all {
		v.Miss(provisioning.Resource().Resource, fmt.Sprintf("they keep more than %d places or devices", maxKept))
	}
	for i, n := range v.States {
		if k := v.Kept[n.Name]; k != nil {
			with := *n
			with.Promised, v.States[i] = k.Promised, &with
		}
	}
}

// Bounds of kept room, since the status of requests may have any number of places. maxKept bounds the places of all
// requests, at twice what a scheduler keeps. maxPromised bounds the pods on one node that hold something.
// maxKeptDevices bounds the devices of all requests.
const (
	maxKept        = 40_000
	maxPromised    = 256
	maxKeptDevices = 40_000
)

// KeptBy returns the room that requests keep at a time, by node, without the room that pods have used up which still
// exist. A request keeps the devices in its status until a scheduler removes them there. A request whose status cannot
// be read keeps nothing, as in a scheduler that starts. all is false if there is more than the bounds.
func KeptBy(requests []provisioning.Request, pods []Stored, at time.Time) (out map[string]*Kept, all bool) {
	if len(requests) == 0 {
		return nil, true
	}
	all = true
	came := newComers(requests, pods)
	requests = slices.Clone(requests)
	slices.SortFunc(requests, func(a, b provisioning.Request) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	out = map[string]*Kept{}
	kept, devices := 0, 0
	for i := range requests {
		r := &requests[i]
		if r.Spec.ProvisioningClassName != apipod.Class || !r.Is(provisioning.Provisioned) || r.Over() ||
			!at.Before(r.Until(at)) {
			continue
		}
		name := r.Namespace + "/" + r.Name
		booked, err := bookedBy(r, name)
		if err != nil {
			continue
		}
		booked = came.useUp(r, booked)
		if kept += len(booked); kept > maxKept {
			return out, false
		}
		for _, x := range booked {
			x.keep(out)
			out[x.node].owned(r, name)
		}
		if devices += keepDevices(out, r, name, maxKeptDevices-devices, at); devices >= maxKeptDevices {
			all = false
		}
	}
	return out, all
}

// owned records the owner of a request.
func (k *Kept) owned(r *provisioning.Request, name string) {
	if r.Owner() == "" {
		return
	}
	if k.Owners == nil {
		k.Owners = map[string]KeptOwner{}
	}
	k.Owners[name] = KeptOwner{r.Owner(), r.CreationTimestamp.Unix()}
}

// keepDevices adds the devices that a request keeps on the nodes where it keeps places, at most a number of them. It
// returns how many it has added. Of details that cannot be read it adds none.
func keepDevices(nodes map[string]*Kept, r *provisioning.Request, name string, most int, at time.Time) (n int) {
	list, err := r.Devices()
	if err != nil {
		return 0
	}
	for _, x := range list {
		k := nodes[x.Node]
		if k == nil || k.Amounts[name] == nil {
			continue
		}
		for _, device := range x.Devices[:min(len(x.Devices), most-n)] {
			k.Devices = append(k.Devices, KeptDevice{x.Driver, x.Pool, device, name, r.Until(at)})
			n++
		}
	}
	return n
}

// comers are bound pods that may have used up room: by the request that they name, and by their owners, the oldest
// first.
type comers struct {
	named, owned map[string][]*v1.Pod
}

// newComers finds the pods that may have used up room of requests.
func newComers(requests []provisioning.Request, pods []Stored) comers {
	out := comers{map[string][]*v1.Pod{}, map[string][]*v1.Pod{}}
	owners, keeps := map[string]bool{}, map[string]bool{}
	for i := range requests {
		r := &requests[i]
		owners[r.Owner()] = true
		keeps[r.Namespace+"/"+r.Name] = r.Is(provisioning.Provisioned) && !r.Over()
	}
	for p := range EachPod(pods) {
		switch name := apipod.Request(p); {
		case p.Spec.NodeName == "":
		case keeps[name]:
			out.named[name] = append(out.named[name], p)
		case len(owners) > 1 || !owners[""]:
			if owner := apipod.Owner(p); owner != "" && owners[owner] {
				out.owned[owner] = append(out.owned[owner], p)
			}
		}
	}
	for _, list := range out.owned {
		slices.SortStableFunc(list, func(a, b *v1.Pod) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
	}
	return out
}

// useUp returns the places of a request that are left. A pod of an owner uses up a place of one request only.
func (c comers) useUp(r *provisioning.Request, left []booked) []booked {
	for _, p := range c.named[r.Namespace+"/"+r.Name] {
		left = useUp(left, p)
	}
	owner, since := r.Owner(), r.CreationTimestamp.Unix()
	if owner == "" {
		return left
	}
	c.owned[owner] = slices.DeleteFunc(c.owned[owner], func(p *v1.Pod) bool {
		uses := len(left) > 0 && p.CreationTimestamp.Unix() >= since
		if uses {
			left = useUp(left, p)
		}
		return uses
	})
	return left
}

// booked is a place that is kept.
type booked struct {
	node string
	pod  state.Promised
	need whatif.Amounts
	// shape is the pod's.
	shape string
}

// bookedBy returns the places of a request, in order.
func bookedBy(r *provisioning.Request, name string) (out []booked, err error) {
	for i, s := range r.Spec.PodSets {
		if int64(len(out))+int64(s.Count) > provisioning.MaxPods {
			return nil, fmt.Errorf("request %s has more than %d pods", name, provisioning.MaxPods)
		}
		runs, err := r.Places(i, int(s.Count))
		if err != nil {
			return nil, err
		}
		p, err := r.Pod(i)
		if err != nil {
			return nil, err
		}
		x := booked{pod: state.Promised{For: name, Set: i}}
		if x.pod.Pod, err = apipod.ToPlace(p); err != nil {
			return nil, err
		}
		if x.pod.Demand, err = apipod.Demand(p); err != nil {
			return nil, err
		}
		if x.need, err = Needs(p); err != nil {
			return nil, err
		}
		x.shape = x.pod.Pod.Shape()
		for _, run := range runs {
			for range run.Count {
				x.node, x.pod.ID = run.Node, state.PodID{UID: fmt.Sprintf("kept %s %d", name, len(out)), Namespace: r.Namespace,
					Name: fmt.Sprintf("%s-%d", r.Name, len(out))}
				out = append(out, x)
			}
		}
	}
	return out, nil
}

// useUp returns the places without the one that a bound pod uses up: a place like the pod on its node, or else another
// one there, or like it elsewhere, or any.
func useUp(all []booked, p *v1.Pod) []booked {
	spec, err := apipod.ToPlace(p)
	if err != nil || len(all) == 0 {
		return all
	}
	best, at, shape := -1, 0, spec.Shape()
	for i, x := range all {
		fit := 0
		if x.node == p.Spec.NodeName {
			fit += 2
		}
		if x.shape == shape {
			fit++
		}
		if fit > best {
			best, at = fit, i
		}
	}
	return slices.Delete(all, at, at+1)
}

// keep adds the place to its node.
func (x *booked) keep(nodes map[string]*Kept) {
	k := nodes[x.node]
	if k == nil {
		k = &Kept{Amounts: map[string]whatif.Amounts{}}
		nodes[x.node] = k
	}
	k.Amounts[x.pod.For] = k.Amounts[x.pod.For].Add(x.need)
	if !x.pod.Pod.Plain() && len(k.Promised) < maxPromised {
		k.Promised = append(k.Promised, x.pod)
	}
}
