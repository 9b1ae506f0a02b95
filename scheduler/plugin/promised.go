package plugin

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/arrange"
	"github.com/tenon-numa/tenon/scheduler/candidates"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file leaves pods out of the room that is kept for others, and lets pods use up what is kept for them; see
// package promise. What is kept on NUMA nodes is part of every verdict; the plain amounts are compared here, also for
// pods that no kubelet aligns. While no room is kept, nothing here runs.

// askedKey is the key of an *asked in the state of a cycle.
const askedKey fwk.StateKey = "tenon.sh/asked"

// asked is what a pod asks for while room is kept for others.
type asked struct {
	request string // whose room the pod uses up, or ""
	pod     *place.Pod
	demand  place.Demand
	// needs and claims (see promise.Pod) are read on demand: most pods are reserved while no room is kept.
	needs  func() whatif.Amounts
	claims func() string
	// narrowed is set if the attempt is about the nodes that keep room for the pod, and no other node.
	narrowed bool
	// used is set once the pod was reserved with the keeper, and not only in a trial.
	used bool
}

// Clone implements fwk.StateData.
func (a *asked) Clone() fwk.StateData { return a }

// asks returns what a pod asks for, or nil if no room is kept.
func (p *Plugin) asks(cs fwk.CycleState, pod *v1.Pod) *asked {
	if !p.promises.Any() {
		return nil
	}
	return p.read(cs, pod)
}

// read returns what a pod asks for, or nil if the pod cannot be scheduled.
func (p *Plugin) read(cs fwk.CycleState, pod *v1.Pod) *asked {
	if a := askedIn(cs); a != nil {
		return a
	}
	s, ok := read(cs)
	if !ok {
		var status *fwk.Status
		if s, status = translate(pod); status != nil {
			return nil
		}
	}
	needs := sync.OnceValue(func() whatif.Amounts {
		out, _ := kube.Needs(pod)
		return out
	})
	a := &asked{request: p.requestOf(pod), pod: s.pod, demand: s.demand, needs: needs,
		claims: sync.OnceValue(func() string { return capacity.ClaimsOf(pod, needs()) })}
	cs.Write(askedKey, a)
	return a
}

// requestOf returns the request whose room a pod uses up: the one that it names, or one that names its controller if
// the first keeps nothing; "" if there is none.
func (s *Shared) requestOf(pod *v1.Pod) string {
	request := apipod.Request(pod)
	if !s.promises.Any() || request != "" && len(s.promises.Nodes(request)) > 0 {
		return request
	}
	return cmp.Or(s.promises.Owned(apipod.Owner(pod), pod.CreationTimestamp.Unix()), request)
}

// askedIn returns what was read before in a cycle, or nil.
func askedIn(cs fwk.CycleState) *asked {
	d, err := cs.Read(askedKey)
	if err != nil {
		return nil
	}
	a, _ := d.(*asked)
	return a
}

// usedIn returns what was read in a cycle whose pod was reserved with the keeper, or nil.
func (p *Plugin) usedIn(cs fwk.CycleState) *asked {
	if !p.promises.IsOpen() {
		return nil
	}
	if a := askedIn(cs); a != nil && a.used {
		return a
	}
	return nil
}

