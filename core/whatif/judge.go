package whatif

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file judges a pod on a node completely: what the kubelet's managers will do, whether the plain amounts are
// enough, what kube-scheduler's other filters decide, and whether enough is known about the node.

// Judgement is the complete result for a pod on a node.
type Judgement struct {
	// Verdict is what the node's kubelet would do now, ignoring everything else. It has no holdings if the node's
	// NUMA nodes are unknown (Blind) or if the pod is plain.
	Verdict place.Verdict
	Blind   bool
	// Reasons are all reasons that keep the pod from the node. Permanent reasons come first, then those that do not
	// pass by themselves, then those about what is short now. The pod fits if there are none.
	Reasons []place.Reason
}

// Fits reports whether the pod may go to the node.
func (j Judgement) Fits() bool { return len(j.Reasons) == 0 }

// When returns what has to happen before the pod fits, by the reason that lasts longest. It returns place.Later if the
// pod fits.
func (j Judgement) When() place.When {
	if j.Fits() {
		return place.Later
	}
	return j.Reasons[0].When()
}

// Judge returns the complete result for a pod on a node. The argument barred has additional reasons of the caller.
func (r Rules) Judge(n *Node, w *Want, barred []place.Reason) Judgement {
	out := Judgement{Reasons: slices.Concat(barred, n.Lacks(w.Needs))}
	if with := n.beside(w.Request); with != n {
		if n = with; len(out.Reasons) == len(barred) && len(n.Lacks(w.Needs)) > 0 {
			out.Reasons = append(out.Reasons, n.keptReason(w.Request))
		}
	}
	if w.Pod.Plain() {
		out.Reasons = append(out.Reasons, n.lacksDevices(w, nil)...)
		return out.sorted()
	}
	out.Reasons = append(out.Reasons, r.distrusts(n, w.Demand)...)
	if n.State == nil {
		out.Blind = true
		out.Reasons = append(out.Reasons, n.lacksDevices(w, nil)...)
		return out.sorted()
	}
	out.Verdict = n.State.Place(w.Pod, w.Demand)
	out.Reasons = append(out.Reasons, n.lacksDevices(w, out.Verdict.Holdings)...)
	if out.Verdict.Fits() {
		if why := r.Guard.Refuses(n.State, w.Pod, w.Demand); why != 0 {
			out.Reasons = append(out.Reasons, BarReason(why, n.State))
		}
		return out.sorted()
	}
	out.Reasons = Join(out.Reasons, n.State.NeverMeets(w.Pod, w.Demand), out.Verdict.Reasons)
	return out.sorted()
}

// keptReason is the reason that the amounts of a node are kept for the pods of another request.
func (n *Node) keptReason(request string) place.Reason {
	names := slices.Sorted(maps.Keys(n.Kept))
	return place.Reason{Code: place.Promised, With: names[max(0, slices.IndexFunc(names, func(name string) bool {
		return name != request
	}))]}
}

// Join appends reasons of one node to others of it, and leaves out those that are redundant.
func Join(reasons []place.Reason, more ...[]place.Reason) []place.Reason {
	for _, list := range more {
		for _, x := range list {
			if !slices.ContainsFunc(reasons, func(y place.Reason) bool { return covers(y, x) }) {
				reasons = append(reasons, x)
			}
		}
	}
	return reasons
}

// covers reports whether reason y makes x redundant: y is the permanent form of x, is about the whole node, or equals
// x.
func covers(y, x place.Reason) bool {
	switch {
	case y.Never && y.Container == x.Container && y.Resource == x.Resource:
		return true
	case y.Code == place.Lacking && x.Code == place.Short && y.Resource == x.Resource:
		return y.Never || !x.Never
	}
	return y == x
}

// sorted puts the reasons in the order of Judgement.Reasons.
func (j Judgement) sorted() Judgement {
	slices.SortStableFunc(j.Reasons, func(a, b place.Reason) int { return a.When().Compare(b.When()) })
	return j
}

