package steer

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// cycle is what a scheduling cycle knows about its pod's claims.
type cycle struct {
	seen  seen               // what the wrapped plugin read in PreFilter
	nodes map[string]*ofNode // the slices that each node has for itself, as the index had them in PreFilter
	rest  *rest              // the other slices
	// held are the devices of claims that were allocated before, or reserved by another pod of the group. bound are those
	// that the pod demands near its CPUs and memory.
	held, bound []claims.ID
	// wanted are the claims that are to be allocated, without the one for extended resources.
	wanted []*resourcev1.ResourceClaim
	// pod is the pod as the wrapped plugin gets it; see [sharedLast].
	pod *v1.Pod
	// kept are devices that are kept for other pods; nil if there are none.
	kept sets.Set[structured.DeviceID]
	// open is true if there is something to allocate.
	open   bool
	demand demand
	// lists counts the requests with alternatives (firstAvailable). whole is true if a request is for all devices, or for
	// devices that others may hold.
	lists int
	whole bool
	// reserved is true once Reserve has run: from then on the wrapped plugin's Filter keeps what was reserved.
	reserved bool

	mu sync.Mutex
	// chosen has, by node, what Filter found there.
	chosen map[string]choice
	aparts int // how many of them are apart
}

// choice is what Filter found for a node.
type choice struct {
	attempt *attempt // nil: the allocation of the wrapped plugin counts
	apart   bool     // the devices would lie elsewhere than the pod
	near    []int    // the NUMA nodes where Filter expected the pod
	moved   bool     // Reserve has to put the pod there, because it would be elsewhere otherwise
}

// Chosen returns the NUMA nodes of a node on which a pod has to be, because its devices are there; nil if it may be
// anywhere. It is valid after Filter.
func Chosen(cs fwk.CycleState, node string) []int {
	c := read(cs)
	if c == nil {
		return nil
	}
	if x, _ := c.choice(node); x.moved {
		return x.near
	}
	return nil
}

func newCycle(s seen) *cycle { return &cycle{seen: s, chosen: map[string]choice{}} }

const stateKey fwk.StateKey = "tenon.sh/" + Name

// Clone returns c. Trials of preemption share what Filter chose, as they share the state of the
// wrapped plugin.
func (c *cycle) Clone() fwk.StateData { return c }

func read(cs fwk.CycleState) *cycle {
	d, err := cs.Read(stateKey)
	if err != nil {
		return nil
	}
	c, _ := d.(*cycle)
	return c
}

func (c *cycle) choose(node string, x choice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen[node].apart {
		c.aparts--
	}
	if x.apart {
		c.aparts++
	}
	c.chosen[node] = x
}

// choice returns what Filter found for a node. anyApart is true if the devices lie elsewhere than the pod on some node.
func (c *cycle) choice(node string) (x choice, anyApart bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chosen[node], c.aparts > 0
}

// attempt is an allocation for one node, which the wrapped plugin has in a state: the cycle's own one, or a view.
type attempt struct {
	state fwk.CycleState
}

// writeTo writes an allocation to the state of the cycle. a may be nil.
func (a *attempt) writeTo(cs fwk.CycleState) {
	if a == nil {
		return
	}
	if v, is := a.state.(*view); is {
		for key, d := range v.data {
			cs.Write(key, d)
		}
	}
}

// view is the state of a cycle in which a wrapped plugin has data of its own.
type view struct {
	fwk.CycleState
	data map[fwk.StateKey]fwk.StateData
	// alone is true if the pod's group has no part in what the plugin does.
	alone bool
}

func newView(cs fwk.CycleState) *view {
	return &view{CycleState: cs, data: map[fwk.StateKey]fwk.StateData{}}
}

func (v *view) Read(key fwk.StateKey) (fwk.StateData, error) {
	if d, ok := v.data[key]; ok {
		return d, nil
	}
	return v.CycleState.Read(key)
}

func (v *view) Write(key fwk.StateKey, d fwk.StateData) { v.data[key] = d }
func (v *view) Delete(key fwk.StateKey)                 { delete(v.data, key) }

// sharedLast returns a pod with the claims last that another pod of its group has reserved; shares is true if there are
// any. Otherwise kube-scheduler's plugin (1.36, 1.37) would give their allocations to the claims behind them.
func sharedLast(pod *v1.Pod, all fwk.ResourceClaimTracker) (ordered *v1.Pod, shares bool) {
	var own, shared []v1.PodResourceClaim
	for i := range pod.Spec.ResourceClaims {
		r := pod.Spec.ResourceClaims[i]
		if claim := claimOf(pod, &r, all); claim != nil && pending(all, claim.UID) != nil {
			shared = append(shared, r)
		} else {
			own = append(own, r)
		}
	}
	if len(shared) == 0 || len(own) == 0 {
		return pod, len(shared) > 0
	}
	out := *pod
	out.Spec.ResourceClaims = append(own, shared...)
	return &out, true
}

// exchanged is why a pod is refused for which kube-scheduler's plugin would exchange allocations: it puts the claim for
// extended resources behind the others.
const exchanged = "the pod shares a claim of its group and asks for an extended resource that DRA serves, " +
	"and kube-scheduler's plugin would exchange their devices: ask for them in a claim of the pod"

// claimOf returns the claim that a pod uses by one of its spec.resourceClaims, or nil.
func claimOf(pod *v1.Pod, r *v1.PodResourceClaim, all fwk.ResourceClaimTracker) *resourcev1.ResourceClaim {
	name, _, err := resourceclaim.Name(pod, r)
	if err != nil || name == nil {
		return nil // the wrapped plugin refuses the pod, or the pod needs no such claim
	}
	claim, err := all.Get(pod.Namespace, *name)
	if err != nil {
		return nil
	}
	return claim
}

// readClaims sets what c has about the claims of a pod.
func (c *cycle) readClaims(pod *v1.Pod, all fwk.ResourceClaimTracker) {
	for i := range pod.Spec.ResourceClaims {
		claim := claimOf(pod, &pod.Spec.ResourceClaims[i], all)
		if claim == nil {
			continue
		}
		for _, r := range claim.Spec.Devices.Requests {
			c.lists += min(len(r.FirstAvailable), 1)
			c.whole = c.whole || isWhole(&r)
		}
		a := claim.Status.Allocation
		if a == nil {
			// Another pod of the group has reserved the claim, or else the wrapped plugin would have refused the pod.
			a = pending(all, claim.UID)
		}
		if a == nil {
			c.wanted = append(c.wanted, claim)
			continue
		}
		c.held = append(c.held, claims.DevicesOf(a)...)
		c.bound = append(c.bound, c.demand.of(claim, a)...)
	}
}

// isWhole reports whether a request, or an alternative of it, is for all devices, or for devices that others may hold.
func isWhole(r *resourcev1.DeviceRequest) bool {
	if e := r.Exactly; e != nil {
		return e.AllocationMode == resourcev1.DeviceAllocationModeAll || e.AdminAccess != nil && *e.AdminAccess
	}
	return slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool {
		return s.AllocationMode == resourcev1.DeviceAllocationModeAll
	})
}
