package allocate

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// This file reads which devices there are, and which of them claims have.

// readSlices reads what drivers publish. For a node, all slices of each pool count that has devices of the node: the
// allocator uses no incomplete pool.
func (c *Cluster) readSlices(v *kube.View) {
	type pool struct{ driver, name string }
	pools, of := map[pool][]*resourcev1.ResourceSlice{}, map[string]map[pool]bool{}
	for i := range v.Devices.Slices {
		s := &v.Devices.Slices[i]
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" {
			c.unjudged = "some devices are for several nodes"
			return
		}
		if s.Spec.PerDeviceNodeSelection != nil || len(s.Spec.SharedCounters) > 0 ||
			slices.ContainsFunc(s.Spec.Devices, parted) {
			c.unjudged = "some devices can be shared, or share something"
			return
		}
		key, node := pool{s.Spec.Driver, s.Spec.Pool.Name}, *s.Spec.NodeName
		if of[node] == nil {
			of[node] = map[pool]bool{}
		}
		pools[key], of[node][key] = append(pools[key], s), true
	}
	for node, keys := range of {
		for key := range keys {
			c.slices[node] = append(c.slices[node], pools[key]...)
			c.incomplete[node] = c.incomplete[node] || incomplete(pools[key])
		}
		slices.SortFunc(c.slices[node], func(a, b *resourcev1.ResourceSlice) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	for name, n := range claims.Published(v.Devices.Slices, kube.FunctionsOf(v.Layouts).Function) {
		c.where[name] = map[structured.DeviceID][]int{}
		for _, d := range n.Devices {
			c.where[name][structured.MakeDeviceID(d.Driver, d.Pool, d.Name)] = d.NUMAs
		}
	}
}

// incomplete reports whether a pool lacks slices of its newest generation.
func incomplete(pool []*resourcev1.ResourceSlice) bool {
	newest, count, want := int64(0), int64(0), int64(0)
	for _, s := range pool {
		newest = max(newest, s.Spec.Pool.Generation)
	}
	for _, s := range pool {
		if s.Spec.Pool.Generation == newest {
			count, want = count+1, max(want, s.Spec.Pool.ResourceSliceCount)
		}
	}
	return count < want
}

// parted reports whether a device is more than attributes, capacities and taints of its own.
func parted(d resourcev1.Device) bool {
	return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations || len(d.ConsumesCounters) > 0 ||
		d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil || len(d.BindingConditions) > 0
}

// readClaims reads which devices claims have. They are free once the pod has ended that owns the claim, if no other pod
// uses it.
func (c *Cluster) readClaims(all []resourcev1.ResourceClaim) {
	for i := range all {
		c.objects[types.NamespacedName{Namespace: all[i].Namespace, Name: all[i].Name}] = &all[i]
	}
	for _, p := range c.pods {
		if kube.Ended(p) {
			continue
		}
		for _, n := range claims.NamedBy(p) {
			key := types.NamespacedName{Namespace: p.Namespace, Name: n.Claim}
			c.users[key] = append(c.users[key], p.UID)
		}
	}
	for _, h := range claims.Allocated(all) {
		uid := ""
		for _, o := range h.Owners {
			if p := c.pods[o.UID]; p != nil && o.Controller != nil && *o.Controller && h.UsedBy(p) {
				uid = string(o.UID)
			}
		}
		key := types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
		free := uid != "" && !c.sharedBy(key, types.UID(uid))
		for _, d := range h.Devices {
			id := structured.MakeDeviceID(d.Driver, d.Pool, d.Name)
			c.taken.Insert(id)
			if free {
				c.freed[uid] = append(c.freed[uid], id)
			}
		}
	}
}

// sharedBy reports whether others than a pod use a claim: another pod names it, or it is reserved for something else.
func (c *Cluster) sharedBy(claim types.NamespacedName, uid types.UID) bool {
	other := func(user types.UID) bool { return user != uid }
	object := c.objects[claim]
	return slices.ContainsFunc(c.users[claim], other) || object != nil && slices.ContainsFunc(object.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool { return other(r.UID) })
}

// readKept reads which devices are kept for pods that have not come.
func (c *Cluster) readKept(v *kube.View) {
	c.keepers = kube.KeepersOf(v.Kept)
	for node, k := range v.Kept {
		c.places[node] = map[string]int64{}
		for request, amounts := range k.Amounts {
			c.places[node][request] = amounts["pods"]
		}
		for _, d := range k.Devices {
			c.kept[node] = append(c.kept[node], keptDevice{structured.MakeDeviceID(d.Driver, d.Pool, d.Name), d.Request})
		}
	}
	for _, n := range v.States {
		c.laidOut[n.Name] = n.Machine != nil
	}
}

// classes are classes of devices by name.
type classes map[string]*resourcev1.DeviceClass

// List implements structured.DeviceClassLister.
func (c classes) List() (out []*resourcev1.DeviceClass, err error) {
	for _, x := range c {
		out = append(out, x)
	}
	return out, nil
}

// Get implements structured.DeviceClassLister.
func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if x := c[name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}
