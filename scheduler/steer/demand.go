package steer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file has the devices that a pod demands near its CPUs and memory: of drivers, classes, claims and requests.
//
// A device may serve a named and an unnamed request, so hiding it would be wrong. The plugin of a trial therefore gets
// claims whose named requests have one selector more, which only marked devices match. A mark is an attribute of the
// devices in an offer. A request for all devices that match gets no selector, since it would get fewer then: its
// devices are known after the trial, and if one of them is far, the trial is repeated without that request.

// demand is which devices a pod demands near its CPUs and memory. The zero value demands nothing.
type demand struct {
	drivers  []string
	classes  []string
	requests []string // as keyOf has them, of all claims of the pod
	// extended are the named classes that serve extended resources of the pod.
	extended []string
}

// keyOf names a claim of the pod's namespace, one of its requests ("gpu") or an alternative ("gpu/large"). request may
// be "".
func keyOf(claim, request string) string { return claim + "/" + request }

// empty reports whether nothing is demanded.
func (d *demand) empty() bool { return len(d.drivers) == 0 && !d.limits() }

// limits reports whether classes, claims or requests are named.
func (d *demand) limits() bool { return len(d.classes) > 0 || len(d.requests) > 0 }

// names reports whether the pod demands the devices of a request, or of an alternative of it.
func (d *demand) names(claim, request, alternative, class string) bool {
	return slices.Contains(d.classes, class) || slices.Contains(d.requests, keyOf(claim, "")) ||
		slices.Contains(d.requests, keyOf(claim, request)) ||
		alternative != "" && slices.Contains(d.requests, keyOf(claim, request+"/"+alternative))
}

// of returns the demanded devices of an allocated claim.
func (d *demand) of(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) (out []claims.ID) {
	if a == nil {
		return nil
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		request, alternative, _ := strings.Cut(r.Request, "/")
		admin := r.AdminAccess != nil && *r.AdminAccess
		if !admin && slices.Contains(d.drivers, r.Driver) ||
			d.names(claim.Name, request, alternative, classOf(claim, request, alternative)) {
			out = append(out, claims.DeviceOf(r))
		}
	}
	return out
}

// classOf returns the class of a request, or of an alternative of it; "" if the claim has no such request.
func classOf(claim *resourcev1.ResourceClaim, request, alternative string) string {
	for _, r := range claim.Spec.Devices.Requests {
		switch {
		case r.Name != request:
		case r.Exactly != nil:
			return r.Exactly.DeviceClassName
		default:
			for _, s := range r.FirstAvailable {
				if s.Name == alternative {
					return s.DeviceClassName
				}
			}
		}
	}
	return ""
}

// readDemand returns what a pod demands. A request that a claim lacks is an error, and so is a class that no request
// names.
func (p *Plugin) readDemand(pod *v1.Pod) (demand, error) {
	near := apipod.NearDevices(pod)
	d := demand{drivers: near.Drivers, classes: near.Classes}
	if !d.limits() && len(near.Requests) == 0 {
		return d, nil
	}
	unused := slices.Clone(near.Classes)
	for i := range pod.Spec.ResourceClaims {
		claim := claimOf(pod, &pod.Spec.ResourceClaims[i], p.dra.SharedDRAManager.ResourceClaims())
		if claim == nil {
			continue
		}
		for _, r := range near.Requests {
			if r.Claim != pod.Spec.ResourceClaims[i].Name {
				continue
			}
			if !asked(claim, r) {
				return d, fmt.Errorf("annotation %s: %q names no request of claim %s: it has %s", apipod.AlignAnnotation,
					printable.Clip(r.String(), 200), claim.Name, printable.Clip(strings.Join(requestsOf(claim), ", "), 400))
			}
			d.requests = append(d.requests, keyOf(claim.Name, strings.TrimSuffix(r.Request+"/"+r.Alternative, "/")))
		}
		for _, request := range requestsOf(claim) {
			name, alternative, _ := strings.Cut(request, "/")
			class := classOf(claim, name, alternative)
			unused = slices.DeleteFunc(unused, func(c string) bool { return c == class })
		}
	}
	for _, class := range near.Classes {
		if p.serves(pod, class) {
			d.extended = append(d.extended, class)
		} else if slices.Contains(unused, class) {
			return d, fmt.Errorf("annotation %s: the pod has no request for class %s", apipod.AlignAnnotation,
				printable.Clip(class, 253))
		}
	}
	return d, nil
}