// redeem takes the room that is kept for the pod back in the cycle's view of the nodes, and returns these nodes if the
// pod should have one of them: kube-scheduler could otherwise prefer another node, and the room would stay empty until
// the next pod of the request comes.
func (p *Plugin) redeem(cs fwk.CycleState, a *asked, s *podState, pod *v1.Pod, nodes []fwk.NodeInfo) sets.Set[string] {
	kept := sets.New(p.promises.Nodes(a.request)...)
	if len(kept) == 0 {
		return nil
	}
	like := sets.New(p.promises.NodesFor(promise.Coming{Request: a.request, Pod: a.pod, Demand: a.demand,
		Claims: a.claims()})...)
	out := sets.New[string]()
	for _, info := range nodes {
		name := info.Node().Name
		if !kept.Has(name) {
			continue
		}
		if s != nil {
			s.overlay = s.overlay.Change(s.snap.Node(name), func(o *overlay.Node) {
				o.Redeem(a.request, s.pod, s.demand, a.claims())
			})
		}
		if !like.Has(name) {
			continue
		}
		bars, err := kube.Bars(pod, kube.RequiredAffinity(pod), info.Node())
		if err != nil || len(bars) > 0 || inTheWay(a.needs(), info, p.promises.Amounts(name, a.request)) != nil ||
			!hasAmounts(info, a.needs()) {
			continue
		}
		if s == nil || p.takesNow(s, name) {
			out.Insert(name)
		}
	}
	// Nothing tells this plugin that an attempt in another main program found none of the nodes good.
	if p.anywhere.Remove(string(pod.UID)) || len(out) == 0 || p.alone {
		return nil
	}
	if fwk.Grouped(pod) {
		if p.handle == nil || !candidates.OnAll(p.handle, len(nodes)) || arrange.Planned(cs) {
			return nil // the nodes of this attempt are chosen otherwise
		}
		p.anywhere.Add(pod) // until it is reserved there: kube-scheduler runs no PostFilter for pods of groups
	}
	a.narrowed = true
	return out
}

// preFilterPlain skips a pod that no kubelet aligns, unless room is kept: then the pod must leave the plain amounts.
func (p *Plugin) preFilterPlain(cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	a := p.asks(cs, pod)
	if a == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if kept := p.redeem(cs, a, nil, pod, nodes); kept != nil {
		return &fwk.PreFilterResult{NodeNames: kept}, nil
	}
	return nil, nil
}

// takesNow reports whether the pod fits on a node in the cycle's view.
func (p *Plugin) takesNow(s *podState, name string) bool {
	n := s.node(name)
	return n != nil && p.guard.Distrusts(n) == 0 && s.takes(n) && p.guard.Refuses(n, s.pod, s.demand) == 0
}

// beside returns the amounts that a pod needs beside those that a view of the node counts already. A group cycle adds a
// pod to its view before it is reserved (assume of pkg/scheduler/schedule_one.go in 1.37).
func (a *asked) beside(pod *v1.Pod, info fwk.NodeInfo) whatif.Amounts {
	if slices.ContainsFunc(info.GetPods(), func(x fwk.PodInfo) bool { return x.GetPod().UID == pod.UID }) {
		return nil
	}
	return a.needs()
}

// inTheWay returns the status of a node that has these amounts only in what is kept for others, or nil.
func inTheWay(needs whatif.Amounts, info fwk.NodeInfo, kept whatif.Amounts) *fwk.Status {
	if len(kept) == 0 || !hasAmounts(info, needs) || hasAmounts(info, needs.Add(kept)) {
		return nil // where the pod does not fit anyway, kube-scheduler's own plugins say why
	}
	return fwk.NewStatus(fwk.Unschedulable, keptText)
}

const keptText = "room there is kept for pods that have not come yet"

// filterAmounts refuses a node if the pod would take plain amounts that are kept for others.
func (p *Plugin) filterAmounts(cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	a := p.asks(cs, pod)
	if a == nil {
		return nil
	}
	return inTheWay(a.needs(), info, p.promises.Amounts(info.Node().Name, a.request))
}

// hasAmounts reports whether a node has plain amounts left. Resources that the node does not announce are not counted,
// as drivers may have them.
func hasAmounts(info fwk.NodeInfo, needs whatif.Amounts) bool {
	all, used := info.GetAllocatable(), info.GetRequested()
	for name, n := range needs {
		var most, now int64
		switch name {
		case "pods":
			most, now = int64(all.GetAllowedPodNumber()), int64(len(info.GetPods()))
		case string(v1.ResourceCPU):
			most, now = all.GetMilliCPU(), used.GetMilliCPU()
		case string(v1.ResourceMemory):
			most, now = all.GetMemory(), used.GetMemory()
		case string(v1.ResourceEphemeralStorage):
			most, now = all.GetEphemeralStorage(), used.GetEphemeralStorage()
		default:
			announced := false
			if most, announced = all.GetScalarResources()[v1.ResourceName(name)]; !announced {
				continue
			}
			now = used.GetScalarResources()[v1.ResourceName(name)]
		}
		if n > 0 && now+n > most {
			return false
		}
	}
	return true
}

