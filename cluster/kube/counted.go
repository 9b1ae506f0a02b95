package kube

import (
	"slices"

	"github.com/k8stopologyawareschedwg/podfingerprint"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/place"
)

const (
	// maxUncertain bounds the pods of a node that its amounts may or may not contain. Up to 2^maxUncertain
	// fingerprints are computed while the feed is locked. For further pods the likelier answer is assumed.
	maxUncertain = 8
	// maxMisses is the number of consecutive fingerprints without a match after which only the likeliest set of pods
	// is tried: some exporters always count pods that have ended, or leave out others.
	maxMisses = 3
)

// contained returns, by UID, whether the amounts of a node contain a pod. It reads this from the object's own list of
// pods or, without one, computes it from the object's fingerprint. counts is nil if neither shows it.
//
// A fingerprint is a hash of the names of pods, so contained searches a set of pods that has this hash. Pods that
// were in the last matching fingerprint and have not ended are in every set that it tries. The pods that were bound
// since then, and the pods that ended since then, are uncertain: each may be in the set or not.
//
// Two pods of one name have the same part in a hash. If the fingerprint contains exactly one of them, they form a
// group, and either has the UIDs of each group.
func (f *Feed) contained(node string, c *coarse, r *nrt.Reading) (counts map[string]bool, either [][]string) {
	if r.Pods != nil || r.Fingerprint == "" {
		return r.Pods, nil
	}
	pods := f.bound.on(node)
	out := make(map[string]bool, len(pods)+len(c.ended))
	var sure []nrt.Pod
	var fresh []*boundPod
	for _, p := range pods {
		switch {
		case !noticed(p.spec, r):
			out[p.id.UID] = true // fingerprints omit it; it holds nothing that the amounts count
		case p.counted:
			out[p.id.UID], sure = true, append(sure, named(p, false))
		default:
			fresh = append(fresh, p)
		}
	}
	ended := slices.DeleteFunc(slices.Clone(c.ended), func(p *boundPod) bool { return !noticed(p.spec, r) })
	limit := maxUncertain
	if c.misses >= maxMisses {
		limit = 0
	}
	// At most limit uncertain pods are tried. For the others the likelier answer is assumed: new pods that were bound
	// first are contained, and pods that ended first are not. Of the ended pods, the last ones are tried: half of
	// limit, or more if there are few new pods. The rest of limit is for the new pods.
	endedTried := min(len(ended), max(limit/2, limit-len(fresh)))
	assumed := fresh[:max(0, len(fresh)-(limit-endedTried))]
	for _, p := range assumed {
		sure = append(sure, named(p, false))
	}
	fresh, ended = fresh[len(assumed):], ended[len(ended)-endedTried:]
	in, groups, ok := r.Match(sure, slices.Concat(allNamed(fresh, false), allNamed(ended, true)))
	if !ok {
		c.misses = min(c.misses+1, maxMisses)
		return nil, nil
	}
	c.misses = 0
	for _, p := range assumed {
		out[p.id.UID], p.counted = true, true
	}
	for i, p := range fresh {
		out[p.id.UID], p.counted = in[i], in[i]
	}
	for i, p := range ended {
		out[p.id.UID] = in[len(fresh)+i]
	}
	open := map[string]bool{}
	for _, group := range groups {
		either = append(either, uids(slices.Concat(fresh, ended), group, open))
	}
	for _, p := range fresh {
		p.counted = p.counted && !open[p.id.UID]
	}
	c.ended = slices.DeleteFunc(c.ended, func(p *boundPod) bool {
		return !open[p.id.UID] && p.leftAmounts(out[p.id.UID])
	})
	return out, either
}

func allNamed(pods []*boundPod, ended bool) (out []nrt.Pod) {
	for _, p := range pods {
		out = append(out, named(p, ended))
	}
	return out
}

// uids returns the UIDs of the pods at some indexes, and adds these UIDs to a set.
func uids(pods []*boundPod, at []int, set map[string]bool) (out []string) {
	for _, i := range at {
		out = append(out, pods[i].id.UID)
		set[pods[i].id.UID] = true
	}
	return out
}

// chosen records, for each group of pods of one name, which pod the ledger found in the amounts: the pod that is
// bound and no longer assumed. The ended pods of that group are then not in the amounts. If there is no such pod, an
// ended pod is kept until maxMisses more fingerprints have arrived.
func (f *Feed) chosen(c *coarse, either [][]string) {
	for _, group := range either {
		at := slices.IndexFunc(group, func(uid string) bool {
			p := f.bound.pods[uid]
			return p != nil && !f.book.Booked(p.node, uid)
		})
		if at >= 0 {
			f.bound.pods[group[at]].counted = true
		}
		c.ended = slices.DeleteFunc(c.ended, func(p *boundPod) bool {
			return slices.Contains(group, p.id.UID) && p.leftAmounts(false) && (at >= 0 || p.absences > maxMisses)
		})
	}
}

// leftAmounts records whether the latest fingerprint contained a pod that has ended, and reports whether no later one
// will contain it. It returns true once a fingerprint with the pod was followed by one without it. For a pod that no
// fingerprint contained, it returns true after maxMisses more readings, because these may be older than the pod's
// end.
func (b *boundPod) leftAmounts(counted bool) bool {
	if counted {
		b.counted, b.absences = true, 0
		return false
	}
	b.absences = min(b.absences+1, maxMisses+1)
	return b.counted || b.absences > maxMisses
}

func named(p *boundPod, ended bool) nrt.Pod {
	return nrt.Pod{Namespace: p.id.Namespace, Name: p.id.Name, Exclusive: true, Ended: ended}
}

// noticed reports whether the fingerprints of this reading's method contain the pod while it runs. They contain
// either all pods, or only pods with a container, other than an ordinary init container, that holds something
// exclusively.
func noticed(spec *place.Pod, r *nrt.Reading) bool {
	if r.Method != podfingerprint.MethodWithExclusiveResources {
		return true
	}
	if spec == nil {
		return false
	}
	for _, c := range spec.Containers {
		if c.Kind == place.Init {
			continue
		}
		if spec.QoS == place.Guaranteed && (r.Rules.CPU.Static && c.MilliCPU > 0 && c.MilliCPU%1000 == 0 ||
			r.Rules.Memory.Static && len(c.Memory) > 0) {
			return true
		}
		if slices.ContainsFunc(c.Devices, func(d place.Count) bool { return d.N > 0 && listsResource(r, d.Resource) }) {
			return true
		}
	}
	return false
}

// listsResource reports whether the zones of a reading list a resource, even if the reading leaves it out.
func listsResource(r *nrt.Reading, resource string) bool {
	_, ok := r.Machine.Resource(resource)
	return ok || r.Omitted[resource] != ""
}

// addEnded records that a pod of the node has ended. It keeps the last maxUncertain ended pods.
func (c *coarse) addEnded(p *boundPod) {
	c.ended = append(c.ended, p)
	if len(c.ended) > maxUncertain {
		c.ended = slices.Clone(c.ended[1:])
	}
}