// requestsOf returns the names of a claim's requests, and of each alternative.
func requestsOf(claim *resourcev1.ResourceClaim) (out []string) {
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil {
			out = append(out, r.Name)
		}
		for _, s := range r.FirstAvailable {
			out = append(out, r.Name+"/"+s.Name)
		}
	}
	return out
}

// asked reports whether a claim has a request, and the alternative if one is named.
func asked(claim *resourcev1.ResourceClaim, want apipod.ClaimRequest) bool {
	is := func(s resourcev1.DeviceSubRequest) bool { return s.Name == want.Alternative }
	return want.Request == "" || slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Name == want.Request && (want.Alternative == "" || slices.ContainsFunc(r.FirstAvailable, is))
	})
}

// serves reports whether a class serves an extended resource that a container asks for.
func (p *Plugin) serves(pod *v1.Pod, name string) bool {
	class, err := p.dra.DeviceClasses().Get(name)
	if err != nil {
		return false
	}
	for _, all := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			for r := range all[i].Resources.Requests {
				if string(r) == resourcev1.ResourceDeviceClassPrefix+name ||
					class.Spec.ExtendedResourceName != nil && string(r) == *class.Spec.ExtendedResourceName {
					return true
				}
			}
		}
	}
	return false
}

// The attribute that marks devices, and the selectors of named requests: only marked devices, or none.
const (
	markDomain, markName = "tenon.sh", "near"
	mark                 = markDomain + "/" + markName
)

var (
	onlyMarked = selecting(`"near" in device.attributes["tenon.sh"]`)
	nothing    = selecting("false")
)

func selecting(expression string) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}
}

// marked reports whether a driver has published the attribute that marks devices. An attribute without a domain has the
// driver's.
func marked(driver string, name resourcev1.QualifiedName) bool {
	return name == mark || name == markName && driver == markDomain
}

// unmark removes the marks that drivers have published: only this package knows which devices are near.
func (o *offer) unmark() {
	for k, s := range o.slices {
		var devices []resourcev1.Device
		for i := range s.Spec.Devices {
			for name := range s.Spec.Devices[i].Attributes {
				if !marked(s.Spec.Driver, name) {
					continue
				}
				if devices == nil {
					devices = slices.Clone(s.Spec.Devices)
				}
				devices[i].Attributes = maps.Clone(devices[i].Attributes)
				delete(devices[i].Attributes, name)
			}
		}
		if devices != nil {
			copied := *s
			copied.Spec.Devices, o.slices[k] = devices, &copied
		}
	}
}

// mark marks the devices of a node that are known to be on the given NUMA nodes.
func (o *offer) mark(n *ofNode, node string, near []int) {
	for k, s := range o.slices {
		if s.Spec.NodeName == nil || *s.Spec.NodeName != node {
			continue
		}
		devices := slices.Clone(s.Spec.Devices)
		for i := range devices {
			id := claims.ID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: devices[i].Name}
			if !claims.Touch(n.where[id], near) {
				continue
			}
			attributes := maps.Clone(devices[i].Attributes)
			if attributes == nil {
				attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
			}
			attributes[mark] = resourcev1.DeviceAttribute{BoolValue: new(true)}
			devices[i].Attributes = attributes
		}
		copied := *s
		copied.Spec.Devices = devices
		o.slices[k] = &copied
	}
}

// limited is a claim of a pod, and the claim that the plugin of a trial sees instead.
type limited struct{ real, seen *resourcev1.ResourceClaim }

