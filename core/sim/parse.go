package sim

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/place/scenario"
)

// This file reads the text form of a trace, which is easy to write by hand. The rules are:
//
//	# a comment, to the end of the line
//	source TEXT                     where the numbers come from; kept, not interpreted
//	machines NAME COUNT             so many machines; the lines that follow describe one of them:
//	numa ... / device ... / distances ... / core ... / rules ...     as in core/place/scenario
//	shape NAME [burstable|best-effort] : CONTAINER / CONTAINER ...   a kind of pod; containers as in scenarios
//	pod AT SECONDS SHAPE [COUNT]    so many pods (1 when absent) arrive at second AT and run for SECONDS
//	mix SHAPE WEIGHT SECONDS,...    instead of pod lines: the pods are random
//
// Machines come first, then shapes, then either pods, in order of AT, or a mix. The seed decides the order of pods in
// one second. In a mix, every pod has a random shape by weight, and runs for one of its SECONDS with equal
// probability. Pods arrive at the rate that keeps Script.Load percent of the scarcest resource busy, until they have
// requested turnover times its capacity.

const turnover = 3

// UsualLoad is the load of a script that sets none, in percent.
const UsualLoad = 90

// maxHead bounds the lines before the first pod or mix.
const maxHead = scenario.MaxLines

// Script is a trace before its generation: its machines can be scaled, and its pods may be random.
type Script struct {
	Name   string
	Source string
	// Load is how much of the scarcest resource the pods of a mix keep busy, in percent; 0 is UsualLoad.
	Load   int
	fleets []Fleet
	shapes []Shape
	pods   []Arrival
	mix    []ingredient
}

// ingredient is a line of a mix.
type ingredient struct {
	shape   int
	weight  int64
	seconds []int64
}

// reader is the state of reading a text.
type reader struct {
	file       string
	script     *Script
	at         int      // number of the line, from 1
	head       []string // lines before the first pod or mix
	blocks     []block
	firstShape int            // line of the first shape; 0: none yet
	names      map[string]int // indices of shapes; nil until the first pod or mix
}

// block has the lines of one kind of machine.
type block struct {
	fleet    Fleet
	from, to int  // lines, from 1, to is exclusive
	rules    bool // it has a line with rules
}

// Parse reads a trace. Errors name the file and the line.
func Parse(file string, text io.Reader) (*Script, error) {
	r := &reader{file: file, script: &Script{Name: file}}
	sc := bufio.NewScanner(text)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		r.at++
		line, _, _ := strings.Cut(sc.Text(), "#")
		w := strings.Fields(line)
		if len(w) > 0 && (w[0] == "pod" || w[0] == "mix") {
			if err := r.describe(); err != nil {
				return nil, err
			}
		}
		if err := r.line(line, w); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, r.at, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", file, err)
	}
	if err := r.describe(); err != nil {
		return nil, err
	}
	if len(r.script.pods) == 0 && len(r.script.mix) == 0 {
		return nil, fmt.Errorf("%s: no pods", file)
	}
	return r.script, nil
}

// line reads one line of the file. The argument line is its text without a comment, w has its words.
func (r *reader) line(line string, w []string) error {
	if r.names == nil {
		if r.at > maxHead {
			return fmt.Errorf("more than %d lines before the first pod", maxHead)
		}
		r.head = append(r.head, "")
	}
	if len(w) == 0 {
		return nil
	}
	switch w[0] {
	case "source":
		r.script.Source = strings.TrimSpace(r.script.Source + " " + strings.Join(w[1:], " "))
		return nil
	case "mix":
		return r.ingredient(w[1:])
	case "pod":
		return r.pod(w[1:])
	}
	if r.names != nil {
		return fmt.Errorf("%q comes after the first pod", w[0])
	}
	switch w[0] {
	case "machines":
		return r.machines(w[1:])
	case "numa", "device", "distances", "core", "rules":
		if len(r.blocks) == 0 || r.firstShape != 0 {
			return fmt.Errorf("%q belongs to no machines", w[0])
		}
		r.head[r.at-1] = line
		r.blocks[len(r.blocks)-1].rules = r.blocks[len(r.blocks)-1].rules || w[0] == "rules"
		return nil
	case "shape":
		return r.shape(line, w)
	}
	return fmt.Errorf("unknown word %q: want source, machines, numa, device, distances, core, rules, shape, pod or mix",
		w[0])
}

// machines reads the rest of a line "machines NAME COUNT".
func (r *reader) machines(w []string) error {
	if r.firstShape != 0 {
		return fmt.Errorf("machines come before shapes")
	}
	if len(w) != 2 || len(r.blocks) >= MaxFleets {
		return fmt.Errorf("want machines NAME COUNT, at most %d times", MaxFleets)
	}
	n, err := number(w[1], 1, MaxMachines)
	if err != nil {
		return fmt.Errorf("machines %s: %w", w[0], err)
	}
	if k := len(r.blocks); k > 0 {
		r.blocks[k-1].to = r.at
	}
	r.blocks = append(r.blocks, block{fleet: Fleet{Name: w[0], Count: int(n)}, from: r.at})
	return nil
}

