package nrt

import (
	"iter"
	"slices"

	"github.com/k8stopologyawareschedwg/podfingerprint"
)

// Pod is a pod that may be part of a fingerprint.
type Pod struct {
	Namespace, Name string
	// Exclusive is set if a container of the pod, other than an ordinary init container, holds CPUs, memory or devices
	// that zones count (scheduler-plugins, resourcerequests.AreExclusiveForPod). With the method
	// "with-exclusive-resources", fingerprints contain only such pods.
	Exclusive bool
	// Ended is set if the pod ended recently, so that it is probably no longer counted. A pod that has not ended is
	// assumed, and is probably counted already.
	Ended bool
}

// maxTries bounds the sets of pods for which Counted computes fingerprints.
const maxTries = 1 << 10

// Counted returns which pods the amounts of a reading contain, according to its fingerprint: all of sure, and the
// uncertain pods for which counted is true. Assumed pods are in binding order, ended pods in the order of their ends;
// the two may be mixed.
//
// Counted tries the likeliest sets of uncertain pods first: all assumed pods and no ended ones; then the first few
// assumed pods and the last few ended ones; then the sets that differ least from the likeliest. With ten uncertain pods
// or fewer these are all sets. For pods that the method ignores, counted is the likelier value.
//
// ok is false if no tried set has the fingerprint, if the reading has none, or if the answer is ambiguous. Fingerprints
// identify pods by namespace and name only. If a pod ended, another pod of its name exists, and one of them is counted,
// the fingerprint does not show which.
func (r *Reading) Counted(sure, uncertain []Pod) (counted []bool, ok bool) {
	counted, either, ok := r.Match(sure, uncertain)
	if !ok || len(either) > 0 {
		return nil, false
	}
	return counted, true
}

// Match is Counted for callers that can tell pods of one name apart by other means. either has groups of indexes in
// uncertain: the pods of a group have one namespace and name, and the fingerprint contains exactly one of them.
// counted is true for one arbitrary pod of each group.
func (r *Reading) Match(sure, uncertain []Pod) (counted []bool, either [][]int, ok bool) {
	if r.Fingerprint == "" {
		return nil, nil, false
	}
	noticed := func(p Pod) bool { return p.Exclusive || r.Method != podfingerprint.MethodWithExclusiveResources }
	s := search{want: r.Fingerprint}
	for _, p := range sure {
		if noticed(p) {
			s.sure = append(s.sure, p)
		}
	}
	counted = make([]bool, len(uncertain))
	var at []int // indexes of s.uncertain in uncertain: assumed pods, then ended ones
	for _, ended := range []bool{false, true} {
		for i, p := range uncertain {
			if p.Ended != ended {
				continue
			}
			counted[i] = !ended
			if noticed(p) {
				at, s.uncertain = append(at, i), append(s.uncertain, p)
				if !ended {
					s.assumed++
				}
			}
		}
	}
	set, ok := s.run()
	if !ok {
		return nil, nil, false
	}
	for _, group := range s.ambiguous(set) {
		contained := 0
		for j, k := range group {
			if set[k] {
				contained++
			}
			group[j] = at[k]
		}
		if contained != 1 {
			return nil, nil, false
		}
		either = append(either, group)
	}
	for k, i := range at {
		counted[i] = set[k]
	}
	return counted, either, true
}

// search finds a set of pods that has a given fingerprint: all sure pods, and some of the uncertain ones. A set is a
// []bool by the index of uncertain.
type search struct {
	want            string
	sure, uncertain []Pod
	assumed         int // how many of the uncertain pods are assumed; the ended ones follow them
}

