// Package allocate answers for simulations which pods get devices of claims (dynamic resource allocation, DRA), with
// kube-scheduler's allocator.
//
// Invariant: a device is given to one pod at a time: never while a claim has it whose pod stays, and never while it is
// kept for a request of others. The answer to the same question is the same. Claims that the package cannot judge are
// named, and their pods get no answer: shared ones, those for parts of devices or with admin access, and all of a
// cluster whose devices are not whole and each of one node. It reads and writes nothing.
package allocate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Cluster has the devices of a cluster, and who has them. It and what Of returns belong to one goroutine.
type Cluster struct {
	nodes   map[string]*v1.Node
	slices  map[string][]*resourcev1.ResourceSlice // by node
	where   map[string]map[structured.DeviceID][]int
	classes classes
	objects map[types.NamespacedName]*resourcev1.ResourceClaim
	pods    map[types.UID]*v1.Pod
	// taken are the devices that claims have, and freed those that are free once the pod of a UID has ended.
	taken sets.Set[structured.DeviceID]
	freed map[string][]structured.DeviceID
	kept  map[string][]keptDevice // by node
	// unjudged is why no claim is judged, or "".
	unjudged string

	cel   *cel.Cache
	kinds map[string]*kind
	known map[string]result
	spent time.Duration
	now   func() time.Time
}

type keptDevice struct {
	id             structured.DeviceID
	request, owner string
}

// Bounds: of the time that all allocations of a Cluster take, of the results that are kept, and of CEL expressions.
const (
	maxSpent       = 20 * time.Second
	maxOne         = 2 * time.Second
	maxKnown       = 100_000
	maxExpressions = 1_000
)

