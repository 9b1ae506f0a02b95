package sim

import (
	"cmp"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// This file solves small cases exactly. A case is a few machines, a few shapes, and a random sequence of pods. All
// pods of the sequence can be placed if they are known in advance and may be placed in any order. The sequence ends
// before the first pod that would make this impossible, or at casePods pods. To find the sets of pods that fit on a
// machine together, packings places pods one after the other, in every order. Contenders receive the usual pods in
// advance, but not the sequence.

// Bounds that keep a case small.
const (
	caseShapes   = 4
	caseMachines = 4
	casePods     = 64
	caseStates   = 4_000 // usages of one machine
)

// counts are numbers of pods by shape of a case.
type counts [caseShapes]uint8

// within reports whether no number exceeds the one in o.
func (c counts) within(o counts) bool {
	for i, n := range c {
		if n > o[i] {
			return false
		}
	}
	return true
}

// minus returns c minus o for each shape, at least 0.
func (c counts) minus(o counts) (out counts) {
	for i, n := range c {
		out[i] = n - min(n, o[i])
	}
	return out
}

// packings returns the sets of pods that fit together on an empty machine and are not contained in another such set.
// ok is false if more than caseStates states of the machine can be reached.
func packings(f Fleet, shapes []Shape) (out []counts, ok bool) {
	type reached struct {
		usage *place.Usage
		asked amounts
		counts
	}
	t := &Trace{Fleets: []Fleet{f}, Shapes: shapes}
	rs := resourcesOf(t)
	empty := place.NewUsage(f.Machine, f.Rules)
	all := rs.allocatable(empty)
	seen, found := map[string]bool{}, map[counts]bool{}
	todo := []reached{{usage: empty, asked: make(amounts, len(rs))}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		grown := false
		for i := range shapes {
			want := rs.request(&shapes[i].Pod)
			if at.counts[i] == casePods || !hasRoom(all, at.asked, want) {
				continue
			}
			v := place.Place(at.usage, &shapes[i].Pod)
			if !v.Fits() {
				continue
			}
			grown = true
			next := reached{at.usage.Hold(v.Holdings...), slices.Clone(at.asked), at.counts}
			next.counts[i]++
			for r, n := range want {
				next.asked[r] += n
			}
			if key := string(next.counts[:]) + keyOf(0, next.usage, next.asked); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
		if !grown {
			found[at.counts] = true
		}
		if len(seen) > caseStates {
			return nil, false
		}
	}
	return largest(found), true
}

// largest returns the sets that are not contained in another set (the maximal ones), in a fixed order.
func largest(found map[counts]bool) (out []counts) {
	for c := range found {
		contained := false
		for o := range found {
			contained = contained || c != o && c.within(o)
		}
		if !contained {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b counts) int { return slices.Compare(a[:], b[:]) })
	return out
}

// packs reports whether all pods can be placed on the machines together; machines has the packings of each machine.
// It goes through the machines, and follows the sets of pods that remain for the next one. A set that contains
// another of these sets is dropped.
func packs(machines [][]counts, pods counts) bool {
	remaining := map[counts]bool{pods: true}
	for _, m := range machines {
		next := map[counts]bool{}
		for r := range remaining {
			for _, c := range m {
				next[r.minus(c)] = true
			}
		}
		if next[counts{}] {
			return true
		}
		remaining = smallest(next)
	}
	return false
}

// smallest returns the sets that contain no other set (the minimal ones).
func smallest(in map[counts]bool) map[counts]bool {
	out := map[counts]bool{}
	for c := range in {
		contains := false
		for o := range in {
			contains = contains || c != o && o.within(c)
		}
		if !contains {
			out[c] = true
		}
	}
	return out
}

// solver makes cases of a script.
type solver struct {
	script *Script
	known  map[string][]counts // packings by fleet and shapes; nil if there are too many states
}

// draw makes a case as a trace: the machines, and the sequence of pods that can all be placed. usual is the weight of
// each shape in the mix. ok is false if the case is too large, or if not even its first pod can be placed.
func (s *solver) draw(seed uint64) (t *Trace, usual []int64, ok bool) {
	rnd := &chance{seed}
	mix := s.chooseShapes(rnd)
	t = &Trace{Name: s.script.Name}
	for _, in := range mix {
		t.Shapes = append(t.Shapes, s.script.shapes[in.shape])
		usual = append(usual, in.weight)
	}
	var machines [][]counts
	for range 2 + rnd.below(caseMachines-1) {
		i := rnd.below(int64(len(s.script.fleets)))
		f := s.script.fleets[i]
		f.Count = 1
		found, ok := s.packings(int(i), f, t.Shapes)
		if !ok {
			return nil, nil, false
		}
		t.Fleets, machines = append(t.Fleets, f), append(machines, found)
	}
	var pods counts
	for len(t.Pods) < casePods {
		i := pickIngredient(rnd, mix)
		pods[i]++
		if !packs(machines, pods) {
			break
		}
		t.Pods = append(t.Pods, Arrival{At: int64(len(t.Pods)) * 10, For: 1, Shape: i})
	}
	return t, usual, len(t.Pods) > 0
}

// chooseShapes takes at most caseShapes of the shapes that machines align, with equal probability, in ascending order
// of their indices.
func (s *solver) chooseShapes(rnd *chance) (out []ingredient) {
	for _, in := range s.script.ingredients() {
		if !s.script.shapes[in.shape].Pod.Plain() {
			out = append(out, in)
		}
	}
	for len(out) > caseShapes {
		i := int(rnd.below(int64(len(out))))
		out = slices.Delete(out, i, i+1)
	}
	slices.SortFunc(out, func(a, b ingredient) int { return cmp.Compare(a.shape, b.shape) })
	return out
}

// packings is func packings, computed once for each fleet and list of shapes.
func (s *solver) packings(fleet int, f Fleet, shapes []Shape) ([]counts, bool) {
	key := string(rune(fleet))
	for _, x := range shapes {
		key += " " + x.Name
	}
	found, ok := s.known[key]
	if !ok {
		found, _ = packings(f, shapes)
		s.known[key] = found
	}
	return found, found != nil
}

// pickIngredient chooses an ingredient at random by weight, and returns its index.
func pickIngredient(rnd *chance, mix []ingredient) int {
	total := int64(0)
	for _, in := range mix {
		total += in.weight
	}
	n, i := rnd.below(total), 0
	for ; n >= mix[i].weight; i++ {
		n -= mix[i].weight
	}
	return i
}

// ingredients returns the mix of a script. If the script lists pods, it returns the shapes of these pods, weighted by
// the number of pods of each.
func (s *Script) ingredients() []ingredient {
	if len(s.mix) > 0 {
		return s.mix
	}
	out := make([]ingredient, len(s.shapes))
	for i := range out {
		out[i] = ingredient{shape: i}
	}
	for _, p := range s.pods {
		out[p.Shape].weight++
	}
	return slices.DeleteFunc(out, func(in ingredient) bool { return in.weight == 0 })
}

// solve runs every contender on small cases. It skips cases that are too large.
func (out *Comparison) solve(s *Script, c Settings) error {
	solver := &solver{script: s, known: map[string][]counts{}}
	for tried := 0; out.Cases < c.Cases && tried < 4*c.Cases; tried++ {
		seed := c.Seed + uint64(tried)
		t, usual, ok := solver.draw(seed)
		if !ok {
			continue
		}
		out.Cases++
		out.Optimum += len(t.Pods)
		for i, k := range out.contenders {
			tally, err := Run(t, k, Options{Seed: seed, Stay: true, Usual: usual})
			if err != nil {
				return err
			}
			out.Columns[i].Optimum += tally.Placed
		}
		if c.Progress != nil {
			if err := c.Progress(Progress{"", 1, 1, true, out.Cases, c.Cases}); err != nil {
				return err
			}
		}
	}
	return nil
}
