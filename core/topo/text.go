package topo

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// This file reads the text form of a machine, which is easy to write by hand. The rules are:
//
//	# a comment, to the end of the line
//	source TEXT                    where the facts come from; kept, not interpreted
//	numa ID [socket N] [cpus LIST[/LIST...]] [l3 N] [memory SIZE] [memory-kind KIND] [hugepages-SIZE COUNT]...
//	distances D D D ...            one line per NUMA node, in ascending order of their ids
//	device RESOURCE IDS numa LIST  IDS is a comma list; "numa none" for no affinity; "root NAME" (the PCI
//	                               host bridge above the devices), then "list empty", "list negative" or "list
//	                               unknown" (see NUMAList), and then "unhealthy" may follow
//
// The lists of "cpus" are the threads of the cores: the k-th CPU of every list is a thread of the k-th core, so "cpus
// 0-15,32-47" is 32 cores and "cpus 0-15/32-47" is 16 cores of two threads. "l3 N" cuts the cores of the NUMA node,
// in order, into N groups of equal size (1 when absent). KIND is gpu, dax or movable, for memory that is not
// ordinary. SIZE is a number with an optional unit Ki, Mi, Gi, Ti. The order of lines does not matter, except for
// distances. As in Linux, a NUMA node with memory has every hugepage size that any line names, with no pages if its
// own line does not name the size. A NUMA node without memory has only the sizes that its own line names.

// Text is a parsed machine text.
type Text struct {
	Source string
	Spec   Spec
}

const maxLines = 10000

