package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// File is a scenario together with its text, which includes comments and blank lines.
type File struct {
	Scenario
	lines []string    // of the text, without the expected outcomes
	steps map[int]int // index of lines -> index of Steps
}

// parser is the state of reading a file.
type parser struct {
	f        *File
	machine  strings.Builder // has a line for each line of the file, so that errors name the lines of the file
	cores    []topo.CoreSpec
	hasRules bool            // the rules line was read
	pods     map[string]bool // names of admitted pods
}

// Parse reads a scenario. Errors name the file and the line.
func Parse(file, text string) (*File, error) {
	lines := strings.Split(text, "\n")
	if len(lines) > MaxLines {
		return nil, fmt.Errorf("%s: %d lines, the most is %d", file, len(lines), MaxLines)
	}
	p := parser{f: &File{steps: map[int]int{}}, pods: map[string]bool{}}
	for i, line := range lines {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p.f, nil
}

// line reads one line. It skips expected outcomes, which Play computes anew.
func (p *parser) line(line string) error {
	defer p.machine.WriteByte('\n')
	if strings.HasPrefix(line, "> ") {
		return nil
	}
	p.f.lines = append(p.f.lines, line)
	code, comment, commented := strings.Cut(line, "#")
	words := strings.Fields(code)
	if len(words) == 0 {
		if commented && !p.hasRules {
			p.f.Comment = append(p.f.Comment, strings.TrimSpace(comment))
		}
		return nil
	}
	switch words[0] {
	case "numa", "device", "distances":
		p.machine.WriteString(code)
		return nil
	case "core":
		return p.core(words)
	case "rules":
		if p.hasRules {
			return fmt.Errorf("rules are given twice")
		}
		p.hasRules = true
		return p.rules(words[1:])
	}
	if !p.hasRules {
		return fmt.Errorf("%q comes before the rules", words[0])
	}
	s, err := p.step(words, code)
	if err != nil {
		return err
	}
	p.f.steps[len(p.f.lines)-1] = len(p.f.Steps)
	p.f.Steps = append(p.f.Steps, s)
	return nil
}

func (p *parser) core(w []string) error {
	if len(w) != 8 || w[2] != "numa" || w[4] != "socket" || w[6] != "l3" {
		return fmt.Errorf("core: want CPUS numa N socket N l3 N")
	}
	cpus, err := idset.Parse[idset.CPU](w[1])
	if err != nil {
		return fmt.Errorf("core: %w", err)
	}
	var n [3]int
	bounds := [3]int{idset.Max, idset.Max, topo.MaxL3}
	for i := range n {
		if n[i], err = number(w[3+2*i], bounds[i]); err != nil {
			return fmt.Errorf("core: %s: %w", w[2+2*i], err)
		}
	}
	p.cores = append(p.cores, topo.CoreSpec{CPUs: cpus, NUMA: idset.NUMA(n[0]), Socket: idset.Socket(n[1]), L3: n[2]})
	return nil
}

// number reads a whole number in 0..highest.
func number(s string, highest int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > highest {
		return 0, fmt.Errorf("%q is not a number in 0..%d", s, highest)
	}
	return n, nil
}

// finish makes the machine, and picks the CPUs that are reserved by amount.
func (p *parser) finish() error {
	t, err := topo.ParseText(strings.NewReader(p.machine.String()))
	if err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	t.Spec.Cores = append(t.Spec.Cores, p.cores...)
	f := p.f
	if f.Machine, err = topo.New(t.Spec); err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	if f.ReserveCPUs == 0 {
		return nil
	}
	if !f.Rules.CPU.Reserved.Empty() {
		return fmt.Errorf("rules: reserved and reserve-cpus are both given")
	}
	f.Rules.CPU.Reserved, err = f.Rules.Reserve(f.Machine, f.ReserveCPUs)
	return err
}

func (p *parser) step(words []string, line string) (s Step, err error) {
	action := slices.Index(actionWords[:], words[0])
	s.Do = Action(action)
	switch {
	case action < 0:
	case s.Do == Admit:
		if err := parseAdmit(line, &s); err != nil {
			return s, err
		}
		if p.pods[s.Name] {
			return s, fmt.Errorf("pod %s is admitted twice", s.Name)
		}
		p.pods[s.Name] = true
		return s, nil
	case (s.Do == Start || s.Do == Remove || s.Do == End) && len(words) == 2 && p.pods[words[1]]:
		s.Name = words[1]
		return s, nil
	case (s.Do == Unhealthy || s.Do == Healthy) && len(words) == 3:
		s.Resource, s.Devices = words[1], strings.Split(words[2], ",")
		if len(s.Devices) > MaxDevices {
			return s, fmt.Errorf("%d devices, the most is %d", len(s.Devices), MaxDevices)
		}
		return s, nil
	case (s.Do == Free || s.Do == Restart) && len(words) == 1:
		return s, nil
	}
	return s, fmt.Errorf("%q: want admit NAME : CONTAINER / ..., start, remove or end NAME of an earlier pod, "+
		"unhealthy or healthy RESOURCE IDS, restart, or free", line)
}

func parseAdmit(line string, s *Step) error {
	head, body, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "admit"), " : ")
	words := strings.Fields(head)
	if !ok || len(words) == 0 {
		return fmt.Errorf("want admit NAME [WORD]... : CONTAINER / CONTAINER")
	}
	s.Name, s.Pod.QoS = words[0], place.Guaranteed
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		ok := true
		switch key {
		case "burstable":
			s.Pod.QoS = place.Burstable
		case "best-effort":
			s.Pod.QoS = place.BestEffortQoS
		case "pod-level":
			s.Pod.PodLevel = true
			s.Pod.Whole, ok = parseWhole(value)
		case "policy":
			s.Demand.Policy, ok = place.ParsePolicy(value)
		case "scope":
			s.Demand.Scope, ok = place.ParseScope(value)
		case "align":
			s.Demand.Align, ok = parseNames(value)
		case "ignore":
			s.Demand.Ignore, ok = parseNames(value)
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("pod %s: do not know %q", s.Name, w)
		}
	}
	if d := s.Demand; d.Align+d.Ignore != "" && (!d.Binds() || d.Align != "" && d.Ignore != "") {
		return fmt.Errorf("pod %s: want one of align and ignore, and a policy that demands something", s.Name)
	}
	for part := range strings.SplitSeq(body, " / ") {
		c, err := parseContainer(strings.Fields(part))
		if err != nil {
			return fmt.Errorf("pod %s: %w", s.Name, err)
		}
		if slices.ContainsFunc(s.Pod.Containers, func(o place.Container) bool { return o.Name == c.Name }) {
			return fmt.Errorf("pod %s: container %s is named twice", s.Name, c.Name)
		}
		c.Unequal = c.Unequal || s.Pod.PodLevel && mustBeUnequal(s.Pod.QoS, &c)
		s.Pod.Containers = append(s.Pod.Containers, c)
	}
	if n := len(s.Pod.Containers); n > MaxContainers {
		return fmt.Errorf("pod %s has %d containers, the most is %d", s.Name, n, MaxContainers)
	}
	return nil
}

