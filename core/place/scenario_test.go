package place_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Scenario files are testdata/BEHAVIOUR.txt: a machine, its rules, and what the node does with one pod
// after the other. They are read line by line:
//
//	# a comment, to the end of the line: why the case matters, and which kubelet file or KEP says so
//	numa ... / device ... / distances ...   the machine, as topo.ParseText reads it
//	rules KEY=VALUE... WORD...              once, before the first step; what is absent is off:
//	    topology=POLICY scope=SCOPE prefer-closest max-numas=N
//	    cpu=none|static reserved=CPUS options=OPTION,...      (the kubelet's names of options)
//	    memory=None|Static reserve=NUMA:KIND:SIZE,...
//	admit NAME [WORD]... : CONTAINER / CONTAINER ...
//	    WORD is burstable, best-effort (Guaranteed when absent), pod-level (spec.resources is set),
//	    policy=POLICY scope=SCOPE (what the pod itself demands of the outcome)
//	    CONTAINER is [init|sidecar] NAME [cpu=4|cpu=1500m] [memory=4Gi] [hugepages-1Gi=2Gi] [acme.com/gpu=2]
//	remove NAME                             an admitted pod ends
//	free                                    shows what each numa has left
//
// The lines after a step that start with "> " are what must happen; `go test ./core/place -run
// Scenarios -update` rewrites them. A container's line is
//
//	> NAME: cpus 1-4 memory 4Gi@0 acme.com/gpu a,b@0
//
// with numa ids after the @. Where the kubelet takes any of several devices the line says
// "any 2@0", and where even the numas are left to chance "any 2 of 0-1"; what later lines then say is
// one possible outcome.

var update = flag.Bool("update", false, "rewrite the output lines of the scenario files")

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d scenario files, want at least 40 (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseScenario(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			got := s.play()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s:%d: the steps give\n%s", file, firstDifference(got, string(text)), got)
			}
		})
	}
}

func firstDifference(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y))
}

// scenario is a parsed file: its lines without the output, and the steps by their index in lines.
type scenario struct {
	lines   []string
	machine *topo.Machine
	rules   place.Rules
	steps   map[int]step
}

// step is one line that does something: exactly one of the fields is set.
type step struct {
	admit  *admitted
	remove string
	free   bool
}

type admitted struct {
	name   string
	pod    place.Pod
	demand place.Demand
}

// play runs the steps and returns the file as it should be.
func (s *scenario) play() string {
	var out []string
	held := map[string][]place.Holding{}
	var order []string
	for i, line := range s.lines {
		out = append(out, line)
		st, ok := s.steps[i]
		if !ok {
			continue
		}
		u := place.NewUsage(s.machine, s.rules)
		for _, name := range order {
			u = u.Hold(held[name]...)
		}
		var shown []string
		switch {
		case st.admit != nil:
			v := place.Judge(u, &st.admit.pod, place.Place(u, &st.admit.pod), st.admit.demand)
			shown = showVerdict(s.machine, v)
			if v.Fits() {
				held[st.admit.name] = v.Holdings
				order = append(order, st.admit.name)
			}
		case st.free:
			shown = showFree(u)
		default:
			order = slices.DeleteFunc(order, func(n string) bool { return n == st.remove })
		}
		for _, l := range shown {
			out = append(out, "> "+l)
		}
	}
	return strings.Join(out, "\n")
}

func showVerdict(m *topo.Machine, v place.Verdict) (out []string) {
	if !v.Fits() {
		out = append(out, "refused "+string(v.Error))
		for _, r := range v.Reasons {
			out = append(out, r.Text())
		}
		return out
	}
	for _, h := range v.Holdings {
		out = append(out, showHolding(m, h))
	}
	if len(out) == 0 {
		out = append(out, "admitted, holds nothing")
	}
	return out
}

func showHolding(m *topo.Machine, h place.Holding) string {
	s := h.Container + ":"
	if !h.CPUs.Empty() {
		s += " cpus " + h.CPUs.String()
	}
	for _, b := range h.Memory {
		s += " " + b.Kind + " " + topo.FormatBytes(b.Bytes) + "@" + numaIDs(m, b.NUMAs)
	}
	for _, d := range h.Devices {
		s += " " + d.Resource + " "
		switch {
		case d.Loose:
			s += fmt.Sprintf("any %d of %s", len(d.IDs), numaIDs(m, withDevices(m, d.Resource)))
		case d.Free:
			s += fmt.Sprintf("any %d@%s", len(d.IDs), numaIDs(m, d.NUMAs))
		default:
			s += strings.Join(d.IDs, ",") + "@" + numaIDs(m, d.NUMAs)
		}
	}
	return s
}

