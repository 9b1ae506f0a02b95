package ledger

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Where a kubelet takes any of several devices, the ids in a prediction are one choice of many. All choices have as
// many devices on each set of numas, and more than that no later pod can tell: so a prediction stays what it is when
// it gets other ids, and it must get others when somebody else is found to hold them, or these would count once
// for both.

// redraw returns holdings that were predicted, as they are possible in the usage: drawn devices that somebody holds
// are replaced by free ones on the same numas. ok is false where the CPUs or devices are not there, or nothing was
// predicted.
func redraw(u *place.Usage, hs []place.Holding) (out []place.Holding, ok bool) {
	for _, h := range hs {
		if !h.CPUs.SubsetOf(u.FreeCPUs()) {
			return nil, false
		}
	}
	d := draw{usage: u, free: map[string][]topo.Device{}, id: map[string]map[string]string{}}
	for _, drawn := range []bool{false, true} { // what is sure comes first
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

// draw replaces ids of devices; a pod's containers may have devices in common.
type draw struct {
	usage *place.Usage
	free  map[string][]topo.Device     // that nobody holds, the pod included, by resource
	id    map[string]map[string]string // the id of a device instead of the one that was predicted, by resource
	moved bool                         // some id is another one
}

// claim takes the devices of a block, and reports whether they are there.
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
	for _, id := range others {
		on, known := numasOf(d.usage.Machine, b.Resource, id)
		if !known || !d.take(b.Resource, id, func(x topo.Device) bool { return x.NUMAs == on }) {
			return false
		}
		d.moved = true
	}
	return true
}

// take has the first free device that will do stand for the one with the id.
func (d *draw) take(resource, id string, will func(topo.Device) bool) bool {
	at := slices.IndexFunc(d.free[resource], will)
	if at < 0 {
		return false
	}
	d.id[resource][id] = d.free[resource][at].ID
	d.free[resource] = slices.Delete(d.free[resource], at, at+1)
	return true
}

// apply returns the holdings with the ids that were found.
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

// numasOf returns the numas of a device of the machine.
func numasOf(m *topo.Machine, resource, id string) (topo.Mask, bool) {
	rs := m.Resources()
	at := slices.IndexFunc(rs, func(r topo.Resource) bool { return r.Name == resource })
	if at < 0 {
		return 0, false
	}
	i, ok := slices.BinarySearchFunc(rs[at].Devices, id, func(d topo.Device, id string) int { return strings.Compare(d.ID, id) })
	if !ok {
		return 0, false
	}
	return rs[at].Devices[i].NUMAs, true
}

// ids returns the ids of devices that are sure, and the numas of those that are drawn.
func ids(m *topo.Machine, b place.DeviceBlock) []string {
	if !b.Free {
		return b.IDs
	}
	out := make([]string, len(b.IDs))
	for i, id := range b.IDs {
		on, _ := numasOf(m, b.Resource, id)
		out[i] = "any@" + strconv.FormatUint(uint64(on), 2)
	}
	slices.Sort(out)
	return out
}
