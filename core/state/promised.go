package state

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file keeps room for pods that have not come yet. A promise names no CPUs: kubelets know nothing of it, and give
// them to other pods. So the promise of a node is that some pods fit on it, whatever else is bound to it before them.
// A pod gets room there only if the promised pods fit after it.

// Promised is a pod that has not come yet, and for which a node keeps room.
type Promised struct {
	// ID is unique on the node, and no pod has its UID.
	ID PodID
	// For names the request that the pod belongs to, "namespace/name", and Set one of its sets of pods. The pods of a set
	// come in the order of the list, and pods of different sets and requests in any order.
	For    string
	Set    int
	Pod    *place.Pod
	Demand place.Demand
	// Claims tells apart pods of one shape whose claims of devices (DRA) differ. Promised pods that are alike in both may
	// exchange the devices that are kept for them.
	Claims string
	// On are the NUMA nodes where the pod's CPUs and memory have to be, since the devices that are kept for it are there;
	// 0 if they may be anywhere. As alike pods exchange devices, it counts how many of them get which NUMA nodes.
	On topo.Mask
}

// Refusal is the verdict for a pod that would take the room.
func (p *Promised) Refusal() place.Verdict {
	return place.Verdict{Refusal: place.TopologyAffinityError,
		Reasons: []place.Reason{{Code: place.Promised, With: p.For}}}
}

// Like reports whether every node treats the promised pod and another pod alike.
func (p *Promised) Like(other *place.Pod, d place.Demand) bool {
	return p.Demand == d && p.Pod.Shape() == other.Shape()
}

// like reports whether every node treats two promised pods alike, and they may exchange devices.
func (p *Promised) like(o *Promised) bool { return p.Claims == o.Claims && p.Like(o.Pod, o.Demand) }

// maxKeeping bounds the containers that are placed to judge whether a node keeps its promises in one state. Where more
// would be needed, the node counts as not keeping them.
const maxKeeping = 192

// Keeps reports whether the node has room for all promised pods, in each of its states.
func (n *Node) Keeps() bool { return n.keepsWithin(maxKeeping) }

// MayPromise is Keeps with half of its bound. When some of the promised pods have come, judging the others may take
// more work than before, so what is promised leaves some of the bound.
func (n *Node) MayPromise() bool { return n.keepsWithin(maxKeeping / 2) }

func (n *Node) keepsWithin(bound int) bool {
	return len(n.Promised) == 0 || n.eachState(func(one *Node) bool { return one.keeps(n.Promised, bound) })
}

// KeepsBeside reports whether the node would keep its promises if a pod got the holdings of a verdict, in each of its
// states. A pod that holds nothing takes no room.
func (n *Node) KeepsBeside(v place.Verdict) bool {
	return len(n.Promised) == 0 || len(v.Holdings) == 0 ||
		n.eachState(func(one *Node) bool { return one.having(PodID{}, v).keeps(n.Promised, maxKeeping) })
}

// keepsAfter reports whether the node would keep its promises after it has admitted a pod, in each of its states.
func (n *Node) keepsAfter(p *place.Pod, d place.Demand) bool {
	return n.eachState(func(one *Node) bool {
		after, ok := one.alone().Join(PodID{}, p, d)
		if !ok || len(after.Entries[len(after.Entries)-1].Holdings) == 0 {
			return true
		}
		return after.keeps(n.Promised, maxKeeping)
	})
}

// Redeem returns the node without the promise that a pod of a request uses, and the promise: of the request's promised
// pods the first one like this pod in its shape and claims, or in its shape, or else the first one. Where devices are
// kept on other NUMA nodes than the pod gets, it exchanges them. ok is false if the node has promised the request
// nothing.
//
// A node that has lost room, and does not keep its promises, gives what is left to the promised pods in the order in
// which they come: the result has no promises then. Otherwise each of these pods would leave the rest to the others,
// and none would come.
func (n *Node) Redeem(request string, p *place.Pod, d place.Demand, claims string) (out *Node, used Promised, ok bool) {
	like := func(x Promised) bool { return x.For == request && x.Like(p, d) }
	at := slices.IndexFunc(n.Promised, func(x Promised) bool { return like(x) && x.Claims == claims })
	if at < 0 {
		at = slices.IndexFunc(n.Promised, like)
	}
	if at < 0 {
		at = slices.IndexFunc(n.Promised, func(x Promised) bool { return x.For == request })
	}
	if at < 0 {
		return n, used, false
	}
	used = n.Promised[at]
	next := *n
	if !n.Keeps() {
		next.Promised = nil
		return &next, used, true
	}
	next.Promised = slices.Delete(slices.Clone(n.Promised), at, at+1)
	if used.On != 0 {
		on := n.Landing(p, d)
		other := slices.IndexFunc(next.Promised, func(x Promised) bool { return x.On == on && x.like(&used) })
		if used.On != on && other >= 0 {
			next.Promised[other].On, used.On = used.On, on
		}
	}
	return &next, used, true
}

// Landing returns the NUMA nodes where a pod's exclusive CPUs and pinned memory would be, whatever is promised to
// others; 0 if it holds neither, or does not fit.
func (n *Node) Landing(p *place.Pod, d place.Demand) topo.Mask {
	one := n.alone()
	one.Promised = nil
	if one.Machine == nil || !one.Meets(p, d) {
		return 0
	}
	return one.landing(p, d)
}

// landing is Landing for a pod that fits.
func (n *Node) landing(p *place.Pod, d place.Demand) topo.Mask {
	after, ok := n.Join(PodID{}, p, d)
	if !ok {
		return 0
	}
	return place.Exclusive(n.Machine, after.Entries[len(after.Entries)-1].Holdings)
}

