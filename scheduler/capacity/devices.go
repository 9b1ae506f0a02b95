package capacity

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file writes into the status of requests which devices are kept for them. Commands and the console read it; the
// scheduler does not.

// devicesOn returns the devices of places by node and pool, in ascending order.
func devicesOn(places []promise.Place) (out []provisioning.DevicesOn) {
	compare := func(a, b provisioning.DevicesOn) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Driver, b.Driver), strings.Compare(a.Pool, b.Pool))
	}
	for _, x := range places {
		for _, id := range x.IDs {
			one := provisioning.DevicesOn{Node: x.Node, Driver: id.Driver, Pool: id.Pool}
			at, there := slices.BinarySearchFunc(out, one, compare)
			if !there {
				out = slices.Insert(out, at, one)
			}
			out[at].Devices = append(out[at].Devices, id.Name)
		}
	}
	for _, x := range out {
		slices.Sort(x.Devices)
	}
	return out
}

// showDevices writes which devices are kept for requests where that has changed: pods have come, or other devices are
// kept. While pods of a request come, it writes once in a while.
func (c *Controller) showDevices(ctx context.Context, list []*request) {
	kept := map[string][]promise.Place{}
	for _, node := range c.keeper.Claimed() {
		for _, x := range c.keeper.On(node) {
			kept[x.Request] = append(kept[x.Request], x.Place)
		}
	}
	for _, r := range list {
		if r.over() || !r.restored || !r.is(provisioning.Provisioned) || c.now().Sub(r.shown) < repeat {
			continue
		}
		details := maps.Clone(r.object.Status.ProvisioningClassDetails)
		if details == nil || provisioning.SetDevices(details, devicesOn(kept[r.name])) != nil ||
			maps.Equal(details, r.object.Status.ProvisioningClassDetails) {
			continue
		}
		r.shown = c.now()
		_ = c.write(ctx, r, details) // a later round writes it if this fails
	}
}
