// Package affinity places pods that share CPUs on the NUMA nodes of a machine. It puts them near the pods with which
// they exchange much data, or with which they demand to share a NUMA node.
//
// Pods get a NUMA node in groups. Decide joins pods by the weight of what they exchange, heaviest first, as long as
// one NUMA node has room for the group. It moves a group to the NUMA node that makes the most of its traffic local. A
// move has to pay: it must make a stated share of the group's traffic local, and several sampling periods in a row
// must want it.
//
// Invariant: the pods that Decide puts on a NUMA node never request more than it has. Pods with exclusive CPUs, pods
// that did not opt in and pods that exchange nothing are not moved. Equal input gives equal output, and Decide on its
// own result moves nothing.
//
// The package does not measure, keep time or handle containers: its callers do.
package affinity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
)

// Nowhere is the NUMA node of a pod that runs on several NUMA nodes.
const Nowhere idset.NUMA = -1

// MaxPods bounds the pods of one machine. A kubelet admits 110 by default.
const MaxPods = 1024

// Bounds of capacities and requests, and of weights, so that their sums do not overflow.
const (
	MaxAmount = 1 << 50
	MaxWeight = 1 << 40
)

// Pod is one pod of the machine.
type Pod struct {
	ID string // unique
	// Group names the group of pods with which the pod demands to share a NUMA node, or is "". Measured is set if the
	// pod may be moved because of its traffic.
	Group    string
	Measured bool
	// Exclusive is set if the pod has exclusive CPUs or memory of its own. NUMA is the NUMA node on which the pod runs
	// at present, or Nowhere.
	Exclusive bool
	// MilliCPU and Bytes are what the pod requests, or what it uses where that is more.
	MilliCPU, Bytes int64
	NUMA            idset.NUMA
}

// optedIn reports whether the pod may be moved.
func (p *Pod) optedIn() bool { return !p.Exclusive && (p.Group != "" || p.Measured) }

// Weight is what two pods exchange, in bytes per second, both directions together. A and B are IDs of pods.
type Weight struct {
	A, B  string
	Bytes int64
}

// NUMA is what a NUMA node has for pods that share CPUs, used or not.
type NUMA struct {
	ID              idset.NUMA
	MilliCPU, Bytes int64
}

// Input is what is known of a machine after a sampling period.
type Input struct {
	Pods    []Pod
	Weights []Weight // weights of pods that are not in Pods are ignored; weights of one pair are added
	NUMAs   []NUMA
}

// Rules say when a move pays.
type Rules struct {
	// MinBytes is the least that two pods exchange per second for it to count.
	MinBytes int64
	// DemandBytes is the weight of a demand: two pods of one group count as if they exchanged so many bytes per
	// second.
	DemandBytes int64
	// Gain is the least share of a group's traffic, in percent, that a move must make local.
	Gain int64
	// Periods is how many periods in a row must want a move before it is made.
	Periods int
	// Spare is the share of a NUMA node, in percent, that has to stay free when a pod comes to it.
	Spare int64
}

// Defaults are the rules that suit most machines. Pairs of pods count from 1 MB/s on. A move pays if in two periods
// in a row it would make a fifth of the group's traffic local.
func Defaults() Rules {
	return Rules{MinBytes: 1e6, DemandBytes: 1e9, Gain: 20, Periods: 2, Spare: 10}
}

// Wish is a move of a pod that is wanted, and the number of periods in a row, up to the last one, that wanted it.
type Wish struct {
	NUMA    idset.NUMA
	Periods int
}

// Wishes has the wanted moves that were not made, by the pod's ID. The zero value has none.
type Wishes map[string]Wish

// Outcome is the reason why a pod is, or is not, on a NUMA node. Programs may compare the values; their meaning never
// changes.
type Outcome string

// The outcomes.
const (
	Exclusive Outcome = "exclusive-cpus" // it has exclusive CPUs, which decide where it is
	NotOpted  Outcome = "not-opted-in"   // no one has asked to move it
	Silent    Outcome = "silent"         // it exchanges too little to count
	Together  Outcome = "together"       // nothing would become local by a move
	Moved     Outcome = "moved"          // it moves now
	Waits     Outcome = "waits"          // the move is wanted, and waits for further periods
	NoRoom    Outcome = "no-room"        // the move would pay, but the NUMA node has no room
	TooLittle Outcome = "too-little"     // a move would make too little local
	Released  Outcome = "released"       // it runs on all NUMA nodes again: its own has no room any more, or it opted out
)

// Verdict is the decision on one pod.
type Verdict struct {
	Pod     string
	Outcome Outcome
	// From is the pod's NUMA node before the decision, and NUMA is the decided one; Nowhere means all NUMA nodes.
	From, NUMA idset.NUMA
	// With are the other pods of its group, ascending; nil where it has none.
	With []string
	// Bytes is what the pod exchanges per second with other pods, counting only the pairs that Decide counts; see
	// links. Remote is the part of it that is between NUMA nodes after the decision. Demands count in neither.
	Bytes, Remote int64
	// Wanted is the NUMA node to which a move is wanted if Outcome is Waits, NoRoom or TooLittle, and otherwise
	// Nowhere. Periods is the number of periods in a row that wanted the move.
	Wanted  idset.NUMA
	Periods int
	// Lacks is what the NUMA node Wanted lacks; it is nil unless Outcome is NoRoom.
	Lacks *Lack
}

// Lack is what a NUMA node has too little of. Want is what the pods that would come need, and Have is what the NUMA
// node has free for them.
type Lack struct {
	Resource   string // "cpu" in milli-CPU, "memory" in bytes
	Want, Have int64
}

