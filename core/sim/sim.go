// Package sim replays arrivals and departures of pods on a cluster of thousands of machines, under different ways of
// choosing nodes, and reports the results.
//
// Time is a number of seconds that jumps from event to event, and randomness is a sequence that a seed determines. A
// node does with a pod what [place.Place] returns, for every contender; contenders differ in their information about
// the nodes and in their preferences. Invariant: a machine never holds anything twice. Every pod that arrived is on a
// node, waits, or is about to return after a refusal. The same trace, contender and seed give the same numbers. The
// package rejects traces beyond its bounds, and reads no files or clocks.
package sim

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on a trace.
const (
	MaxMachines = 20_000
	MaxFleets   = 64
	MaxShapes   = 256
	MaxPods     = 1_000_000
	MaxSeconds  = 1_000_000_000 // bounds arrival and duration of a pod
	MaxMoves    = 100
	MaxRefused  = 500_000 // refusals that end a run: a scheduler may send a pod to the same node again and again
)

// Trace is a set of machines and the pods that arrive there. A run does not change it.
type Trace struct {
	Name   string
	Source string // where the numbers come from, for people
	Fleets []Fleet
	Shapes []Shape
	Pods   []Arrival // ascending At
}

// Fleet is a number of equal machines.
type Fleet struct {
	Name    string
	Count   int // 1..MaxMachines, all fleets together
	Machine *topo.Machine
	Rules   place.Rules
}

// Shape is a kind of pod.
type Shape struct {
	Name string
	Pod  place.Pod
}

// Arrival is one pod.
type Arrival struct {
	At    int64 // seconds since the trace began, 0..MaxSeconds
	For   int64 // duration in seconds once it is placed, 1..MaxSeconds
	Shape int   // index of Trace.Shapes
}

// Machines returns the number of machines in the trace.
func (t *Trace) Machines() (count int) {
	for _, f := range t.Fleets {
		count += f.Count
	}
	return count
}

// Check returns what is wrong with a trace, or nil.
func (t *Trace) Check() error {
	if len(t.Fleets) == 0 || len(t.Shapes) == 0 || len(t.Pods) == 0 {
		return fmt.Errorf("trace %s: wants machines, shapes and pods; has %d, %d and %d",
			t.Name, t.Machines(), len(t.Shapes), len(t.Pods))
	}
	if len(t.Fleets) > MaxFleets || len(t.Shapes) > MaxShapes || len(t.Pods) > MaxPods {
		return fmt.Errorf("trace %s: %d kinds of machines, %d shapes, %d pods; the most are %d, %d, %d",
			t.Name, len(t.Fleets), len(t.Shapes), len(t.Pods), MaxFleets, MaxShapes, MaxPods)
	}
	total := 0
	for _, f := range t.Fleets {
		if f.Machine == nil || f.Count < 1 || f.Count > MaxMachines-total {
			return fmt.Errorf("trace %s: machines %s: %d of them; the most are %d of all kinds", t.Name, f.Name,
				f.Count, MaxMachines)
		}
		total += f.Count
	}
	last := int64(0)
	for i, p := range t.Pods {
		if p.At < last || p.At > MaxSeconds || p.For < 1 || p.For > MaxSeconds || p.Shape < 0 || p.Shape >= len(t.Shapes) {
			return fmt.Errorf("trace %s: pod %d arrives at %d s for %d s as shape %d: out of order or bounds", t.Name, i, p.At,
				p.For, p.Shape)
		}
		last = p.At
	}
	return nil
}

// Options are the settings of a run.
type Options struct {
	Seed uint64
	// Stay: no pod departs, and pods arrive only until they have requested a quarter more of some resource than all
	// machines have.
	Stay bool
	// Usual has the pods that arrived before the trace began, by shape, for contenders with a memory: relative
	// numbers, 0..MaxPods. These pods take no room.
	Usual []int64
	// Moves bounds the pods that the contender TenonMoves moves every five minutes, 0..MaxMoves.
	Moves int
	// Placed, if not nil, is called with the shape of each pod that a node admits.
	Placed func(shape int)
	// Progress, if not nil, is called from time to time with the number of pods that have arrived and the number of
	// all pods. An error that it returns ends the run.
	Progress func(arrived, of int) error
}

// Tally is the result of a run. Seconds and amounts are sums.
type Tally struct {
	Pods   int // arrived
	First  int // placed before the first pod that was not placed at once
	Placed int // placed at any time
	AtOnce int // placed at their arrival
	// Refused is how often a kubelet refused a pod that a scheduler had sent to it. Stopped is true if the run ended
	// with the refusal number MaxRefused, before its pods did; the other numbers are then those of this moment.
	Refused int
	Stopped bool
	// Moved is how often a pod was moved so that another got room, and Seconds is how long the run lasted.
	Moved   int
	Seconds int64

	Wait    int64 // seconds from arrival to placement, or to the end
	Longest int64 // the longest such time of one pod

	OnNUMAs  int   // placed pods that hold something on NUMA nodes
	NUMAs    int64 // sum of the numbers of NUMA nodes of these pods
	Distance int64 // sum of the mean distances between the NUMA nodes of each of these pods, in hundredths

	// Amounts of the trace's scarce resource, at the end.
	Capacity int64 // total that pods can have
	Given    int64 // requested by placed pods
	Stranded int64 // free, but useless for all shapes of the trace
	Wanted   int64 // free, although waiting pods request as much
}

// Run replays a trace under one contender.
func Run(t *Trace, c Contender, o Options) (Tally, error) {
	if err := t.Check(); err != nil {
		return Tally{}, err
	}
	if len(o.Usual) > len(t.Shapes) || slices.ContainsFunc(o.Usual, func(n int64) bool { return n < 0 || n > MaxPods }) {
		return Tally{}, fmt.Errorf("run trace %s: what is usual, %v, is not of its %d shapes, or out of bounds", t.Name,
			o.Usual, len(t.Shapes))
	}
	if o.Moves < 0 || o.Moves > MaxMoves {
		return Tally{}, fmt.Errorf("run trace %s: %d moves at a time are outside 0..%d", t.Name, o.Moves, MaxMoves)
	}
	r := newReplay(t, c, o)
	if err := r.run(); err != nil {
		return Tally{}, fmt.Errorf("run trace %s under %s: %w", t.Name, c.Name, err)
	}
	return r.finish(), nil
}

// chance is a sequence of pseudo-random numbers (SplitMix64, Steele et al., OOPSLA 2014).
type chance struct{ state uint64 }

// next returns the next number of the sequence.
func (c *chance) next() uint64 {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in 0..n-1. n is so far below 2^64 that the remainder has no noticeable bias.
func (c *chance) below(n int64) int64 { return int64(c.next() % uint64(n)) }