func withDevices(m *topo.Machine, resource string) (mask topo.Mask) {
	r, _ := m.Resource(resource)
	for _, d := range r.Devices {
		mask |= d.NUMAs
	}
	return mask
}

func numaIDs(m *topo.Machine, mask topo.Mask) string {
	if mask == 0 {
		return "none"
	}
	return idset.Of(m.IDs(mask)...).String()
}

// showFree lists what each numa has left; devices of several numas are listed at each.
func showFree(u *place.Usage) (out []string) {
	for i, n := range u.Machine.NUMAs() {
		s := fmt.Sprintf("numa %d:", n.ID)
		if cpus := u.FreeCPUs().And(n.CPUs); !cpus.Empty() {
			s += fmt.Sprintf(" %d cpus %s", cpus.Len(), cpus)
		}
		for _, k := range u.Machine.Kinds() {
			if u.Allocatable(i, k) > 0 {
				s += " " + k + " " + topo.FormatBytes(u.FreeMemory(i, k))
			}
		}
		for _, r := range u.Machine.Resources() {
			count := 0
			for _, d := range u.FreeDevices(r.Name) {
				if d.NUMAs.Has(i) {
					count++
				}
			}
			if withDevices(u.Machine, r.Name).Has(i) {
				s += fmt.Sprintf(" %s %d", r.Name, count)
			}
		}
		out = append(out, s)
	}
	return out
}

// parseScenario reads a file; errors name the file and the line.
func parseScenario(file, text string) (*scenario, error) {
	s := &scenario{steps: map[int]step{}}
	var machine strings.Builder // line for line, so that its errors name the lines of the file
	ruled := false
	names := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "> ") {
			s.lines = append(s.lines, line)
		}
		code, _, _ := strings.Cut(line, "#")
		words := strings.Fields(code)
		var err error
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "> "):
		case words[0] == "numa" || words[0] == "device" || words[0] == "distances":
			machine.WriteString(code)
		case words[0] == "rules":
			if ruled {
				err = fmt.Errorf("rules are given twice")
			} else {
				s.rules, err = parseRules(words[1:])
			}
			ruled = true
		default:
			if !ruled {
				err = fmt.Errorf("%q comes before the rules", words[0])
			} else {
				s.steps[len(s.lines)-1], err = parseStep(words, code, names)
			}
		}
		machine.WriteByte('\n')
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	var err error
	if s.machine, err = topo.ParseMachine(machine.String()); err != nil {
		return nil, fmt.Errorf("%s: machine: %w", file, err)
	}
	return s, nil
}

func parseStep(words []string, line string, names map[string]bool) (step, error) {
	switch {
	case words[0] == "admit":
		a, err := parseAdmit(line)
		if err == nil && names[a.name] {
			err = fmt.Errorf("pod %s is admitted twice", a.name)
		}
		names[a.name] = true
		return step{admit: a}, err
	case words[0] == "remove" && len(words) == 2 && names[words[1]]:
		return step{remove: words[1]}, nil
	case words[0] == "free" && len(words) == 1:
		return step{free: true}, nil
	}
	return step{}, fmt.Errorf("%q: want admit NAME : CONTAINER / ..., remove NAME of an earlier pod, or free", line)
}

func parseAdmit(line string) (*admitted, error) {
	head, body, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "admit"), " : ")
	words := strings.Fields(head)
	if !ok || len(words) == 0 {
		return &admitted{}, fmt.Errorf("want admit NAME [WORD]... : CONTAINER / CONTAINER")
	}
	a := &admitted{name: words[0], pod: place.Pod{QoS: place.Guaranteed}}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		ok := true
		switch key {
		case "burstable":
			a.pod.QoS = place.Burstable
		case "best-effort":
			a.pod.QoS = place.BestEffortQoS
		case "pod-level":
			a.pod.PodLevel = true
		case "policy":
			a.demand.Policy, ok = place.ParsePolicy(value)
		case "scope":
			a.demand.Scope, ok = place.ParseScope(value)
		default:
			ok = false
		}
		if !ok {
			return a, fmt.Errorf("pod %s: do not know %q", a.name, w)
		}
	}
	for part := range strings.SplitSeq(body, " / ") {
		c, err := parseContainer(strings.Fields(part))
		if err != nil {
			return a, fmt.Errorf("pod %s: %w", a.name, err)
		}
		a.pod.Containers = append(a.pod.Containers, c)
	}
	return a, nil
}

