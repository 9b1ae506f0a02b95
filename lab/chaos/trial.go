package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
)

// trial computes whether a kubelet would have admitted a pod that it refused, if events had not happened that the
// scheduler had not received when it bound the pod. It rebuilds the managers' state at the refusal from the kubelet's
// journal, changes it as if an event had not happened, and asks place. Some events also changed what later pods got;
// replay computes what these pods would have got instead.
type trial struct {
	*scene
	pod       *place.Pod
	life      life
	at        int // index of the refusal in the node's admissions
	admission admission

	// What the scheduler had not received.
	foreign       map[string]bool // UIDs of pods that other schedulers bound
	ended         map[string]bool // UIDs of pods that have ended
	receivedRules rules           // the rules that the scheduler had received, if the kubelet was restarted since
	unreported    bool            // the kubelet was restarted, and no layout since then was received
}

// without selects the kinds of events that are assumed not to have happened.
type without struct{ foreign, ended, rules, stale, unplugged bool }

// findUnreceived sets foreign, ended, receivedRules and unreported: what the scheduler had not received when the pod
// got its turn.
func (t *trial) findUnreceived() {
	by := t.life.bound.at.Add(-lag)
	if !t.decided.IsZero() {
		by = t.decided.Add(-skew)
	}
	t.foreign, t.ended = map[string]bool{}, map[string]bool{}
	for _, l := range t.lives {
		uid := string(l.pod.UID)
		if l.pod.Spec.NodeName != t.life.pod.Spec.NodeName || l.pod.UID == t.life.pod.UID || !l.bound.known() {
			continue
		}
		if l.over() && l.endMoment().version < t.received.began.version {
			continue // the scheduler listed all pods later, so it had the information that this one is gone
		}
		others := !l.tenon() || l.bound.version <= t.received.began.version // or an earlier scheduler of Tenon's
		if others && !t.received.receivedBound(uid, by) {
			t.foreign[uid] = true
		}
		over := l.over() && l.endMoment().version < t.life.ended.version || t.releaseIndex(uid) < len(t.admissions)
		if over && !t.received.receivedOver(uid, by) {
			t.ended[uid] = true
		}
	}
	r, ok := t.received.report(t.life.pod.Spec.NodeName, by)
	if t.unreported = !ok || t.agentSince(r.agent).Before(t.admission.Began); t.unreported && ok {
		t.receivedRules = r.rules
	} else {
		t.receivedRules = t.admission.rules()
	}
}

// cause returns the single event without which the pod fits, or that several events together caused the refusal, with
// an explanation. The time of the scheduler's decision is known only to a fraction of a second, so the scheduler may
// have received some of the ends in t before it decided. If no event explains the refusal, cause therefore tries
// again without the earliest end, then without the two earliest, and so on.
func (t *trial) cause() (blame, string) {
	why, text := t.causeOnce()
	ends := t.ends()
	for i := 1; why == knowable && i < len(ends); i++ {
		u := *t
		u.ended = map[string]bool{}
		for _, uid := range ends[i:] {
			u.ended[uid] = true
		}
		if w, s := u.causeOnce(); w == roomier || w == combined {
			return w, s
		}
	}
	return why, text
}

// ends returns the pods whose end the scheduler had not received, the first to end first.
func (t *trial) ends() (uids []string) {
	lives := slices.Clone(t.lives)
	version := func(l life) uint64 {
		if l.over() {
			return l.endMoment().version
		}
		return math.MaxUint64
	}
	slices.SortStableFunc(lives, func(l, m life) int { return cmp.Compare(version(l), version(m)) })
	for _, l := range lives {
		if uid := string(l.pod.UID); t.ended[uid] {
			uids = append(uids, uid)
		}
	}
	return uids
}