// shape checks the order and form of a shape line, and keeps it for describe.
func (r *reader) shape(line string, w []string) error {
	if len(r.blocks) == 0 {
		return fmt.Errorf("shape comes before any machines")
	}
	head, _, ok := strings.Cut(line, " : ")
	if !ok || len(w) < 2 || w[1] == ":" {
		return fmt.Errorf("want shape NAME [burstable|best-effort] : CONTAINER / CONTAINER")
	}
	if strings.Contains(head, "=") {
		return fmt.Errorf("shape %s: %q: shapes demand nothing of the outcome", w[1], strings.TrimSpace(head))
	}
	if r.firstShape == 0 {
		r.firstShape = r.at
		r.blocks[len(r.blocks)-1].to = r.at
	}
	// A scenario has no shapes, but pods to admit, in the same form.
	r.head[r.at-1] = "admit" + strings.TrimPrefix(strings.TrimSpace(line), "shape")
	return nil
}

// describe makes the machines and shapes of the head once it is complete. Each kind of machine becomes a scenario
// with all other lines blank, so that errors name the lines of the file.
func (r *reader) describe() error {
	if r.names != nil {
		return nil
	}
	if r.firstShape == 0 {
		return fmt.Errorf("%s: want machines, then shapes, then pods", r.file)
	}
	for i, b := range r.blocks {
		if !b.rules {
			return fmt.Errorf("%s:%d: machines %s have no line with their rules", r.file, b.from, b.fleet.Name)
		}
		lines := make([]string, len(r.head))
		copy(lines[b.from-1:], r.head[b.from-1:b.to-1])
		if i == 0 {
			copy(lines[r.firstShape-1:], r.head[r.firstShape-1:])
		}
		f, err := scenario.Parse(r.file, strings.Join(lines, "\n"))
		if err != nil {
			return err
		}
		b.fleet.Machine, b.fleet.Rules = f.Machine, f.Rules
		if none := f.Rules.CPU.Reserved.Minus(f.Machine.CPUs()); !none.Empty() {
			return fmt.Errorf("%s:%d: machines %s: the reserved CPU %d is not there", r.file, b.from, b.fleet.Name, none.Min())
		}
		r.script.fleets = append(r.script.fleets, b.fleet)
		for _, s := range f.Steps {
			r.script.shapes = append(r.script.shapes, Shape{s.Name, s.Pod})
		}
	}
	if n := len(r.script.shapes); n > MaxShapes {
		return fmt.Errorf("%s: %d shapes, the most is %d", r.file, n, MaxShapes)
	}
	r.names = map[string]int{}
	for i, s := range r.script.shapes {
		r.names[s.Name] = i
	}
	return nil
}

// pod reads the rest of a line "pod AT SECONDS SHAPE [COUNT]".
func (r *reader) pod(w []string) error {
	if len(w) != 3 && len(w) != 4 || len(r.script.mix) > 0 {
		return fmt.Errorf("want pod AT SECONDS SHAPE [COUNT], and no mix beside it")
	}
	at, err := number(w[0], 0, MaxSeconds)
	if err != nil {
		return err
	}
	if k := len(r.script.pods); k > 0 && at < r.script.pods[k-1].At {
		return fmt.Errorf("pod at %d s comes after one at %d s", at, r.script.pods[k-1].At)
	}
	stay, err := number(w[1], 1, MaxSeconds)
	if err != nil {
		return err
	}
	shape, ok := r.names[w[2]]
	if !ok {
		return fmt.Errorf("no shape %q", w[2])
	}
	count := int64(1)
	if len(w) == 4 {
		if count, err = number(w[3], 1, MaxPods); err != nil {
			return err
		}
	}
	if count > int64(MaxPods-len(r.script.pods)) {
		return fmt.Errorf("more than %d pods", MaxPods)
	}
	for range count {
		r.script.pods = append(r.script.pods, Arrival{At: at, For: stay, Shape: shape})
	}
	return nil
}

// ingredient reads the rest of a line "mix SHAPE WEIGHT SECONDS,...".
func (r *reader) ingredient(w []string) error {
	if len(w) != 3 || len(r.script.pods) > 0 || len(r.script.mix) >= MaxShapes {
		return fmt.Errorf("want mix SHAPE WEIGHT SECONDS,SECONDS..., and no pods beside it")
	}
	shape, ok := r.names[w[0]]
	if !ok {
		return fmt.Errorf("no shape %q", w[0])
	}
	if slices.ContainsFunc(r.script.mix, func(i ingredient) bool { return i.shape == shape }) {
		return fmt.Errorf("shape %s is in the mix twice", w[0])
	}
	weight, err := number(w[1], 1, 1_000_000)
	if err != nil {
		return err
	}
	in := ingredient{shape: shape, weight: weight}
	for part := range strings.SplitSeq(w[2], ",") {
		n, err := number(part, 1, MaxSeconds)
		if err != nil {
			return err
		}
		in.seconds = append(in.seconds, n)
	}
	r.script.mix = append(r.script.mix, in)
	return nil
}