// Result is what Decide returns for a period.
type Result struct {
	Verdicts []Verdict // in ascending order of the pods' IDs
	Wishes   Wishes    // for the next period
	// Before and After are the bytes per second between NUMA nodes, before and after the moves.
	Before, After int64
}

// Decide returns where every pod is to run. wishes are the Wishes of the previous period's Result. Decide returns an
// error only if the input or the rules are out of bounds.
//
// It works in five steps on a state s: pods leave NUMA nodes where they may not stay (release); the others form
// groups; on a copy of s, groups move until no move pays (settle); the moves of that copy are counted as wishes
// (wish); those wanted for enough periods are made in s, as far as there is room (follow).
func Decide(in Input, rules Rules, wishes Wishes) (Result, error) {
	if err := in.validate(); err != nil {
		return Result{}, fmt.Errorf("affinity: %w", err)
	}
	if err := rules.validate(); err != nil {
		return Result{}, fmt.Errorf("affinity: %w", err)
	}
	s := newState(in, rules)
	before := s.remote()
	s.release()
	groups := s.groups()
	wanted := s.clone()
	steps := wanted.settle(groups)
	out := Result{Wishes: s.wish(wanted, wishes), Before: before}
	s.follow(groups, wanted, steps, out.Wishes)
	out.After = s.remote()
	out.Verdicts = s.verdicts(groups, out.Wishes)
	return out, nil
}

// validate returns an error if an amount is out of bounds, or if a pod or NUMA node is listed twice.
func (in *Input) validate() error {
	if len(in.Pods) > MaxPods {
		return fmt.Errorf("%d pods, want at most %d", len(in.Pods), MaxPods)
	}
	if len(in.NUMAs) == 0 {
		return fmt.Errorf("no NUMA node")
	}
	known := map[idset.NUMA]bool{Nowhere: true}
	for _, n := range in.NUMAs {
		if known[n.ID] || !idset.Valid(int(n.ID)) || !inBounds(n.MilliCPU) || !inBounds(n.Bytes) {
			return fmt.Errorf("NUMA node %d with %d milli-CPU and %d bytes is listed twice or out of bounds", n.ID,
				n.MilliCPU, n.Bytes)
		}
		known[n.ID] = true
	}
	ids := map[string]bool{"": true}
	for _, p := range in.Pods {
		if ids[p.ID] {
			return fmt.Errorf("pod %q is listed twice or has no ID", p.ID)
		}
		ids[p.ID] = true
		if !inBounds(p.MilliCPU) || !inBounds(p.Bytes) || !known[p.NUMA] {
			return fmt.Errorf("pod %q with %d milli-CPU and %d bytes on NUMA node %d is out of bounds", p.ID, p.MilliCPU,
				p.Bytes, p.NUMA)
		}
	}
	for _, w := range in.Weights {
		if w.Bytes < 0 || w.Bytes > MaxWeight {
			return fmt.Errorf("weight %d between pods %q and %q is out of bounds", w.Bytes, w.A, w.B)
		}
	}
	return nil
}

func inBounds(amount int64) bool { return amount >= 0 && amount <= MaxAmount }

func (r Rules) validate() error {
	if r.MinBytes < 1 || r.DemandBytes < 1 || max(r.MinBytes, r.DemandBytes) > MaxWeight || r.Gain < 1 ||
		r.Gain > 100 || r.Periods < 1 || r.Spare < 0 || r.Spare > 99 {
		return fmt.Errorf("rules %+v: a number is out of bounds", r)
	}
	return nil
}

// link is what two pods exchange in bytes per second, and the weight of their demand. a and b are the pods' indexes,
// and a < b.
type link struct {
	a, b          int
	bytes, demand int64
}

func (l link) weight() int64 { return l.bytes + l.demand }

// links returns the links that count, heaviest first. Measured traffic counts between two pods if at least one of
// them may be moved, and if each one is measured or has exclusive CPUs on one NUMA node.
func links(in Input, rules Rules) (out []link) {
	index := map[string]int{}
	for i, p := range in.Pods {
		index[p.ID] = i
	}
	counts := func(i int) bool {
		p := &in.Pods[i]
		return p.Exclusive && p.NUMA != Nowhere || p.Measured && !p.Exclusive
	}
	bytes := map[[2]int]int64{}
	for _, w := range in.Weights {
		a, okA := index[w.A]
		b, okB := index[w.B]
		if !okA || !okB || a == b || !counts(a) || !counts(b) || !in.Pods[a].optedIn() && !in.Pods[b].optedIn() {
			continue
		}
		pair := [2]int{min(a, b), max(a, b)}
		bytes[pair] = min(bytes[pair]+w.Bytes, MaxWeight)
	}
	for pair, n := range bytes {
		if n >= rules.MinBytes {
			out = append(out, link{a: pair[0], b: pair[1], bytes: n})
		}
	}
	slices.SortFunc(out, func(x, y link) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
	out = append(out, demands(in, rules)...)
	slices.SortStableFunc(out, func(x, y link) int { return cmp.Compare(y.weight(), x.weight()) })
	return out
}

// demands returns the links between pods of one demanded group. Pods with exclusive CPUs on several NUMA nodes have
// none. Two pods with exclusive CPUs have no link, because neither of them can be moved.
func demands(in Input, rules Rules) (out []link) {
	members := map[string][]int{}
	for b, p := range in.Pods {
		if p.Group == "" || p.Exclusive && p.NUMA == Nowhere {
			continue
		}
		for _, a := range members[p.Group] {
			if !p.Exclusive || !in.Pods[a].Exclusive {
				out = append(out, link{a: a, b: b, demand: rules.DemandBytes})
			}
		}
		members[p.Group] = append(members[p.Group], b)
	}
	return out
}