// reserve has a pod reserved by book, and use up the room that is kept for it. It refuses a node whose amounts have
// been promised since Filter.
func (p *Plugin) reserve(cs fwk.CycleState, pod *v1.Pod, node string, book func() *fwk.Status) (out *fwk.Status) {
	if !p.promises.IsOpen() || p.supposed.Load() != nil {
		return book()
	}
	a := p.read(cs, pod)
	if a == nil {
		return book()
	}
	a.used = true
	crowded := false
	p.promises.Use(p.coming(cs, a, pod, node), func(kept whatif.Amounts) bool {
		if len(kept) > 0 && p.handle != nil {
			if info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
				if out = inTheWay(a.beside(pod, info), info, kept); out != nil {
					crowded = true
					return false
				}
			}
		}
		if out = book(); !out.IsSuccess() {
			return false
		}
		if fwk.Grouped(pod) {
			p.anywhere.Remove(string(pod.UID))
		}
		p.flights.Begin(kube.ID(pod), node, a.needs)
		return true
	})
	if crowded {
		p.tryAgain(pod)
	}
	return out
}

// newKeeper returns a keeper of room on the nodes of the ledger.
func (s *Shared) newKeeper() *promise.Keeper {
	k := promise.NewKeeper(s.Book, s.mayPromise, s.roomFreed, s.holdReleased)
	k.Rejudge(s.mayKeep)
	return k
}

// mayKeep is mayPromise for places that are kept already. It is a promise.Judge.
func (s *Shared) mayKeep(node string, list []state.Promised, sum whatif.Amounts) bool {
	return s.hasRoomFor(node, list, sum, false)
}

// mayPromise reports whether a node has room for the promised pods of a list on its NUMA nodes, and the plain amounts
// in sum, besides what is bound there, on the way, or nominated to the node. It is a promise.Judge.
func (s *Shared) mayPromise(node string, list []state.Promised, sum whatif.Amounts) bool {
	return s.hasRoomFor(node, list, sum, true)
}

// hasRoomFor is mayPromise, or, for what was promised before, without regard to nominated pods: the pods that were
// evicted for them are still there.
func (s *Shared) hasRoomFor(node string, list []state.Promised, sum whatif.Amounts, anew bool) bool {
	n := &state.Node{Name: node}
	if known := s.Book.Snapshot().Node(node); known != nil {
		*n = *known
		n.Promised = list
	}
	all, used, there := s.amounts.Of(n)
	if !there {
		return false
	}
	var nominated whatif.Amounts
	seated := true
	if anew {
		n, nominated, seated = s.nominated(n)
	}
	if !seated || anew && !n.MayPromise() || !n.Keeps() {
		return false
	}
	predicted := map[string]bool{}
	for i := range n.Entries {
		if n.Entries[i].Source == state.Predicted {
			predicted[n.Entries[i].Pod.UID] = true
		}
	}
	needs := sum.Add(nominated).Add(s.flights.On(node, s.amounts.Unbound,
		func(id state.PodID) bool { return predicted[id.UID] }))
	for name, want := range needs {
		if most, announced := all[name]; announced && want > 0 && used[name]+want > most {
			return false
		}
	}
	return true
}

// nominated returns a node with the pods that are nominated to it, such as those for which others were evicted there,
// and their plain amounts. seated is false if one of them does not fit yet: which of the room it will take when others
// have ended is not known.
func (s *Shared) nominated(n *state.Node) (with *state.Node, needs whatif.Amounts, seated bool) {
	seated = true
	if s.any == nil {
		return n, nil, seated
	}
	for _, info := range s.any.NominatedPodsForNode(n.Name) {
		pod := info.GetPod()
		if _, booked := n.Entry(string(pod.UID)); booked || s.flights.Has(string(pod.UID)) {
			continue // it has been reserved since
		}
		if len(pod.Spec.Containers) == 0 { // while a pod is tried, kube-scheduler's queue has no more than its name
			if pod = s.amounts.Waiting(kube.ID(pod)); pod == nil {
				continue
			}
		}
		r, status := translate(pod)
		if status != nil {
			continue
		}
		more, _ := kube.Needs(pod)
		needs = needs.Add(more)
		if n.Machine != nil && !r.pod.Plain() {
			fits := n.Takes(r.pod, r.demand)
			seated = seated && fits
			n, _ = n.Join(kube.ID(pod), r.pod, r.demand)
		}
	}
	return n, needs, seated
}