// limit returns what the plugin of a trial sees of the pod's claims, by name. Named requests get only marked devices,
// and those in barred get none.
func (c *cycle) limit(barred map[string]bool) map[string]limited {
	out := map[string]limited{}
	for _, real := range c.wanted {
		seen := *real
		seen.Spec.Devices.Requests = slices.Clone(real.Spec.Devices.Requests)
		for i := range seen.Spec.Devices.Requests {
			r := &seen.Spec.Devices.Requests[i]
			if r.Exactly != nil {
				e := *r.Exactly
				c.limitOne(&e.DeviceClassName, e.AllocationMode, &e.Selectors, barred, real.Name, r.Name, "")
				r.Exactly = &e
			}
			r.FirstAvailable = slices.Clone(r.FirstAvailable)
			for k := range r.FirstAvailable {
				s := &r.FirstAvailable[k]
				c.limitOne(&s.DeviceClassName, s.AllocationMode, &s.Selectors, barred, real.Name, r.Name, s.Name)
			}
		}
		out[real.Name] = limited{real: real, seen: &seen}
	}
	return out
}

// limitOne limits a request, or an alternative of one.
func (c *cycle) limitOne(
	class *string,
	mode resourcev1.DeviceAllocationMode,
	selectors *[]resourcev1.DeviceSelector,
	barred map[string]bool,
	claim, request, alternative string,
) {
	if !c.demand.names(claim, request, alternative, *class) {
		return
	}
	key := keyOf(claim, strings.TrimSuffix(request+"/"+alternative, "/"))
	switch {
	case mode != resourcev1.DeviceAllocationModeAll:
		*selectors = append(slices.Clone(*selectors), onlyMarked)
	case barred[key]:
		*selectors = append(slices.Clone(*selectors), nothing)
	case slices.Contains(c.demand.extended, *class):
		*class = unlimited + *class
	}
}

// unlimited begins the name of a class as it really is, where the plugin of a trial sees it otherwise.
const unlimited = "unlimited:"

// limitedClasses has the named classes for extended resources with a selector more: the wrapped plugin makes the
// requests for these resources itself, for each node.
type limitedClasses struct {
	fwk.DeviceClassLister
	names []string
}

// Get returns a class.
func (l limitedClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	if real, is := strings.CutPrefix(name, unlimited); is {
		return l.DeviceClassLister.Get(real)
	}
	class, err := l.DeviceClassLister.Get(name)
	if err != nil || !slices.Contains(l.names, name) {
		return class, err
	}
	seen := *class
	seen.Spec.Selectors = append(slices.Clone(class.Spec.Selectors), onlyMarked)
	return &seen, nil
}

// runLimited is [trial.run] with an offer in which the named requests get only devices on the given NUMA nodes. All
// trials together take no longer than the wrapped plugin may take for one.
func (p *Plugin) runLimited(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near []int,
	o offer,
) (a *attempt, failed bool, fault *fwk.Status) {
	name := info.Node().Name
	o.unmark()
	if n := c.nodes[name]; n != nil {
		o.mark(n, name, near)
	}
	if p.limit > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	}
	o.classes = c.demand.extended
	barred := map[string]bool{}
	for {
		o.claims = c.limit(barred)
		a, failed, fault = p.trial.run(ctx, cs, pod, info, &c.seen, o)
		if err := ctx.Err(); a == nil && err != nil {
			return nil, true, fwk.AsStatus(fmt.Errorf("allocate demanded devices: %w", err))
		}
		if a == nil || !c.whole {
			return a, failed, fault
		}
		got, status := p.trial.allocated(ctx, a, pod, name)
		if !status.IsSuccess() {
			return nil, true, status
		}
		before := len(barred)
		c.bar(got, name, near, barred)
		if len(barred) == before {
			return a, false, nil
		}
	}
}

// bar adds to barred the named requests that got a device that is not known to be on the given NUMA nodes: requests for
// all devices that match, which get the same ones in every allocation.
func (c *cycle) bar(got []*resourcev1.ResourceClaim, node string, near []int, barred map[string]bool) {
	for _, claim := range got {
		for i := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[i]
			request, alternative, _ := strings.Cut(r.Request, "/")
			if c.demand.names(claim.Name, request, alternative, classOf(claim, request, alternative)) &&
				!c.nodes[node].near(claims.DeviceOf(r), near) {
				barred[keyOf(claim.Name, r.Request)] = true
			}
		}
	}
}

// near reports whether a device is known to be on one of the NUMA nodes. n may be nil.
func (n *ofNode) near(id claims.ID, numas []int) bool {
	return n != nil && claims.Touch(n.where[id], numas)
}