// causeOnce is one try of cause: it assumes that the scheduler had received none of the ends in t.
func (t *trial) causeOnce() (blame, string) {
	if t.fits(without{}) && t.remade {
		return remade, "the pod fits on the machine of the layout, which is not the kubelet's"
	}
	if t.fits(without{}) {
		return knowable, "by the managers' own state the pod fits: place differs from the kubelet"
	}
	for _, c := range []struct {
		why  blame
		what without
		text string
	}{
		{overtaken, without{foreign: true}, "without " + t.names(t.foreign)},
		{ruled, without{rules: true}, fmt.Sprintf("by %s, not by %s", t.receivedRules, t.admission.rules())},
		{stale, without{stale: true}, "without pods that are gone"},
		{unplugged, without{unplugged: true}, "with " + strings.Join(t.missing(t.admission), ", ")},
		{roomier, without{ended: true}, "beside " + t.names(t.ended)},
	} {
		if t.fits(c.what) {
			return c.why, c.text + " it fits"
		}
	}
	if t.fits(without{true, true, true, true, true}) || t.fits(without{true, false, true, true, true}) {
		return combined, fmt.Sprintf("it fits by %s, without %s and pods that are gone, with devices, beside %s",
			t.receivedRules, t.names(t.foreign), t.names(t.ended))
	}
	why := knowable
	switch {
	case t.remade:
		why = remade
	case t.silent:
		why = unheard
	}
	return why, fmt.Sprintf("the scheduler had not received the foreign pods %s, the ends of %s, other rules: %t; "+
		"without all this it does not fit either", t.names(t.foreign), t.names(t.ended),
		t.receivedRules != t.admission.rules())
}

// names returns the names of pods as text.
func (t *trial) names(uids map[string]bool) string {
	var out []string
	for _, l := range t.lives {
		if uids[string(l.pod.UID)] {
			out = append(out, l.pod.Name)
		}
	}
	if len(out) == 0 {
		return "nobody"
	}
	return strings.Join(out, ", ")
}

// fits reports whether place admits the pod in the state in which the kubelet refused it, if the events that w
// selects had not happened.
func (t *trial) fits(w without) bool {
	var other map[string][]place.Holding
	if w.foreign || w.ended {
		other = t.replay(without{foreign: w.foreign, ended: w.ended})
	}
	return place.Place(t.usage(t.at, w, other), t.pod).Fits()
}

// usage returns the managers' state at t.admissions[at], as if the events that w selects had not happened. For the
// pods in other, it takes the holdings from there instead of from the managers' files.
func (t *trial) usage(at int, w without, other map[string][]place.Holding) *place.Usage {
	a := t.admissions[at]
	r := t.rules
	rules := a.rules()
	if w.rules && at == t.at {
		rules = t.receivedRules
	}
	r.Topology.Policy, _ = place.ParsePolicy(rules.policy)
	r.Topology.Scope, _ = place.ParseScope(rules.scope)
	u := place.NewUsage(t.machine, r)
	// unchanged is true while the state equals the managers' own. Only then do their records of memory groups apply.
	unchanged := len(other) == 0
	for _, uid := range t.order(a) {
		switch {
		case a.releases(uid), w.foreign && t.foreign[uid], w.stale && !a.Ready && t.hadEnded(uid, a):
			unchanged = false
		case other[uid] != nil:
			u = u.Hold(other[uid]...)
		default:
			u = u.Hold(a.held[uid]...)
		}
	}
	if w.ended {
		for _, hs := range t.stillCounted(at) {
			u, unchanged = u.Hold(hs...), false
		}
	}
	if unchanged {
		u = u.WithGroups(a.groups)
	}
	for _, name := range t.missing(a) {
		if !w.unplugged || !t.unreported {
			u = u.Hold(t.allDevices(name))
		}
	}
	return u
}

// order returns the UIDs of the pods that hold something at an admission, in binding order.
func (t *trial) order(a admission) []string {
	out := slices.Sorted(maps.Keys(a.held))
	bound := map[string]uint64{}
	for _, l := range t.lives {
		bound[string(l.pod.UID)] = l.bound.version
	}
	slices.SortStableFunc(out, func(x, y string) int {
		switch {
		case bound[x] < bound[y]:
			return -1
		case bound[x] > bound[y]:
			return 1
		}
		return 0
	})
	return out
}

// hadEnded reports whether a pod had ended by the time of an admission.
func (t *trial) hadEnded(uid string, a admission) bool {
	for _, l := range t.lives {
		if string(l.pod.UID) == uid {
			return l.over() && l.endMoment().at.Before(a.At)
		}
	}
	return true // it was gone before the round began
}

// stillCounted returns the last known holdings of the pods in t.ended that the managers no longer count at
// t.admissions[at]. The scheduler still counted them, because it had not received that these pods had ended.
func (t *trial) stillCounted(at int) (out [][]place.Holding) {
	for _, uid := range slices.Sorted(maps.Keys(t.ended)) {
		if _, counted := t.admissions[at].held[uid]; counted && !t.admissions[at].releases(uid) {
			continue
		}
		last := lastOf(t.admissions[:at+1], func(a admission) bool { return len(a.held[uid]) > 0 })
		if last >= 0 {
			out = append(out, t.admissions[last].held[uid])
		}
	}
	return out
}

