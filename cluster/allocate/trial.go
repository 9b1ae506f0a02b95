package allocate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/core/printable"
)

// This file runs the allocator of kube-scheduler.

// asks reports whether claims request any devices.
func (k *kind) asks() bool {
	return slices.ContainsFunc(k.specs, func(s *resourcev1.ResourceClaimSpec) bool { return len(s.Devices.Requests) > 0 })
}

// left returns how much longer the allocations of the kind may take. Kinds that take long leave some time to others.
func (k *kind) left() time.Duration {
	if k.c.spent >= maxSpent {
		return leastOfKind - k.spent
	}
	return maxOfKind - k.spent
}

// allocate returns the devices of slices that claims get on a node without the hidden ones; nil if they get none. The
// error is why that could not be found out, for people.
func (k *kind) allocate(node string, of []*resourcev1.ResourceSlice, hidden sets.Set[structured.DeviceID]) (
	out []structured.DeviceID, err error) {
	c := k.c
	if len(of) == 0 && k.asks() {
		return nil, nil
	}
	left := min(k.left(), maxOne)
	if left <= 0 {
		return nil, errLong
	}
	began := c.now()
	defer func() {
		took := c.now().Sub(began)
		k.spent, c.spent = k.spent+took, c.spent+took
	}()
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	a, err := structured.NewAllocator(ctx, structured.Features{PrioritizedList: true, DeviceTaints: true},
		structured.AllocatedState{AllocatedDevices: hidden}, c.classes, of, c.cel)
	if err != nil {
		return nil, errors.New(printable.Clip(err.Error(), maxFault))
	}
	var all []*resourcev1.ResourceClaim
	for i, spec := range k.specs {
		name := fmt.Sprint("claim-", i)
		all = append(all, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: *spec})
	}
	results, err := a.Allocate(ctx, c.nodes[node], all)
	switch {
	case ctx.Err() != nil:
		return nil, errLong
	case err != nil && !onNode(err):
		return nil, errors.New(printable.Clip(strings.TrimSpace(err.Error()), maxFault))
	case err != nil || results == nil:
		return nil, nil
	}
	out = []structured.DeviceID{}
	for i := range results {
		for _, r := range results[i].Devices.Results {
			out = append(out, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out, nil
}