// New returns the devices of a view. A view without devices or their classes judges no claims.
func New(v *kube.View, now func() time.Time) *Cluster {
	c := &Cluster{nodes: map[string]*v1.Node{}, slices: map[string][]*resourcev1.ResourceSlice{},
		where: map[string]map[structured.DeviceID][]int{}, classes: classes{},
		objects: map[types.NamespacedName]*resourcev1.ResourceClaim{}, pods: map[types.UID]*v1.Pod{},
		taken: sets.New[structured.DeviceID](), freed: map[string][]structured.DeviceID{},
		kept: map[string][]keptDevice{}, cel: cel.NewCache(maxExpressions, cel.Features{}), kinds: map[string]*kind{},
		known: map[string]result{}, now: now}
	switch {
	case v.Devices == nil || v.Classes == nil:
		c.unjudged = "their devices or classes were not read"
		return c
	case len(v.Devices.Unread) > 0:
		c.unjudged = "not all devices and claims were read"
		return c
	}
	for i := range v.Nodes {
		c.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for i := range v.Classes {
		c.classes[v.Classes[i].Name] = &v.Classes[i]
	}
	for p := range kube.EachPod(v.Pods) {
		c.pods[p.UID] = p
	}
	c.readSlices(v)
	c.readClaims(v.Devices.Claims)
	for node, k := range v.Kept {
		for _, d := range k.Devices {
			c.kept[node] = append(c.kept[node], keptDevice{structured.MakeDeviceID(d.Driver, d.Pool, d.Name), d.Request,
				d.Owner})
		}
	}
	return c
}

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

// parted reports whether a device is more than attributes, capacities and taints of its own.
func parted(d resourcev1.Device) bool {
	return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations || len(d.ConsumesCounters) > 0 ||
		d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil || len(d.BindingConditions) > 0
}

// readClaims reads which devices claims have. Where a pod owns the claim, they are free once the pod has ended.
func (c *Cluster) readClaims(all []resourcev1.ResourceClaim) {
	for i := range all {
		c.objects[types.NamespacedName{Namespace: all[i].Namespace, Name: all[i].Name}] = &all[i]
	}
	for _, h := range claims.Allocated(all) {
		uid := ""
		for _, o := range h.Owners {
			if p := c.pods[o.UID]; p != nil && o.Controller != nil && *o.Controller && h.UsedBy(p) {
				uid = string(o.UID)
			}
		}
		for _, d := range h.Devices {
			id := structured.MakeDeviceID(d.Driver, d.Pool, d.Name)
			c.taken.Insert(id)
			if uid != "" {
				c.freed[uid] = append(c.freed[uid], id)
			}
		}
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

// Of returns what decides about the devices of a pod, nil for a pod without claims. It is asked about an existing pod:
// one that waits, or one that would be created again. why is not empty if its claims are not judged.
func (c *Cluster) Of(uid types.UID) (d whatif.Devices, why string) {
	p := c.pods[uid]
	switch {
	case p == nil:
		return nil, "the pod does not exist, and neither do its claims"
	case c.unjudged != "":
		return nil, c.unjudged
	case podapi.NearDevices(p).Any():
		return nil, "the pod demands devices near its CPUs"
	}
	k := &kind{c: c, request: podapi.Request(p), owner: podapi.Owner(p)}
	for _, n := range claims.NamedBy(p) {
		object := c.objects[types.NamespacedName{Namespace: p.Namespace, Name: n.Claim}]
		switch {
		case !n.Owned:
			return nil, "several pods may share claim " + n.Claim
		case n.Entry == "":
			continue // the claim of extended resources, which are judged as such
		case object == nil || !claims.Owns(p, object.OwnerReferences):
			return nil, "claim " + n.Entry + " is not made yet"
		case object.Status.Allocation != nil && p.Spec.NodeName == "":
			return nil, "claim " + n.Claim + " has its devices already"
		}
		if what := unjudged(&object.Spec); what != "" {
			return nil, "claim " + n.Claim + " asks for " + what
		}
		k.specs = append(k.specs, &object.Spec)
	}
	if len(k.specs) == 0 {
		return nil, ""
	}
	text, err := json.Marshal([]any{k.specs, k.request, k.owner})
	if err != nil {
		return nil, err.Error()
	}
	if same := c.kinds[string(text)]; same != nil {
		return same, ""
	}
	k.name = fmt.Sprint(len(c.kinds))
	c.kinds[string(text)] = k
	return k, ""
}

// unjudged returns what a claim asks for that is not judged, or "".
func unjudged(spec *resourcev1.ResourceClaimSpec) string {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		part := slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool { return s.Capacity != nil })
		switch {
		case part || r.Exactly != nil && r.Exactly.Capacity != nil:
			return "a part of a device (capacity)"
		case r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess:
			return "access for administrators (adminAccess)"
		}
	}
	return ""
}

// kind are pods whose claims ask for the same.
type kind struct {
	c              *Cluster
	name           string
	specs          []*resourcev1.ResourceClaimSpec
	request, owner string
}

// result is what a pod gets: devices, or the reason why it gets none.
type result struct {
	devices []structured.DeviceID
	why     []place.Reason
}

// Lacks implements whatif.Devices.
func (k *kind) Lacks(at whatif.Site) []place.Reason { return k.at(at).why }

// at returns what a pod gets at a site.
func (k *kind) at(at whatif.Site) result {
	name := fmt.Sprint(at.Node, at.Freed, k.name, at.Near)
	for _, g := range at.Given {
		other, _ := g.Devices.(*kind)
		name += fmt.Sprint(" ", other.name, g.Near)
	}
	out, known := k.c.known[name]
	if !known {
		out = k.search(at.Node, k.c.after(at), at.Near)
		if len(k.c.known) >= maxKnown {
			clear(k.c.known)
		}
		k.c.known[name] = out
	}
	return out
}

// after returns the devices of a node that pods have.
func (c *Cluster) after(at whatif.Site) sets.Set[structured.DeviceID] {
	out := sets.New[structured.DeviceID]()
	for _, s := range c.slices[at.Node] {
		for _, id := range idsOf(s) {
			if c.taken.Has(id) {
				out.Insert(id)
			}
		}
	}
	for _, uid := range at.Freed {
		out.Delete(c.freed[uid]...)
	}
	for i, g := range at.Given {
		if k, is := g.Devices.(*kind); is {
			before := whatif.Site{Node: at.Node, Freed: at.Freed, Given: at.Given[:i], Near: g.Near}
			out.Insert(k.at(before).devices...)
		}
	}
	return out
}

func idsOf(s *resourcev1.ResourceSlice) (out []structured.DeviceID) {
	for i := range s.Spec.Devices {
		out = append(out, structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name))
	}
	return out
}