// narrowedInVain reports whether the last attempt to place a pod of a group was about the nodes that keep room for it,
// and has not reserved it. Its next attempt is about all nodes.
func (s *Shared) narrowedInVain(pod *v1.Pod) bool {
	return s.promises.IsOpen() && fwk.Grouped(pod) && s.anywhere.Has(string(pod.UID))
}

// afterFailure has a pod that fits on no node that keeps room for it look at all nodes next time. It returns true for
// such a pod: nothing need be evicted for it yet.
func (p *Plugin) afterFailure(cs fwk.CycleState, pod *v1.Pod) (again bool) {
	if !p.promises.IsOpen() {
		return false
	}
	a, hidden := askedIn(cs), hiddenIn(cs)
	plain := a != nil && a.pod.Plain()
	switch {
	case a != nil && a.narrowed:
		p.anywhere.Add(pod)
		p.tryAgain(pod)
		return true
	case plain && !p.promises.Any(): // the last room was given back meanwhile
		p.tryAgain(pod)
	case plain, hidden != nil:
		p.keptOut.Add(pod)
		if p.shows(hidden) { // some devices were given back before the pod was added
			p.tryAgain(pod)
		}
	}
	return false
}

// roomsOf returns the nodes that have lost room that they keep, a place of the pod's among it, and the nodes that may
// have lost it, both ascending.
func (p *Plugin) roomsOf(pod *v1.Pod, s *podState) (lost, unsure []string) {
	request := p.requestOf(pod)
	for _, node := range p.promises.Nodes(request) {
		n := s.snap.Node(node)
		switch {
		case p.promises.Short(node):
			lost = append(lost, node)
		case n != nil && n.MayHaveLost(request, s.pod):
			unsure = append(unsure, node)
		}
	}
	return lost, unsure
}

// holds returns the request until whose room the pod is held back, or "". A pod for which room is kept is not held
// back.
func (s *Shared) holds(pod *v1.Pod) string {
	if !s.promises.HoldsAny() {
		return ""
	}
	name := s.promises.Holds(apipod.Owner(pod), pod.CreationTimestamp.Unix(), time.Now())
	if name == "" || len(s.promises.Nodes(s.requestOf(pod))) > 0 {
		return ""
	}
	return name
}

// heldBack returns the status of a pod that waits for the room of a request that names its controller, or nil.
func (p *Plugin) heldBack(pod *v1.Pod) *fwk.Status {
	if p.holds(pod) == "" {
		return nil
	}
	p.waitRoom.Add(pod)
	name := p.holds(pod) // it may have been released before the pod was added
	if name == "" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "it is held back until ProvisioningRequest "+name+
		" has room, which names its controller")
}

// tryAgain has a pod tried again at once, also one that no kubelet aligns.
func (p *Plugin) tryAgain(pod *v1.Pod) {
	p.retry(pod)
	if p.handle != nil {
		p.handle.Activate(p.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}

// holdReleased tries the pods of an owner again that were held back.
func (s *Shared) holdReleased(owner string) {
	s.tryNow(s.waitRoom.TakeIf(func(pod *v1.Pod) bool { return apipod.Owner(pod) == owner }))
}

// roomFreed tries pods again that may have been refused for room that is not kept any more.
func (s *Shared) roomFreed(node string) {
	if s.waiting != nil {
		s.wake(node)
	}
	s.tryNow(s.keptOut.Take())
}

// tryNow has pods tried again at once.
func (s *Shared) tryNow(list map[string]*v1.Pod) {
	pods := map[string]*v1.Pod{}
	for _, pod := range list {
		pods[pod.Namespace+"/"+pod.Name] = pod
	}
	if len(pods) > 0 && s.any != nil {
		s.any.Activate(s.plugins[0].logger, pods)
	}
}
