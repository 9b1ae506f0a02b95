// Package allocate answers for simulations which pods get devices of claims (dynamic resource allocation, DRA), with
// kube-scheduler's allocator.
//
// Invariant: a device is given to one pod at a time: never while a claim has it whose pod stays, and never while it is
// kept for a request of others. The answer to the same question is the same. Claims that the package cannot judge are
// named, and their pods get no answer: shared ones, those for parts of devices or with admin access, and all of a
// cluster whose devices are not whole and each of one node. A claim from a template is shared if other pods use it. Two
// more kinds of questions get no answer: those that take too long, and those for which something is not known. Then the
// reason begins with "not judged". The package does not read DeviceTaintRules. It reads and writes nothing of the
// cluster itself.
package allocate

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
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
	// users are the pods that name a claim and have not ended.
	users map[types.NamespacedName][]types.UID
	// taken are the devices that claims have, and freed those that are free once the pod of a UID has ended.
	taken sets.Set[structured.DeviceID]
	freed map[string][]structured.DeviceID
	kept  map[string][]keptDevice // by node
	// places are how many places each request keeps on a node, and keepers find the request of a pod.
	places  map[string]map[string]int64
	keepers *kube.Keepers
	// laidOut are the nodes for which it is known where the CPUs of pods are.
	laidOut map[string]bool
	// unjudged is why no claim is judged, or "".
	unjudged string

	// incomplete are nodes for which drivers have not published all devices of a pool.
	incomplete map[string]bool

	cel   *cel.Cache
	kinds map[string]*kind
	// firsts and known are what was found out; see next.
	firsts map[string]*past
	known  map[step]*past
	spent  time.Duration
	now    func() time.Time
}

type keptDevice struct {
	id      structured.DeviceID
	request string
}

// Bounds: of the time that one allocation takes, all of one kind of pods, and all kinds; once these have taken
// maxSpent, each kind still has leastOfKind. And bounds of the results that are kept, and of CEL expressions.
const (
	maxOne         = 2 * time.Second
	maxOfKind      = 5 * time.Second
	maxSpent       = 20 * time.Second
	leastOfKind    = 100 * time.Millisecond
	maxKnown       = 100_000
	maxExpressions = 1_000
)

// New returns the devices of a view. A view without devices or their classes judges no claims.
func New(v *kube.View, now func() time.Time) *Cluster {
	c := &Cluster{nodes: map[string]*v1.Node{}, slices: map[string][]*resourcev1.ResourceSlice{},
		where: map[string]map[structured.DeviceID][]int{}, classes: classes{},
		objects: map[types.NamespacedName]*resourcev1.ResourceClaim{}, pods: map[types.UID]*v1.Pod{},
		users: map[types.NamespacedName][]types.UID{},
		taken: sets.New[structured.DeviceID](), freed: map[string][]structured.DeviceID{},
		kept: map[string][]keptDevice{}, places: map[string]map[string]int64{}, laidOut: map[string]bool{},
		cel: cel.NewCache(maxExpressions, cel.Features{}), kinds: map[string]*kind{},
		firsts: map[string]*past{}, known: map[step]*past{}, incomplete: map[string]bool{}, now: now}
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
	c.readKept(v)
	return c
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
	k := &kind{c: c, request: c.keepers.Of(p)}
	for _, n := range claims.NamedBy(p) {
		key := types.NamespacedName{Namespace: p.Namespace, Name: n.Claim}
		object := c.objects[key]
		switch {
		case !n.Owned:
			return nil, "several pods may share claim " + n.Claim
		case n.Entry == "":
			continue // the claim of extended resources, which are judged as such
		case object == nil || !claims.Owns(p, object.OwnerReferences):
			return nil, "claim " + n.Entry + " is not made yet"
		case object.DeletionTimestamp != nil && p.Spec.NodeName == "": // kube-scheduler refuses the pod
			return nil, "claim " + n.Claim + " is being deleted"
		case c.sharedBy(key, uid):
			return nil, "another pod uses claim " + n.Claim
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
	text, err := json.Marshal([]any{k.specs, k.request})
	if err != nil {
		return nil, err.Error()
	}
	if same := c.kinds[string(text)]; same != nil {
		return same, ""
	}
	c.kinds[string(text)] = k
	return k, ""
}

// unjudged returns what a claim asks for that is not judged, or "". What a later release adds to claims is not.
func unjudged(spec *resourcev1.ResourceClaimSpec) string {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		switch what := claims.BeyondDevices(r); {
		case what != "":
			return what
		case (r.Exactly == nil) == (len(r.FirstAvailable) == 0) || r.Exactly != nil && !plain(r.Exactly) ||
			slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool { return !plainOne(&s) }):
			return "devices in a way that is not known here (request " + printable.Clip(r.Name, maxName) + ")"
		}
	}
	for _, x := range spec.Devices.Constraints {
		known := resourcev1.DeviceConstraint{Requests: x.Requests, MatchAttribute: x.MatchAttribute}
		if x.MatchAttribute == nil || !reflect.DeepEqual(x, known) {
			return "a constraint other than matchAttribute"
		}
	}
	return ""
}

// maxName bounds the letters of a name in a text.
const maxName = 80

// plain reports whether a request has no other fields than those that the allocator is asked about here.
func plain(r *resourcev1.ExactDeviceRequest) bool {
	return r.AllocationMode != "" && reflect.DeepEqual(*r, resourcev1.ExactDeviceRequest{
		DeviceClassName: r.DeviceClassName, Selectors: r.Selectors, AllocationMode: r.AllocationMode, Count: r.Count,
		AdminAccess: r.AdminAccess, Tolerations: r.Tolerations})
}

// plainOne is plain for an alternative of a request.
func plainOne(r *resourcev1.DeviceSubRequest) bool {
	return r.AllocationMode != "" && reflect.DeepEqual(*r, resourcev1.DeviceSubRequest{Name: r.Name,
		DeviceClassName: r.DeviceClassName, Selectors: r.Selectors, AllocationMode: r.AllocationMode, Count: r.Count,
		Tolerations: r.Tolerations})
}