// number reads a number in lowest..highest.
func number(s string, lowest, highest int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < lowest || n > highest {
		return 0, fmt.Errorf("%q is not a number in %d..%d", s, lowest, highest)
	}
	return n, nil
}

// Trace generates the trace for a number of machines, with kinds in the proportion of their counts; for 0, each kind
// has the count of the script.
// Every kind has at least one machine. The seed determines the pods of a mix, and the order of listed pods with equal
// arrival times.
func (s *Script) Trace(machines int, seed uint64) (*Trace, error) {
	t := &Trace{Name: s.Name, Source: s.Source, Fleets: slices.Clone(s.fleets), Shapes: s.shapes}
	if machines < 0 || machines > MaxMachines || machines > 0 && machines < len(s.fleets) {
		return nil, fmt.Errorf("trace %s: %d machines: want %d, one of each kind, to %d", s.Name, machines,
			len(s.fleets), MaxMachines)
	}
	if machines > 0 {
		scale(t.Fleets, machines)
	}
	if len(s.mix) == 0 {
		t.Pods = shuffled(s.pods, seed)
		return t, t.Check()
	}
	var err error
	if t.Pods, err = s.generate(t, seed); err != nil {
		return nil, fmt.Errorf("trace %s: %w", s.Name, err)
	}
	return t, t.Check()
}

// shuffled returns the pods in order of arrival; the seed decides the order of pods that arrive in one second.
func shuffled(pods []Arrival, seed uint64) []Arrival {
	out, rnd := slices.Clone(pods), chance{seed}
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && out[to].At == out[from].At {
			to++
		}
		for i := to - 1; i > from; i-- {
			j := from + int(rnd.below(int64(i-from+1)))
			out[i], out[j] = out[j], out[i]
		}
		from = to
	}
	return out
}

// scale changes the counts so that they add up to machines: each kind gets its part, rounded down but at least one,
// and the difference is added to, or taken from, the first kinds.
func scale(fleets []Fleet, machines int) {
	all, rest := 0, machines
	for _, f := range fleets {
		all += f.Count
	}
	for i := range fleets {
		fleets[i].Count = max(1, int(int64(fleets[i].Count)*int64(machines)/int64(all)))
		rest -= fleets[i].Count
	}
	for i := 0; rest != 0; i = (i + 1) % len(fleets) {
		if d := max(rest, 1-fleets[i].Count); d != 0 {
			fleets[i].Count += d
			rest -= d
		}
	}
}

// generate makes the pods of a mix.
func (s *Script) generate(t *Trace, seed uint64) ([]Arrival, error) {
	f := newFullness(t)
	total := int64(0)
	for _, in := range s.mix {
		total += in.weight
	}
	gap, count := s.pace(f, total)
	if count > MaxPods {
		return nil, fmt.Errorf("its mix would be %d pods, the most is %d", count, MaxPods)
	}
	rnd, now := chance{seed}, int64(0) // now in millionths of a second
	out := make([]Arrival, 0, count)
	for range count {
		now += rnd.below(2*gap + 1)
		if now > MaxSeconds*1_000_000 {
			return nil, fmt.Errorf("its pods would take more than %d s to arrive", MaxSeconds)
		}
		in := s.mix[pickIngredient(&rnd, s.mix)]
		out = append(out, Arrival{At: now / 1_000_000, For: in.seconds[rnd.below(int64(len(in.seconds)))], Shape: in.shape})
	}
	return out, nil
}

// pace returns the mean time between arrivals, in millionths of a second, and the number of arrivals. Every product
// is rounded separately, so that all computers get the same numbers.
func (s *Script) pace(f *fullness, total int64) (gap int64, count int) {
	// busy is the mean over pods of amount times duration in seconds, and ask the mean of the amount. Each is a part
	// of a resource's capacity, for the resource where it is largest.
	busy, ask := 0.0, 0.0
	for r, all := range f.capacity {
		seconds, amount := 0.0, 0.0
		for _, in := range s.mix {
			mean := 0.0
			for _, x := range in.seconds {
				mean += float64(x) / float64(len(in.seconds))
			}
			a := float64(f.requests[in.shape][r]) * float64(in.weight) / float64(total)
			amount += a
			seconds += float64(a * mean)
		}
		if all > 0 {
			busy, ask = max(busy, seconds/float64(all)), max(ask, amount/float64(all))
		}
	}
	const longest = 1e12
	gap = max(1, int64(min(longest, float64(busy*1e6)/(float64(cmp.Or(s.Load, UsualLoad))/100))))
	return gap, int(min(MaxPods+1, turnover/max(ask, 1e-9)+1))
}