// distrusts returns why too little is known about a node for pods that need alignment, at most one reason.
func (r Rules) distrusts(n *Node, d place.Demand) []place.Reason {
	why := r.Guard.Distrusts(n.State)
	if why == 0 || why == guard.NotKnown && r.Guard.LetsUnknown(d) {
		return nil
	}
	return []place.Reason{BarReason(why, n.State)}
}

// BarReason returns the reason for a bar of the guard. n is nil for a node without any report.
func BarReason(why guard.Bar, n *state.Node) place.Reason {
	switch why {
	case guard.OnlyEstimated:
		return place.Reason{Code: place.AmountsOnly}
	case guard.IsSilent:
		return place.Reason{Code: place.SilentNode}
	case guard.IsInexact:
		return place.Reason{Code: place.InexactNode, With: guard.Codes(n.Inexact)}
	case guard.Strands:
		return place.Reason{Code: place.NoRestart}
	}
	return place.Reason{Code: place.NoLayout}
}

// Whole converts two amounts, what is wanted and what a node has, to the units of a reason. CPUs become whole
// numbers, rounded so that want stays above have if it is above have.
func Whole(resource string, want, have int64) (int64, int64) {
	if resource == "cpu" {
		return (want + 999) / 1000, have / 1000
	}
	return want, have
}

