package estimate

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Past holds the allocations that a bound pod may have received, besides its current prediction. A node that reports
// amounts does so once a minute, and never reports what a single pod got. So an allocation that was possible once
// stays possible. The zero Past holds none.
type Past struct {
	options [][]place.Holding
	more    bool
	// open: the next prediction is also possible, because the pod was admitted and another pod ended, in unknown
	// order. Close adds that prediction.
	open bool
	// firm: the pod was admitted so long ago that pods that end from now on end after its admission.
	firm bool
}

// Keep adds possible allocations, up to limit in all. more: further allocations were possible that are not among
// options.
func (p *Past) Keep(options [][]place.Holding, more bool, limit int) {
	out := slices.Clone(p.options)
	p.more = p.more || more
	for _, o := range options {
		switch {
		case slices.ContainsFunc(out, func(x []place.Holding) bool { return same(x, o) }):
		case len(out) < limit:
			out = append(out, o)
		default:
			p.more = true
		}
	}
	p.options = out
}

// same reports whether two lists have equal holdings in the same order.
func same(a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool { return x.Matches(y) && y.Matches(x) })
}

// KeepAll adds the allocations of another Past, as Keep does.
func (p *Past) KeepAll(other Past, limit int) { p.Keep(other.options, other.more, limit) }

// Widen records that something was released while the pod was assumed. admitted: the pod was known to be admitted
// before Widen is called. The caller must call Close when it has the new prediction.
func (p *Past) Widen(admitted bool) { p.open = admitted && !p.firm }

// Close completes a Widen after which it is open whether the pod was admitted before or after the release. It
// replaces the allocations by the given options. These are what the pod may have got by the new prediction; the
// caller has included the old allocations that are still possible. Without such a Widen, Close does nothing.
func (p *Past) Close(options [][]place.Holding, more bool) {
	if p.open {
		p.options, p.more, p.open = options, more, false
	}
}

// Settle records that the pod was admitted so long ago that releases from now on come after its admission.
func (p *Past) Settle() { p.firm = true }

// More reports whether other allocations were possible that Past does not have.
func (p *Past) More() bool { return p.more }

// Map returns a copy with do applied to every allocation.
func (p *Past) Map(do func([]place.Holding) []place.Holding) Past {
	out := *p
	out.options = nil
	for _, o := range p.options {
		out.options = append(out.options, do(o))
	}
	return out
}

// Swap exchanges the possible allocations of two pods of one shape.
func Swap(p, q *Past) {
	p.options, q.options = q.options, p.options
	p.more, q.more = q.more, p.more
}

// Options returns the remembered allocations that are possible on the usage. only: if the pod is known to be
// admitted, it can have nothing else.
func (p *Past) Options(u *place.Usage) (out [][]place.Holding, only bool) {
	for _, o := range p.options {
		if o, ok := redraw(u, o); ok {
			out = append(out, o)
		}
	}
	return out, !p.open && len(out) > 0
}

// free returns the first of a pod's options that is possible on the usage, with ids that no other pod has. If no
// option is possible, it returns the likeliest one unchanged.
func free(u *place.Usage, p *Pod) []place.Holding {
	for _, o := range p.Options {
		if o, ok := redraw(u, o); ok {
			return o
		}
	}
	return p.first()
}

// redraw returns predicted holdings in a form that is possible on the usage. If a kubelet takes any of several
// devices, the ids in a prediction are one choice of many; later pods depend only on how many devices are on each set
// of NUMA nodes. So redraw replaces ids that are held by free ones on the same NUMA nodes, since they would otherwise
// count once for both pods. ok is false if the CPUs or devices are not free, or hs is empty.
func redraw(u *place.Usage, hs []place.Holding) (out []place.Holding, ok bool) {
	for _, h := range hs {
		if !h.CPUs.SubsetOf(u.FreeCPUs()) {
			return nil, false
		}
	}
	d := draw{usage: u, free: map[string][]topo.Device{}, id: map[string]map[string]string{}}
	for _, drawn := range []bool{false, true} { // certain devices come first
		for _, h := range hs {
			for _, b := range h.Devices {
				if b.Free == drawn && !d.claim(b) {
					return nil, false
				}
			}
		}
	}
	return d.apply(hs), len(hs) > 0
}

// draw replaces ids of devices. Containers of one pod may have devices in common.
type draw struct {
	usage *place.Usage
	free  map[string][]topo.Device     // free devices by resource, without those that the pod has taken
	id    map[string]map[string]string // the new id of a device by resource and predicted id
	moved bool                         // some id was replaced
}

// claim takes the devices of a block, and reports whether they are free.
func (d *draw) claim(b place.DeviceBlock) bool {
	if d.id[b.Resource] == nil {
		d.id[b.Resource], d.free[b.Resource] = map[string]string{}, d.usage.FreeDevices(b.Resource)
	}
	var others []string
	for _, id := range b.IDs {
		if d.id[b.Resource][id] != "" {
			continue
		}
		if !d.take(b.Resource, id, func(x topo.Device) bool { return x.ID == id }) {
			others = append(others, id)
		}
	}
	if len(others) > 0 && !b.Free {
		return false
	}
	r, _ := d.usage.Machine.Resource(b.Resource)
	for _, id := range others {
		device := r.Device(id)
		if device.ID == "" || !d.take(b.Resource, id, func(x topo.Device) bool { return x.NUMAs == device.NUMAs }) {
			return false
		}
		d.moved = true
	}
	return true
}

// take replaces the id by the id of the first free device for which accept returns true. It returns false if there is
// no such device.
func (d *draw) take(resource, id string, accept func(topo.Device) bool) bool {
	at := slices.IndexFunc(d.free[resource], accept)
	if at < 0 {
		return false
	}
	d.id[resource][id] = d.free[resource][at].ID
	d.free[resource] = slices.Delete(d.free[resource], at, at+1)
	return true
}

// apply returns the holdings with the new ids.
func (d *draw) apply(hs []place.Holding) []place.Holding {
	if !d.moved {
		return hs
	}
	out := slices.Clone(hs)
	for i, h := range out {
		out[i].Devices = slices.Clone(h.Devices)
		for j, b := range h.Devices {
			ids := make([]string, len(b.IDs))
			for k, id := range b.IDs {
				ids[k] = d.id[b.Resource][id]
			}
			slices.Sort(ids)
			out[i].Devices[j].IDs = ids
		}
	}
	return out
}
