package sched

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
)

// This file names a sample of the nodes where a pod fits, if they are many. kube-scheduler would filter and score
// hundreds of them, whichever come first. The sample is those of least cached cost, and as many others in turn, so that
// kube-scheduler asks fewer and the best are among them.
//
// Invariant: no attempt fails because of it. Some of the sample have passed all filters of the profile before, and
// nothing that a filter reads changes during an attempt.

const (
	// sampleSize is how many nodes are named: of so many, kube-scheduler scores 100, as many as in a small cluster.
	sampleSize = 200
	// proven is how many of them pass all filters before; if a single one does not, others may refuse many,
	// and all nodes are asked.
	proven = 8
	// proving is what that takes, in the units of naming.
	proving = 400
)

// sample returns some of the nodes that can take the pod, or nil where all shall be asked.
func (p *Plugin) sample(ctx context.Context, cs fwk.CycleState, s *state, pod *v1.Pod, fit, all int) sets.Set[string] {
	if fit < sampleSize || p.toName(sampleSize)+proving >= min(p.toName(fit), p.toLook(fit, all)) {
		return nil
	}
	if !p.mayName(s, pod) {
		return nil
	}
	// Where many nodes have pods that keep others away, it takes too long to begin the attempt twice.
	if keep, err := p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList(); err != nil ||
		len(keep) > sampleSize {
		return nil
	}
	slots := p.rest(s, p.cheapest(s, sampleSize/2))
	names := make(sets.Set[string], len(slots))
	for _, slot := range slots {
		n, _ := s.snap.At(slot)
		names.Insert(n.Name)
	}
	if !p.prove(ctx, cs, pod, names) {
		return nil
	}
	return names
}

// mayName reports whether nodes that fit may be left out.
func (p *Plugin) mayName(s *state, pod *v1.Pod) bool {
	return s.backoff == nil && !p.choosy() && p.percent() == 0 && !particular(pod) && p.handle != nil &&
		len(p.handle.Extenders()) == 0
}

// particular reports whether a pod asks for properties of nodes besides resources: then it matters which nodes are
// asked.
func particular(pod *v1.Pod) bool {
	spec := &pod.Spec
	return spec.Affinity != nil || len(spec.NodeSelector) > 0 || len(spec.TopologySpreadConstraints) > 0 ||
		len(spec.ResourceClaims) > 0 || spec.NodeName != "" || pod.Status.NominatedNodeName != "" ||
		slices.ContainsFunc(
			spec.Volumes,
			func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil },
		)
}

// cheapest returns the slots of the nodes of least cached cost, unordered.
func (p *Plugin) cheapest(s *state, most int) []int {
	type known struct {
		cost int64
		slot int
	}
	least := make([]known, 0, most) // a heap, the dearest first
	sift := func(i int) {
		for {
			kid := 2*i + 1
			if kid+1 < len(least) && least[kid+1].cost > least[kid].cost {
				kid++
			}
			if kid >= len(least) || least[kid].cost <= least[i].cost {
				return
			}
			least[i], least[kid] = least[kid], least[i]
			i = kid
		}
	}
	for slot := range s.fits.Slots() {
		cost, ok := s.answers.known(slot, s.snap)
		switch {
		case !ok:
		case len(least) < most:
			if least = append(least, known{cost, slot}); len(least) == most {
				for i := most / 2; i >= 0; i-- {
					sift(i)
				}
			}
		case cost < least[0].cost:
			least[0] = known{cost, slot}
			sift(0)
		}
	}
	out := make([]int, 0, sampleSize)
	for _, k := range least {
		out = append(out, k.slot)
	}
	return out
}

// rest adds slots of nodes that fit, up to sampleSize, from where the last sample ended.
func (p *Plugin) rest(s *state, slots []int) []int {
	from := int(p.next.Load())
	in := map[int]bool{}
	for _, slot := range slots {
		in[slot] = true
	}
	for range 2 {
		for slot := range s.fits.From(from) {
			if len(slots) == sampleSize {
				p.next.Store(int64(slot))
				return slots
			}
			if !in[slot] {
				in[slot] = true
				slots = append(slots, slot)
			}
		}
		from = 0
	}
	return slots
}

// prove reports whether some of the nodes pass all filters. It runs PreFilter of all plugins on a copy of the state,
// since none can filter before. If another plugin names nodes, too, it reports false.
func (p *Plugin) prove(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, names sets.Set[string]) bool {
	cs = cs.Clone()
	s, ok := read(cs)
	if !ok {
		return false
	}
	s.unnarrowed, s.attempt = true, attempt{}
	result, status, _ := p.preemption.runner.RunPreFilterPlugins(ctx, cs, pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return false
	}
	nodes, passed := p.handle.SnapshotSharedLister().NodeInfos(), 0
	for name := range names {
		info, err := nodes.Get(name)
		if err != nil || !p.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, info).IsSuccess() {
			return false
		}
		if passed++; passed == proven {
			return true
		}
	}
	return false
}

// known returns the cost of a node in a slot of a snapshot, if it is known.
func (r *kindAnswers) known(slot int, snap *ledger.Snapshot) (cost int64, ok bool) {
	rows := *r.rows.Load()
	at := rows[slot/rowSize].Load()
	if at == nil {
		return 0, false
	}
	cost, ok = at[slot%rowSize].read(snap.Since(slot))
	return cost, ok && cost >= 0
}