// defaultWhole is what a pod requests as a whole if the scenario has pod-level without amounts.
const defaultWhole = "cpu:1,memory:1Gi"

// parseWhole reads what a pod requests as a whole, such as cpu:4,memory:2Gi.
func parseWhole(list string) (place.Whole, bool) {
	if list == "" {
		list = defaultWhole
	}
	c, err := parseContainer(strings.Fields("pod " + strings.NewReplacer(",", " ", ":", "=").Replace(list)))
	return place.Whole{MilliCPU: c.MilliCPU, Memory: c.Memory}, err == nil && len(c.Devices) == 0
}

// mustBeUnequal reports whether a container's limits cannot equal its requests: the pod is not Guaranteed, or the
// container requests no CPU or no memory.
func mustBeUnequal(class place.QoS, c *place.Container) bool {
	return class != place.Guaranteed || c.MilliCPU == 0 ||
		!slices.ContainsFunc(c.Memory, func(a place.Amount) bool { return a.Kind == topo.Memory && a.Bytes > 0 })
}

// parseNames reads names of resources, each at most once.
func parseNames(list string) (place.Names, bool) {
	names := strings.Split(list, ",")
	out := place.NamesOf(names...)
	return out, len(names) <= MaxNames && !slices.Contains(names, "") && len(out.List()) == len(names)
}

// parseContainer reads a container: its kind unless it is an app container, its name, and its requests.
func parseContainer(words []string) (place.Container, error) {
	var c place.Container
	if len(words) > 1 && words[0] == "init" && !strings.Contains(words[1], "=") {
		c.Kind, words = place.Init, words[1:]
	} else if len(words) > 1 && words[0] == "sidecar" && !strings.Contains(words[1], "=") {
		c.Kind, words = place.Sidecar, words[1:]
	}
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return c, fmt.Errorf("a container has no name")
	}
	c.Name = words[0]
	seen := map[string]bool{}
	for _, w := range words[1:] {
		if w == "unequal" && !c.Unequal {
			c.Unequal = true
			continue
		}
		key, value, _ := strings.Cut(w, "=")
		key, err := addAmount(&c, key, value)
		if err == nil && seen[key] {
			err = fmt.Errorf("given twice")
		}
		if err != nil {
			return c, fmt.Errorf("container %s: %q: %w", c.Name, w, err)
		}
		seen[key] = true
	}
	slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(c.Devices, func(a, b place.Count) int { return strings.Compare(a.Resource, b.Resource) })
	return c, nil
}