// allDevices returns a holding of all devices of a resource. It stands for devices that the kubelet did not have yet.
func (t *trial) allDevices(resource string) place.Holding {
	r, _ := t.machine.Resource(resource)
	b := place.DeviceBlock{Resource: resource}
	for _, d := range r.Devices {
		b.IDs = append(b.IDs, d.ID)
	}
	return place.Holding{Devices: []place.DeviceBlock{b}}
}

// replay computes what the pods that were admitted before the refused one would have got, if the events that w
// selects had not happened. With w.foreign it begins at the first foreign pod, and omits foreign pods. With w.ended
// it begins where the managers first released a pod in t.ended, and keeps the holdings of these pods. It returns, by
// UID, only the holdings that differ from the real ones.
func (t *trial) replay(w without) map[string][]place.Holding {
	other := map[string][]place.Holding{}
	first := t.at
	if w.foreign {
		if i := slices.IndexFunc(t.admissions, func(a admission) bool { return t.foreign[a.UID] && a.Admitted }); i >= 0 {
			first = min(first, i)
		}
	}
	if w.ended {
		for uid := range t.ended {
			first = min(first, t.releaseIndex(uid))
		}
	}
	for i := first; i < t.at; i++ {
		a := t.admissions[i]
		l := slices.IndexFunc(t.lives, func(l life) bool { return string(l.pod.UID) == a.UID })
		if !a.Admitted || w.foreign && t.foreign[a.UID] || l < 0 {
			continue
		}
		p, err := pod.ToPlace(t.lives[l].pod)
		if err != nil {
			continue
		}
		v := place.Place(t.usage(i, w, other), p)
		if v.Fits() && !slices.EqualFunc(v.Holdings, t.admissions[i+1].held[a.UID], place.Holding.Matches) {
			other[a.UID] = v.Holdings
		}
	}
	return other
}

// releaseIndex returns the index of the first admission, up to the refusal, at which the managers had released what a
// pod had held before. That may be earlier than the pod's end at the API server, because managers release holdings
// before the kubelet writes the end. If there is no such admission, it returns the number of all admissions.
func (t *trial) releaseIndex(uid string) int {
	held := false
	for i, a := range t.admissions[:t.at+1] {
		has := len(a.held[uid]) > 0
		if held = held || has; held && (!has || a.releases(uid)) {
			return i
		}
	}
	return len(t.admissions)
}

// causeByAmounts returns the cause of a refusal by plain amounts: the managers had admitted the pod, but then the
// kubelet found too little of a resource (lifecycle/predicate.go).
func (t *trial) causeByAmounts() (blame, string) {
	short, own := t.lacks(false)
	if len(short) == 0 {
		short, own = t.lacks(true)
	}
	switch {
	case len(short) > 0 && len(own) == 0:
		return overtaken, "without " + t.names(t.foreign) + " it fits"
	case len(short) == 0 && t.unreported && len(t.missing(t.admission)) > 0:
		return unplugged, "with " + strings.Join(t.missing(t.admission), ", ") + " it fits"
	default:
		return knowable, fmt.Sprintf("the node lacks %v; without %s it lacks %v", short, t.names(t.foreign), own)
	}
}

// lacks returns the plain amounts that the node lacks for the pod beside the pods that its kubelet counts, and beside
// those that are not foreign. The kubelet lists them before its managers do (HandlePodAdditions of
// pkg/kubelet/kubelet.go). With ending, pods count too that ended between the two, as any may that had not ended when
// the refused one was bound.
func (t *trial) lacks(ending bool) (beside, own []place.Reason) {
	var all, mine []*v1.Pod
	for _, l := range t.lives {
		uid := string(l.pod.UID)
		counts := slices.Contains(t.admission.Active, uid) || ending && l.pod.Spec.NodeName == t.life.pod.Spec.NodeName &&
			l.bound.known() && l.over() && l.endMoment().version > t.life.bound.version
		if l.pod.UID == t.life.pod.UID || !counts {
			continue
		}
		p := l.pod.DeepCopy()
		p.Status = v1.PodStatus{}
		if all = append(all, p); !t.foreign[uid] {
			mine = append(mine, p)
		}
	}
	node := &v1.Node{Status: v1.NodeStatus{Allocatable: t.allocatable}}
	asks := t.life.pod.DeepCopy()
	asks.Status = v1.PodStatus{}
	return kube.Lacks(asks, node, all), kube.Lacks(asks, node, mine)
}
