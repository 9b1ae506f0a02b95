package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Settings are the machines, seeds and cases of a comparison.
type Settings struct {
	Machines int // 0: as many as in the trace
	Load     int // in percent, for pods of a mix; 0: as the trace has it
	Seed     uint64
	Runs     int // number of seeds, from Seed on; 1..MaxRuns
	Cases    int // number of small cases to solve exactly, 0..MaxCases
	// Moves, if not 0, adds the contender TenonMoves; see Options.Moves. It leaves Tenon with other scores out.
	Moves int
	// Only has the names of the contenders that are compared. If it is empty, all are.
	Only []string
	// Progress, if not nil, receives from time to time how far the comparison is. Its error ends the comparison.
	Progress func(Progress) error
}

// Bounds on Settings.
const (
	MaxRuns  = 100
	MaxCases = 10_000
	MaxLoad  = 200
)

// Progress is how far a comparison is.
type Progress struct {
	Contender string // empty while small cases are solved
	Run, Runs int    // the seed, from 1
	Stay      bool   // pods never depart in this run
	Done, Of  int    // pods that have arrived, or cases
}

// Comparison has the results of all contenders, on the same machines, pods, order of arrival and seeds.
type Comparison struct {
	Trace, Source string
	Machines      int
	Pods          int // in each run with departures
	Asked         int // pods that arrived in a run without departures: the mean, for the first contender
	Seed          uint64
	Runs          int
	Moves         int    // as in Settings
	Scarce        string // the resource that decides the results; see Trace.Scarce
	Columns       []Column
	// Shapes are the shapes of the trace, Requests what a pod of each requests of the scarce resource (CPUs in
	// thousandths), and Arrived how many of each arrived in the runs without departures, as sums.
	Shapes   []Shape
	Requests []int64
	Arrived  []int
	// Cases is the number of small cases that were solved exactly, Optimum the number of pods in all of them. With full
	// knowledge in advance, every one of these pods could be placed.
	Cases, Optimum int

	contenders []Contender // of the columns
}

// Column has the results of one contender, as sums over all runs.
type Column struct {
	Contender string
	Head      string // as in Contender
	Stay      Tally  // without departures
	Churn     Tally  // with departures
	Placed    []int  // pods that were placed in the runs without departures, by shape
	Optimum   int    // pods of the small cases that were placed
}

// Compare runs all contenders on the trace of a script.
func Compare(s *Script, c Settings) (*Comparison, error) {
	if c.Runs < 1 || c.Runs > MaxRuns || c.Cases < 0 || c.Cases > MaxCases {
		return nil, fmt.Errorf("compare on trace %s: %d runs, %d cases: want 1..%d and 0..%d", s.Name, c.Runs, c.Cases,
			MaxRuns, MaxCases)
	}
	out := &Comparison{Trace: s.Name, Source: s.Source, Seed: c.Seed, Runs: c.Runs, Moves: c.Moves}
	if c.Moves > 0 && len(c.Only) == 0 {
		c.Only = []string{Tenon, TenonMoves, Match, KubeLeast, KubeMost}
	}
	if err := out.open(c.Only); err != nil {
		return nil, fmt.Errorf("compare on trace %s: %w", s.Name, err)
	}
	if c.Load < 0 || c.Load > MaxLoad {
		return nil, fmt.Errorf("compare on trace %s: a load of %d percent is outside 0..%d", s.Name, c.Load, MaxLoad)
	}
	if c.Load > 0 {
		other := *s
		other.Load = c.Load
		s = &other
	}
	for run := range c.Runs {
		t, err := s.Trace(c.Machines, c.Seed+uint64(run))
		if err != nil {
			return nil, err
		}
		out.Machines, out.Pods, out.Scarce, out.Shapes = t.Machines(), len(t.Pods), t.Scarce(), t.Shapes
		if err := out.run(t, c, run); err != nil {
			return nil, err
		}
	}
	out.Asked = out.Columns[0].Stay.Pods / c.Runs
	return out, out.solve(s, c)
}

// open makes the columns of the named contenders, in the order of Contenders, or of all if only is empty.
func (out *Comparison) open(only []string) error {
	for _, name := range only {
		if _, ok := Named(name); !ok {
			return fmt.Errorf("no contender %q", name)
		}
	}
	all := Contenders()
	for _, k := range onDemand() {
		if slices.Contains(only, k.Name) {
			like := slices.IndexFunc(all, func(other Contender) bool { return strings.HasPrefix(k.Name, other.Name) })
			all = slices.Insert(all, like+1, k)
		}
	}
	for _, k := range all {
		if len(only) == 0 || slices.Contains(only, k.Name) {
			out.contenders = append(out.contenders, k)
			out.Columns = append(out.Columns, Column{Contender: k.Name, Head: k.Head})
		}
	}
	return nil
}

// run runs every contender with and without departures.
func (out *Comparison) run(t *Trace, c Settings, run int) error {
	for i, k := range out.contenders {
		col := &out.Columns[i]
		if col.Placed == nil {
			col.Placed = make([]int, len(t.Shapes))
		}
		for _, stay := range []bool{true, false} {
			o := Options{Seed: c.Seed + uint64(run), Stay: stay, Moves: c.Moves}
			if c.Progress != nil {
				o.Progress = func(done, of int) error { return c.Progress(Progress{k.Name, run + 1, c.Runs, stay, done, of}) }
			}
			if stay {
				o.Placed = func(shape int) { col.Placed[shape]++ }
			}
			tally, err := Run(t, k, o)
			if err != nil {
				return err
			}
			if stay {
				col.Stay.add(tally)
			} else {
				col.Churn.add(tally)
			}
		}
	}
	out.countArrivals(t)
	return nil
}

// countArrivals adds the arrivals of a run without departures, which are the same for every contender.
func (out *Comparison) countArrivals(t *Trace) {
	if out.Arrived == nil {
		out.Arrived = make([]int, len(t.Shapes))
		scarce := resourcesOf(t).index(out.Scarce)
		for _, r := range newFullness(t).requests {
			out.Requests = append(out.Requests, r[scarce])
		}
	}
	for _, p := range t.Pods[:stayLimit(t)] {
		out.Arrived[p.Shape]++
	}
}

// add adds the results of another run.
func (t *Tally) add(o Tally) {
	t.Pods += o.Pods
	t.First += o.First
	t.Placed += o.Placed
	t.AtOnce += o.AtOnce
	t.Refused += o.Refused
	t.Stopped = t.Stopped || o.Stopped
	t.Moved += o.Moved
	t.Seconds += o.Seconds
	t.Wait += o.Wait
	t.Longest = max(t.Longest, o.Longest)
	t.OnNUMAs += o.OnNUMAs
	t.NUMAs += o.NUMAs
	t.Distance += o.Distance
	t.Capacity += o.Capacity
	t.Given += o.Given
	t.Stranded += o.Stranded
	t.Wanted += o.Wanted
}