// Lacks returns a reason for each resource of which the node has less left than needs has. It counts resources like
// kube-scheduler's plugin NodeResourcesFit.
func (n *Node) Lacks(needs Amounts) (out []place.Reason) {
	for name, want := range needs {
		if !n.lacks(name, want) {
			continue
		}
		have := n.Left(name)
		never := want > n.most(name)
		if never {
			have = n.Allocatable[name]
		}
		want, have = Whole(name, want, have)
		out = append(out, place.Reason{Code: place.Lacking, Resource: name, Want: want, Have: have, Never: never})
	}
	slices.SortFunc(out, func(a, b place.Reason) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// lacks reports whether the node has less of a resource left than is wanted.
func (n *Node) lacks(name string, want int64) bool {
	return want > 0 && want > n.Left(name) && !n.serves(name) && !n.Uncounted[name]
}

// gives reports whether Lacks returns no reason.
func (n *Node) gives(needs Amounts) bool {
	for name, want := range needs {
		if n.lacks(name, want) {
			return false
		}
	}
	return true
}

// serves reports whether DRA serves a resource on the node. If a device plugin offers the resource there,
// kube-scheduler counts amounts instead.
func (n *Node) serves(resource string) bool {
	return n.Served[resource] && n.Allocatable[resource] <= 0
}

// Way is a set of pods on a node. Once they have ended, another pod fits there.
type Way struct {
	Pods []state.PodID // ascending by namespace and name
	// Missing is what the other pod lacks now, on the NUMA nodes that it would get once Pods have ended.
	Missing []Missing
}

// Missing is an amount that pods have to give back, on NUMA nodes, or on the whole node if NUMAs is empty.
type Missing struct {
	Resource string
	More     int64 // CPUs, bytes or devices
	NUMAs    topo.Mask
}

// Way returns the pods that have to end so that w fits on the node, as few as a bounded search finds. ok is false if
// w would not fit even if all pods that may end had ended, if there are no such pods, or if there are too many
// (evict.MaxVictims).
func (r Rules) Way(n *Node, w *Want) (way Way, ok bool) {
	pods := n.MayEnd()
	gone := func(set []int) *Node { return n.After(pods, set) }
	groups := map[topo.Mask][]int{}
	for i, x := range pods {
		if e, held := n.entry(x.Pod.UID); held {
			on := place.Verdict{Holdings: e.Holdings}.NUMAs(n.State.Machine)
			groups[on] = append(groups[on], i)
		}
	}
	p := evict.Problem{Works: func(set []int) bool { return r.Judge(gone(set), w, nil).Fits() }}
	for _, x := range pods {
		p.Victims = append(p.Victims, evict.Victim{Size: x.Needs["cpu"]})
	}
	for _, on := range slices.Sorted(maps.Keys(groups)) {
		p.Groups = append(p.Groups, groups[on])
	}
	best, ok := evict.Choose(p)
	if !ok {
		return way, false
	}
	for _, i := range best.Set {
		way.Pods = append(way.Pods, pods[i].Pod)
	}
	slices.SortFunc(way.Pods, func(a, b state.PodID) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	way.Missing = missing(n, w, r.Judge(gone(best.Set), w, nil).Verdict)
	return way, true
}

// MayEnd returns the pods of the node that may end.
func (n *Node) MayEnd() (out []Resident) {
	for _, x := range n.Pods {
		if !x.Stays {
			out = append(out, x)
		}
	}
	if n.State == nil {
		return out
	}
	for _, e := range n.State.Entries {
		if e.Pod.UID == "" { // no known pod holds these amounts, so no end of a pod frees them
			continue
		}
		if !slices.ContainsFunc(n.Pods, func(x Resident) bool { return x.Pod.UID == e.Pod.UID }) {
			out = append(out, Resident{Pod: e.Pod})
		}
	}
	return out
}

// entry returns what a pod holds on the node; the second result is false if the pod holds nothing, or if its holdings
// are unknown.
func (n *Node) entry(uid string) (state.Entry, bool) {
	if n.State == nil {
		return state.Entry{}, false
	}
	return n.State.Entry(uid)
}

// After returns the node once some pods, given by their indices, have ended.
func (n *Node) After(pods []Resident, gone []int) *Node {
	out := *n
	out.Used = Amounts{}.Add(n.Used)
	var uids []string
	for _, i := range gone {
		uids = append(uids, pods[i].Pod.UID)
		for name, x := range pods[i].Needs {
			out.Used[name] = max(0, out.Used[name]-x)
		}
	}
	if n.State != nil {
		out.State = n.State.Without(uids...)
	}
	out.leave(uids)
	return &out
}

// missing returns the plain amounts that are now short on the whole node, and then the amounts that are short on the
// NUMA nodes where the verdict would put the pod. A plain amount is left out if at least as much of its resource is
// short on one set of NUMA nodes.
func missing(n *Node, w *Want, v place.Verdict) (out []Missing) {
	var near []Missing
	if n.State != nil {
		for _, x := range sums(n.State.Machine, v) {
			if free := freeOn(n.State.Usage, x.NUMAs, x.Resource); x.More > free {
				x.More -= free
				near = append(near, x)
			}
		}
	}
	for _, r := range n.Lacks(w.Needs) {
		x := Missing{Resource: r.Resource, More: r.Want - r.Have}
		if !slices.ContainsFunc(near, func(y Missing) bool { return y.Resource == x.Resource && y.More >= x.More }) {
			out = append(out, x)
		}
	}
	return append(out, near...)
}

// sums adds up the holdings of a verdict, by resource and NUMA nodes, in the order of resource names. It leaves out
// init containers, and what is on no NUMA node.
func sums(m *topo.Machine, v place.Verdict) (out []Missing) {
	add := func(resource string, n int64, on topo.Mask) {
		same := func(x Missing) bool { return x.Resource == resource && x.NUMAs == on }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].More += n
		} else if on != 0 {
			out = append(out, Missing{resource, n, on})
		}
	}
	for _, h := range v.Holdings {
		if h.Kind == place.Init {
			continue
		}
		add("cpu", int64(h.CPUs.Len()), place.Holding{CPUs: h.CPUs}.NUMAs(m))
		for _, b := range h.Memory {
			add(b.Kind, b.Bytes, b.NUMAs)
		}
		for _, d := range h.Devices {
			add(d.Resource, int64(len(d.IDs)), d.NUMAs)
		}
	}
	slices.SortFunc(out, func(a, b Missing) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), cmp.Compare(a.NUMAs, b.NUMAs))
	})
	return out
}

// freeOn returns how much of a resource some NUMA nodes have free.
func freeOn(u *place.Usage, on topo.Mask, resource string) (n int64) {
	for at, r := range u.Machine.Resources() {
		if r.Name == resource {
			return u.FreeDevicesOn(at, on)
		}
	}
	for _, i := range on.Positions() {
		if resource == "cpu" {
			n += int64(u.Machine.NUMAs()[i].CPUs.AndLen(u.FreeCPUs()))
		} else {
			n += u.FreeMemory(i, resource)
		}
	}
	return n
}