func parseContainer(words []string) (c place.Container, err error) {
	if len(words) > 0 && words[0] == "init" {
		c.Kind, words = place.Init, words[1:]
	} else if len(words) > 0 && words[0] == "sidecar" {
		c.Kind, words = place.Sidecar, words[1:]
	}
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return c, fmt.Errorf("a container has no name")
	}
	c.Name = words[0]
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch {
		case key == "cpu":
			c.MilliCPU, err = parseCPU(value)
		case key == topo.Memory || strings.HasPrefix(key, "hugepages-"):
			var n int64
			n, err = topo.ParseBytes(value)
			c.Memory = append(c.Memory, place.Amount{Kind: key, Bytes: n})
		case strings.Contains(key, "/"):
			var n int64
			n, err = strconv.ParseInt(value, 10, 32)
			c.Devices = append(c.Devices, place.Count{Resource: key, N: n})
		default:
			err = fmt.Errorf("unknown word")
		}
		if err != nil {
			return c, fmt.Errorf("container %s: %q: %w", c.Name, w, err)
		}
	}
	slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(c.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
	return c, nil
}

// parseCPU reads whole CPUs ("4") or thousandths ("1500m").
func parseCPU(s string) (int64, error) {
	milli, thousandths := strings.CutSuffix(s, "m")
	n, err := strconv.ParseInt(milli, 10, 32)
	if err == nil && !thousandths {
		n *= 1000
	}
	return n, err
}

func parseRules(words []string) (r place.Rules, err error) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		ok := true
		switch key {
		case "topology":
			r.Topology.Policy, ok = place.ParsePolicy(value)
		case "scope":
			r.Topology.Scope, ok = place.ParseScope(value)
		case "prefer-closest":
			r.Topology.PreferClosest = true
		case "max-numas":
			r.Topology.MaxNUMAs, err = strconv.Atoi(value)
		case "cpu":
			r.CPU.Static, ok = value == "static", value == "static" || value == "none"
		case "reserved":
			r.CPU.Reserved, err = idset.Parse[idset.CPU](value)
		case "options":
			err = parseOptions(value, &r.CPU)
		case "memory":
			r.Memory.Static, ok = value == "Static", value == "Static" || value == "None"
		case "reserve":
			r.Memory.Reserved, err = parseReserve(value)
		default:
			ok = false
		}
		if err != nil {
			return r, fmt.Errorf("rules: %s: %w", key, err)
		}
		if !ok {
			return r, fmt.Errorf("rules: do not know %q", w)
		}
	}
	return r, nil
}

func parseOptions(list string, r *place.CPURules) error {
	for o := range strings.SplitSeq(list, ",") {
		switch o {
		case "full-pcpus-only":
			r.FullPCPUsOnly = true
		case "distribute-cpus-across-numa":
			r.DistributeAcrossNUMA = true
		case "align-by-socket":
			r.AlignBySocket = true
		case "distribute-cpus-across-cores":
			r.DistributeAcrossCores = true
		case "strict-cpu-reservation":
			r.StrictReservation = true
		case "prefer-align-cpus-by-uncorecache":
			r.PreferAlignByUncoreCaches = true
		default:
			return fmt.Errorf("unknown option %q", o)
		}
	}
	return nil
}

func parseReserve(list string) (out []place.Reserved, err error) {
	for item := range strings.SplitSeq(list, ",") {
		part := strings.Split(item, ":")
		if len(part) != 3 {
			return nil, fmt.Errorf("%q: want NUMA:KIND:SIZE", item)
		}
		id, err := strconv.Atoi(part[0])
		if err != nil {
			return nil, err
		}
		bytes, err := topo.ParseBytes(part[2])
		if err != nil {
			return nil, err
		}
		out = append(out, place.Reserved{NUMA: idset.NUMA(id), Kind: part[1], Bytes: bytes})
	}
	return out, nil
}