// run returns the first set with the fingerprint. ok is false if none of the first maxTries sets has it.
func (s *search) run() (set []bool, ok bool) {
	fp := podfingerprint.NewFingerprint(len(s.sure) + len(s.uncertain))
	tries := 0
	for set := range s.sets() {
		if tries++; tries > maxTries {
			break
		}
		fp.Reset(len(s.sure) + len(s.uncertain))
		for _, p := range s.sure {
			_ = fp.Add(p.Namespace, p.Name) // never returns an error
		}
		for k, in := range set {
			if in {
				_ = fp.Add(s.uncertain[k].Namespace, s.uncertain[k].Name)
			}
		}
		if fp.Sign() == s.want {
			return set, true
		}
	}
	return nil, false
}

// sets yields sets of uncertain pods, likeliest first: at most maxTries/2 sets of orderly, and then sets of all.
// Each slice is valid until the next one. If orderly has fewer than that, no set is yielded twice.
func (s *search) sets() iter.Seq[[]bool] {
	return func(yield func([]bool) bool) {
		tries := 0
		for set := range s.orderly() {
			if tries == maxTries/2 {
				break
			}
			tries++
			if !yield(set) {
				return
			}
		}
		for set := range s.all() {
			if tries < maxTries/2 && s.isOrderly(set) {
				continue // orderly has yielded it
			}
			if !yield(set) {
				return
			}
		}
	}
}

// orderly yields the sets that follow the order of events: assumed pods come into a set from the first to the last,
// and ended pods leave it from the first to the last. The sets are ordered by the number of pods in which they differ
// from the likeliest set.
func (s *search) orderly() iter.Seq[[]bool] {
	return func(yield func([]bool) bool) {
		set := make([]bool, len(s.uncertain))
		ended := len(set) - s.assumed
		for differ := 0; differ <= len(set); differ++ {
			// missing assumed pods are not in the set yet; differ-missing ended pods are still in it.
			for missing := max(0, differ-ended); missing <= min(differ, s.assumed); missing++ {
				for k := range set {
					set[k] = k < s.assumed-missing || k >= len(set)-(differ-missing)
				}
				if !yield(set) {
					return
				}
			}
		}
	}
}

// all yields all sets, ordered by the number of pods in which they differ from the likeliest set.
func (s *search) all() iter.Seq[[]bool] {
	return func(yield func([]bool) bool) {
		set := make([]bool, len(s.uncertain))
		for differ := 0; differ <= len(set); differ++ {
			for flip := range choices(len(set), differ) {
				for k := range set {
					set[k] = k < s.assumed
				}
				for _, k := range flip {
					set[k] = !set[k]
				}
				if !yield(set) {
					return
				}
			}
		}
	}
}

// isOrderly reports whether orderly yields a set: it has the first few assumed pods and the last few ended ones, and
// no others.
func (s *search) isOrderly(set []bool) bool {
	for k := 1; k < len(set); k++ {
		if k < s.assumed && set[k] && !set[k-1] || k > s.assumed && set[k-1] && !set[k] {
			return false
		}
	}
	return true
}

// choices yields every choice of k among the indexes 0..n-1, in lexical order. Each slice is valid until the next
// one.
func choices(n, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		pick := make([]int, k)
		for i := range pick {
			pick[i] = i
		}
		for yield(pick) {
			i := k - 1
			for i >= 0 && pick[i] == n-k+i {
				i--
			}
			if i < 0 {
				return
			}
			pick[i]++
			for j := i + 1; j < k; j++ {
				pick[j] = pick[j-1] + 1
			}
		}
	}
}

// ambiguous groups the pods by name, and returns the groups that are only partly in the set.
func (s *search) ambiguous(set []bool) (out [][]int) {
	type key struct{ namespace, name string }
	group := map[key][]int{}
	var names []key
	for k := range set {
		id := key{s.uncertain[k].Namespace, s.uncertain[k].Name}
		if group[id] == nil {
			names = append(names, id)
		}
		group[id] = append(group[id], k)
	}
	for _, id := range names {
		ks := group[id]
		if slices.ContainsFunc(ks, func(k int) bool { return set[k] != set[ks[0]] }) {
			out = append(out, ks)
		}
	}
	return out
}