// search looks for devices as TenonClaims does: near the pod first, and elsewhere if they need not be near.
func (k *kind) search(node string, taken sets.Set[structured.DeviceID], near whatif.Near) result {
	c := k.c
	if c.nodes[node] == nil {
		return result{why: []place.Reason{{Code: place.ByPlugin, Resource: notKnown, Want: 1}}}
	}
	far, kept := sets.New[structured.DeviceID](), sets.New[structured.DeviceID]()
	for id, numas := range c.where[node] {
		if len(near.NUMAs) > 0 && len(numas) > 0 && !slices.ContainsFunc(numas, func(id int) bool {
			return slices.Contains(near.NUMAs, id)
		}) {
			far.Insert(id)
		}
	}
	request := ""
	for _, d := range c.kept[node] {
		if k.request != "" && d.request == k.request || k.request == "" && d.owner != "" && d.owner == k.owner {
			continue
		}
		if kept.Insert(d.id); request == "" || d.request < request {
			request = d.request
		}
	}
	none := sets.New[structured.DeviceID]()
	tries := []sets.Set[structured.DeviceID]{taken.Union(kept).Union(far), taken.Union(kept), taken.Union(far), taken,
		none}
	for i, hidden := range tries {
		got, fault := c.allocate(node, k.specs, hidden)
		switch {
		case fault != "":
			return result{why: []place.Reason{{Code: place.ByPlugin, Resource: fault, Want: 1}}}
		case got == nil:
		case i == 0 || i == 1 && !near.Must:
			return result{devices: got}
		case i == 1: // see below whether near ones are kept
			why := place.Reason{Code: place.FarDevices, Resource: noneNear}
			if len(kept) > 0 {
				if with, _ := c.allocate(node, k.specs, tries[2]); with != nil {
					why = place.Reason{Code: place.Promised, With: request}
				}
			}
			return result{why: []place.Reason{why}}
		case i == 2 || i == 3 && !near.Must:
			return result{why: []place.Reason{{Code: place.Promised, With: request}}}
		default:
			return result{why: []place.Reason{{Code: place.NoDevices, Resource: noneFree}}}
		}
	}
	return result{why: []place.Reason{{Code: place.ByPlugin, Resource: noneThere, Want: 1}}}
}

// The texts of reasons.
const (
	noneNear  = "the pod's claims get no devices on the NUMA nodes where its CPUs and memory would be"
	noneFree  = "cannot allocate all claims"
	noneThere = "the node has no devices that the pod's claims allow"
	notKnown  = "which devices the node would have is not known"
)

// allocate returns the devices of a node that claims get without the hidden ones; nil if they get none. fault is why
// that could not be found out.
func (c *Cluster) allocate(node string, specs []*resourcev1.ResourceClaimSpec,
	hidden sets.Set[structured.DeviceID]) (out []structured.DeviceID, fault string) {
	object := c.nodes[node]
	if len(c.slices[node]) == 0 {
		return nil, ""
	}
	if c.spent >= maxSpent {
		return nil, tooLong
	}
	began := c.now()
	defer func() { c.spent += c.now().Sub(began) }()
	ctx, cancel := context.WithTimeout(context.Background(), maxOne)
	defer cancel()
	a, err := structured.NewAllocator(ctx, structured.Features{PrioritizedList: true, DeviceTaints: true},
		structured.AllocatedState{AllocatedDevices: hidden}, c.classes, c.slices[node], c.cel)
	if err != nil {
		return nil, printable.Clip(err.Error(), maxFault)
	}
	var all []*resourcev1.ResourceClaim
	for i, spec := range specs {
		name := fmt.Sprint("claim-", i)
		all = append(all, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: *spec})
	}
	results, err := a.Allocate(ctx, object, all)
	switch {
	case ctx.Err() != nil:
		return nil, tooLong
	case err != nil && !onNode(err):
		return nil, printable.Clip(strings.TrimSpace(err.Error()), maxFault)
	case err != nil || results == nil:
		return nil, ""
	}
	out = []structured.DeviceID{}
	for i := range results {
		for _, r := range results[i].Devices.Results {
			out = append(out, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out, ""
}

const (
	tooLong  = "to allocate devices for the pod's claims takes too long"
	maxFault = 300
)