// addAmount adds one request to a container, and returns the resource's name in the form that machines use.
func addAmount(c *place.Container, key, value string) (string, error) {
	switch {
	case key == "cpu":
		milli, thousandths := strings.CutSuffix(value, "m")
		n, err := number(milli, 1<<30)
		if c.MilliCPU = int64(n); !thousandths {
			c.MilliCPU *= 1000
		}
		return key, err
	case strings.Contains(key, "/"):
		n, err := number(value, 1<<30)
		c.Devices = append(c.Devices, place.Count{Resource: key, N: int64(n)})
		return key, err
	}
	kind, err := memoryKind(key)
	if err != nil {
		return key, err
	}
	a, err := parseAmount(value)
	a.Kind = kind
	c.Memory = append(c.Memory, a)
	return kind, err
}

// parseAmount reads a size, or a number of thousandths such as 1500m, which is how Kubernetes writes fractions of
// bytes.
func parseAmount(s string) (place.Amount, error) {
	milli, ok := strings.CutSuffix(s, "m")
	if !ok {
		n, err := topo.ParseBytes(s)
		return place.Amount{Bytes: n}, err
	}
	n, err := strconv.ParseInt(milli, 10, 64)
	if err != nil || n < 0 || n/1000 >= topo.MaxBytes {
		return place.Amount{}, fmt.Errorf("%q is not a size in 0..1Pi", s)
	}
	return place.Amount{Bytes: (n + 999) / 1000, Fractional: n%1000 != 0}, nil
}

// memoryKind reads the name of a memory resource; page sizes get the form that machines use.
func memoryKind(s string) (string, error) {
	if s == topo.Memory {
		return s, nil
	}
	size, ok := strings.CutPrefix(s, "hugepages-")
	n, err := topo.ParseBytes(size)
	if !ok || err != nil || n == 0 {
		return s, fmt.Errorf("do not know %q", s)
	}
	return topo.Hugepages{PageSize: n}.Kind(), nil
}

func (p *parser) rules(words []string) (err error) {
	r := &p.f.Rules
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		ok := true
		switch key {
		case "release":
			r.Release, ok = place.ParseRelease(value)
		case "pod-level-managers":
			r.PodLevelManagers = true
		case "topology":
			r.Topology.Policy, ok = place.ParsePolicy(value)
		case "scope":
			r.Topology.Scope, ok = place.ParseScope(value)
		case "prefer-closest":
			r.Topology.PreferClosest = true
		case "max-numas":
			r.Topology.MaxNUMAs, err = number(value, 1<<16)
		case "cpu":
			r.CPU.Static, ok = value == "static", value == "static" || value == "none"
		case "reserved":
			r.CPU.Reserved, err = idset.Parse[idset.CPU](value)
		case "reserve-cpus":
			p.f.ReserveCPUs, err = number(value, topo.MaxCPUs)
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
			return fmt.Errorf("rules: %s: %w", key, err)
		}
		if !ok {
			return fmt.Errorf("rules: do not know %q", w)
		}
	}
	return nil
}

// option is one option of the static CPU manager.
type option struct {
	name string
	at   func(*place.CPURules) *bool
}

// options returns all options of the static CPU manager (cpumanager/policy_options.go).
func options() []option {
	return []option{
		{"full-pcpus-only", func(r *place.CPURules) *bool { return &r.FullPCPUsOnly }},
		{"distribute-cpus-across-numa", func(r *place.CPURules) *bool { return &r.DistributeAcrossNUMA }},
		{"align-by-socket", func(r *place.CPURules) *bool { return &r.AlignBySocket }},
		{"distribute-cpus-across-cores", func(r *place.CPURules) *bool { return &r.DistributeAcrossCores }},
		{"strict-cpu-reservation", func(r *place.CPURules) *bool { return &r.StrictReservation }},
		{"prefer-align-cpus-by-uncorecache", func(r *place.CPURules) *bool { return &r.PreferAlignByUncoreCaches }},
	}
}

func parseOptions(list string, r *place.CPURules) error {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(options(), func(o option) bool { return o.name == name })
		if i < 0 {
			return fmt.Errorf("unknown option %q", name)
		}
		*options()[i].at(r) = true
	}
	return nil
}

func parseReserve(list string) (out []place.Reserved, err error) {
	for item := range strings.SplitSeq(list, ",") {
		part := strings.Split(item, ":")
		if len(part) != 3 {
			return nil, fmt.Errorf("%q: want NUMA:KIND:SIZE", item)
		}
		id, err := number(part[0], idset.Max)
		if err != nil {
			return nil, err
		}
		kind, err := memoryKind(part[1])
		if err != nil {
			return nil, err
		}
		bytes, err := topo.ParseBytes(part[2])
		if err != nil {
			return nil, err
		}
		out = append(out, place.Reserved{NUMA: idset.NUMA(id), Kind: kind, Bytes: bytes})
	}
	return out, nil
}