// ParseText reads the text form. Errors name the line.
func ParseText(r io.Reader) (Text, error) {
	p := parser{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for line := 1; sc.Scan(); line++ {
		if line > maxLines {
			return Text{}, fmt.Errorf("machine text has more than %d lines", maxLines)
		}
		text, _, _ := strings.Cut(sc.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			if err := p.line(words); err != nil {
				return Text{}, fmt.Errorf("line %d: %w", line, err)
			}
		}
	}
	if err := sc.Err(); err != nil {
		return Text{}, fmt.Errorf("read machine text: %w", err)
	}
	if err := p.distances(); err != nil {
		return Text{}, err
	}
	p.text.Spec.EverySize(func(n *NUMA) bool { return n.Bytes > 0 })
	return p.text, nil
}

// ParseMachine reads the text form and makes the machine.
func ParseMachine(text string) (*Machine, error) {
	t, err := ParseText(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return New(t.Spec)
}

// String returns the size of the machine in one line, such as "2 sockets, 4 NUMA nodes, 64 cores, 128 CPUs, 256Gi, 8
// nvidia.com/gpu". It leaves out what the text form of [ParseText] has beside that.
func (m *Machine) String() string {
	if m == nil {
		return "no machine"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{len(m.sockets), "socket"}, {len(m.numas), "NUMA node"}, {len(m.cores), "core"}, {m.all.Len(), "CPU"}} {
		text := fmt.Sprintf("%d %ss", p.n, p.what)
		if p.n == 1 {
			text = "1 " + p.what
		}
		parts = append(parts, text)
	}
	var bytes int64
	for _, n := range m.numas {
		bytes += n.Bytes
	}
	const tenths = 10
	gi := math.Round(float64(bytes)/(1<<30)*tenths) / tenths
	parts = append(parts, strconv.FormatFloat(gi, 'f', -1, 64)+"Gi")
	for _, r := range m.resources {
		parts = append(parts, fmt.Sprintf("%d %s", len(r.Devices), r.Name))
	}
	return strings.Join(parts, ", ")
}

type parser struct {
	text Text
	dist [][]int
}

func (p *parser) line(w []string) error {
	switch w[0] {
	case "source":
		p.text.Source = strings.TrimSpace(p.text.Source + " " + strings.Join(w[1:], " "))
		return nil
	case "numa":
		return p.numa(w[1:])
	case "distances":
		row := make([]int, 0, len(w)-1)
		for _, s := range w[1:] {
			d, err := number(s, MaxDist)
			if err != nil {
				return err
			}
			row = append(row, d)
		}
		p.dist = append(p.dist, row)
		return nil
	case "device":
		return p.device(w[1:])
	}
	return fmt.Errorf("unknown word %q: want source, numa, distances or device", w[0])
}

// number reads a whole number in 0..highest.
func number(s string, highest int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > highest {
		return 0, fmt.Errorf("%q is not a number in 0..%d", s, highest)
	}
	return n, nil
}

func (p *parser) numa(w []string) error {
	if len(w)%2 != 1 {
		return fmt.Errorf("numa: want an id and then pairs of word and value")
	}
	id, err := number(w[0], idset.Max)
	if err != nil {
		return fmt.Errorf("numa: %w", err)
	}
	n := NUMA{ID: idset.NUMA(id)}
	socket, groups := 0, 1
	var threads []idset.Set[idset.CPU]
	for i := 1; i < len(w); i += 2 {
		switch word, val := w[i], w[i+1]; {
		case word == "socket":
			socket, err = number(val, idset.Max)
		case word == "cpus":
			threads, err = lists(val)
		case word == "l3":
			groups, err = number(val, MaxCPUs)
		case word == "memory":
			n.Bytes, err = ParseBytes(val)
		case word == "memory-kind":
			n.MemoryKind = MemoryKind(val)
		case strings.HasPrefix(word, "hugepages-"):
			var h Hugepages
			var count int
			if h.PageSize, err = ParseBytes(strings.TrimPrefix(word, "hugepages-")); err == nil {
				count, err = number(val, 1<<30)
				h.Count = int64(count)
			}
			n.Hugepages = append(n.Hugepages, h)
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return fmt.Errorf("NUMA node %d: %w", id, err)
		}
	}
	p.text.Spec.NUMAs = append(p.text.Spec.NUMAs, n)
	if err := p.cores(n.ID, idset.Socket(socket), threads, groups); err != nil {
		return fmt.Errorf("NUMA node %d: %w", id, err)
	}
	return nil
}

// lists reads the value of the word "cpus": lists of CPUs that slashes separate.
func lists(s string) (out []idset.Set[idset.CPU], err error) {
	for part := range strings.SplitSeq(s, "/") {
		set, err := idset.Parse[idset.CPU](part)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

// cores adds the cores of a NUMA node to the description. threads has one list of CPUs for each thread of a core, and
// groups is the number of L3 groups.
func (p *parser) cores(numa idset.NUMA, socket idset.Socket, threads []idset.Set[idset.CPU], groups int) error {
	if len(threads) == 0 {
		return nil
	}
	first := threads[0].List()
	if groups < 1 || len(first)%groups != 0 {
		return fmt.Errorf("%d cores cannot be cut into %d L3 groups", len(first), groups)
	}
	lanes := make([][]idset.CPU, len(threads))
	for i, t := range threads {
		if lanes[i] = t.List(); len(lanes[i]) != len(first) {
			return fmt.Errorf("thread lists of %d and %d CPUs differ in length", len(first), len(lanes[i]))
		}
	}
	per := max(1, len(first)/groups)
	l3 := 0 // lowest CPU of the group that the core is in
	for k := range first {
		var ids []idset.CPU
		for _, lane := range lanes {
			ids = append(ids, lane[k])
		}
		if k%per == 0 {
			l3 = lowest(lanes, k, k+per)
		}
		p.text.Spec.Cores = append(p.text.Spec.Cores, CoreSpec{NUMA: numa, Socket: socket, L3: l3, CPUs: idset.Of(ids...)})
	}
	return nil
}

// lowest returns the lowest CPU of the cores with the indexes from to to-1. lanes[t][k] is thread t of core k.
func lowest(lanes [][]idset.CPU, from, to int) int {
	low := lanes[0][from]
	for _, lane := range lanes {
		low = min(low, slices.Min(lane[from:to]))
	}
	return int(low)
}

func (p *parser) device(w []string) error {
	want := fmt.Errorf("device: want RESOURCE IDS numa LIST [root NAME] [list NAME] [unhealthy]")
	if len(w) < 4 || w[2] != "numa" {
		return want
	}
	root, rest := "", w[4:]
	if len(rest) > 1 && rest[0] == "root" {
		root, rest = rest[1], rest[2:]
	}
	list, known := UsualList, true
	if len(rest) > 1 && rest[0] == "list" {
		list, known = ParseNUMAList(rest[1])
		rest = rest[2:]
	}
	unhealthy := len(rest) == 1 && rest[0] == "unhealthy"
	if len(rest) > 0 && !unhealthy || !known {
		return want
	}
	var numas idset.Set[idset.NUMA]
	if w[3] != "none" {
		var err error
		if numas, err = idset.Parse[idset.NUMA](w[3]); err != nil {
			return fmt.Errorf("device %s: %w", w[0], err)
		}
	}
	for id := range strings.SplitSeq(w[1], ",") {
		p.text.Spec.Devices = append(p.text.Spec.Devices, DeviceSpec{Resource: w[0], ID: id, NUMAs: numas.List(),
			Unhealthy: unhealthy, List: list, Root: root})
	}
	return nil
}

// distances assigns the rows of distances to the NUMA nodes in ascending order of ids. Without rows it does nothing.
func (p *parser) distances() error {
	n := len(p.text.Spec.NUMAs)
	if len(p.dist) == 0 {
		return nil
	}
	if len(p.dist) != n {
		return fmt.Errorf("%d lines of distances for %d NUMA nodes", len(p.dist), n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(p.text.Spec.NUMAs[a].ID - p.text.Spec.NUMAs[b].ID) })
	for row, i := range order {
		p.text.Spec.NUMAs[i].Distances = p.dist[row]
	}
	return nil
}

var units = []struct {
	name  string
	bytes int64
}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}}

// ParseBytes reads a size such as "64Gi", "2048Ki" or "4096", at most MaxBytes.
func ParseBytes(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = d, u.bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > MaxBytes/unit {
		return 0, fmt.Errorf("%q is not a size in 0..1Pi", s)
	}
	return n * unit, nil
}

// FormatBytes writes a size with the largest unit that divides it, as Kubernetes writes quantities.
func FormatBytes(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