// HasLost reports whether the node has promised a request room, and does not keep its promises.
func (n *Node) HasLost(request string) bool {
	return n.hasPromised(request) && !n.Keeps()
}

// MayHaveLost reports whether the node has promised a request room, keeps its promises in all states that are known,
// and may refuse a pod until its next report all the same.
func (n *Node) MayHaveLost(request string, p *place.Pod) bool {
	return n.hasPromised(request) && n.Keeps() && n.awaits(p)
}

// awaits reports whether the node's next report may change its answer to a pod, whatever room there is.
func (n *Node) awaits(p *place.Pod) bool {
	_, refused := n.Refused[p.Shape()]
	return refused || n.Crowds(p) || n.Doubtful() != ""
}

func (n *Node) hasPromised(request string) bool {
	return slices.ContainsFunc(n.Promised, func(x Promised) bool { return x.For == request })
}

// WithoutPromisesTo returns the node without what it has promised a request.
func (n *Node) WithoutPromisesTo(request string) *Node {
	if !n.hasPromised(request) {
		return n
	}
	out := *n
	out.Promised = slices.DeleteFunc(slices.Clone(n.Promised), func(x Promised) bool { return x.For == request })
	return &out
}

// eachState reports whether do is true for each state of the node.
func (n *Node) eachState(do func(one *Node) bool) bool {
	return do(n) && !slices.ContainsFunc(n.Others, func(o *Node) bool { return !do(o) })
}

// alone returns the node in this state alone.
func (n *Node) alone() *Node {
	out := *n
	out.Others = nil
	return &out
}

// keeps reports whether the node, in this state alone, has room for the pods of a list, in every order in which they
// may come.
func (n *Node) keeps(list []Promised, bound int) bool {
	k := keeping{left: bound, seen: map[string]bool{}}
	type set struct {
		request string
		set     int
	}
	at := map[set]int{}
	for i := range list {
		of := set{list[i].For, list[i].Set}
		q, known := at[of]
		if !known {
			q = len(k.queues)
			at[of], k.queues = q, append(k.queues, nil)
		}
		k.queues[q] = append(k.queues[q], &list[i])
		k.related = k.related || list[i].Demand.Relates()
		k.on = append(k.on, kept{&list[i], list[i].On})
	}
	if !slices.ContainsFunc(list, func(x Promised) bool { return x.On != 0 }) {
		k.on = nil
	}
	unlike := func(x Promised) bool { return !x.like(&list[0]) }
	if !slices.ContainsFunc(list, unlike) { // the order makes no difference
		k.queues = [][]*Promised{slices.Concat(k.queues...)}
	}
	return k.from(n.alone())
}

// keeping is the state of a search for an order in which promised pods do not fit.
type keeping struct {
	queues  [][]*Promised // the pods of each set that have still to come
	related bool          // what one of them demands is about others
	left    int           // see maxKeeping
	on      []kept        // the NUMA nodes that are left; nil if all pods may be anywhere
	// seen has the states of the node, with the pods that have still to come, from which all orders fit.
	seen map[string]bool
}

// kept are NUMA nodes where devices are kept for pods like one.
type kept struct {
	pod *Promised
	on  topo.Mask
}

// lands takes the NUMA nodes that a pod gets from those where devices are kept for pods like it. It returns false if
// there are none. The caller restores on.
func (k *keeping) lands(p *Promised, after *Node) bool {
	if k.on == nil {
		return true
	}
	got := place.Exclusive(after.Machine, after.Entries[len(after.Entries)-1].Holdings)
	for _, on := range []topo.Mask{got, 0} {
		at := slices.IndexFunc(k.on, func(x kept) bool { return x.on == on && x.pod.like(p) })
		if at >= 0 {
			k.on = slices.Delete(slices.Clone(k.on), at, at+1)
			return true
		}
	}
	return false
}

// from reports whether the pods that have still to come fit on the node in every order.
func (k *keeping) from(n *Node) bool {
	key := ""
	if several := k.open() > 1; several && !k.related {
		if key = k.key(n); k.seen[key] {
			return true
		}
	}
	for i, q := range k.queues {
		if len(q) == 0 || slices.ContainsFunc(k.queues[:i], func(r []*Promised) bool { return alike(q, r) }) {
			continue
		}
		if k.left -= len(q[0].Pod.Containers); k.left < 0 || !n.Meets(q[0].Pod, q[0].Demand) {
			return false
		}
		after, _ := n.Join(q[0].ID, q[0].Pod, q[0].Demand)
		on := k.on
		k.queues[i] = q[1:]
		fits := k.lands(q[0], after) && k.from(after)
		if k.queues[i], k.on = q, on; !fits {
			return false
		}
	}
	if key != "" {
		k.seen[key] = true
	}
	return true
}

// open returns how many sets have pods that have still to come.
func (k *keeping) open() (n int) {
	for _, q := range k.queues {
		n += min(len(q), 1)
	}
	return n
}

// key returns a text that is the same for states from which the same pods fit, as far as they are not related.
func (k *keeping) key(n *Node) string {
	var b strings.Builder
	for _, q := range k.queues {
		b.WriteByte(byte(len(q) >> 8))
		b.WriteByte(byte(len(q)))
	}
	b.WriteString(n.Usage.Key())
	for _, x := range k.on { // in the order of the list
		b.WriteString(" " + x.pod.ID.UID)
	}
	return b.String()
}

// alike reports whether two sets bring equal pods in the same order: it makes no difference which comes first.
func alike(q, r []*Promised) bool {
	return slices.EqualFunc(q, r, func(a, b *Promised) bool { return a.like(b) })
}
