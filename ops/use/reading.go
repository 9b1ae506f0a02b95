package use

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
)

// Bounds on a node's metrics.
const (
	maxText   = 16 << 20 // bytes
	maxLine   = 16 << 10 // bytes of a line
	maxLines  = 200_000  // lines with numbers that are read
	maxPart   = 1 << 20  // bytes that are decoded at a time
	maxLabel  = 253      // bytes of a name
	maxList   = 4096     // bytes of a list of NUMA nodes
	maxNUMAs  = 64
	maxNumber = 1 << 53 // of bytes or seconds; float64 has all integers up to it
	maxRead   = 2048    // containers in one reading
)

// reading has the metrics of an agent at one time. busy and the CPU time of containers are counters in seconds, until
// since replaces them by rates; used and unused are bytes. Keys of the maps are ids of NUMA nodes.
type reading struct {
	at           time.Time
	busy         map[int32]float64
	used, unused map[int32]int64
	containers   map[name]*container
}

type name struct{ namespace, pod, container string }

type container struct {
	cpu    *float64
	numas  v1alpha1.IDList
	memory map[int32]int64
	remote *float64
}

func newReading(at time.Time) *reading {
	return &reading{at: at, busy: map[int32]float64{}, used: map[int32]int64{}, unused: map[int32]int64{},
		containers: map[name]*container{}}
}

// parse reads the metrics of an agent. It returns an error if the text is too long, or a line that it reads is faulty.
// It ignores other metrics, and numbers out of bounds. A node may send anything, so only a part of the lines is decoded
// at a time, and only by whoever has the turn.
func parse(text io.Reader, at time.Time, turn sync.Locker) (*reading, error) {
	limited := &io.LimitedReader{R: text, N: maxText}
	in, r, lines := bufio.NewReaderSize(limited, maxLine), newReading(at), 0
	var part bytes.Buffer
	for {
		line, err := in.ReadSlice('\n')
		if limited.N <= 0 {
			return nil, fmt.Errorf("the agent's metrics are longer than %d bytes", maxText)
		}
		if wanted(line) {
			if lines++; lines > maxLines || errors.Is(err, bufio.ErrBufferFull) {
				return nil, fmt.Errorf("the agent's metrics have more than %d lines, or a line of more than %d bytes", maxLines,
					maxLine)
			}
			part.Write(line)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line of another metric
			_, err = in.ReadSlice('\n')
		}
		end := errors.Is(err, io.EOF)
		if part.Len() > maxPart || end {
			if err := r.addLines(&part, turn); err != nil {
				return nil, fmt.Errorf("read the agent's metrics: %w", err)
			}
		}
		if end {
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the agent's metrics: %w", err)
		}
	}
}

// series are what is read of an agent's metrics.
var series = []struct {
	name string
	add  func(r *reading, labels map[string]string, v float64)
}{
	{"numa_node_cpu_busy_seconds_total", func(r *reading, l map[string]string, v float64) { numa(r.busy, l, v) }},
	{"numa_node_memory_used_bytes", func(r *reading, l map[string]string, v float64) { numa(r.used, l, int64(v)) }},
	{"numa_node_memory_unused_bytes", func(r *reading, l map[string]string, v float64) { numa(r.unused, l, int64(v)) }},
	{"tenon_container_cpu_seconds_total", (*reading).cpu},
	{"tenon_container_memory_numa_bytes", (*reading).addMemory},
	{"tenon_container_memory_remote_ratio", (*reading).remote},
}

// wanted reports whether a line has a number that is read.
func wanted(line []byte) bool {
	for _, m := range series {
		if rest, is := bytes.CutPrefix(line, []byte(m.name)); is && len(rest) > 0 && rest[0] == '{' {
			return true
		}
	}
	return false
}

// addLines adds the numbers of some lines, and takes these.
func (r *reading) addLines(lines *bytes.Buffer, turn sync.Locker) error {
	turn.Lock()
	defer turn.Unlock()
	if n := lines.Len(); n > 0 && lines.Bytes()[n-1] != '\n' {
		lines.WriteByte('\n')
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(lines)
	if err != nil {
		return err
	}
	lines.Reset()
	for _, f := range series {
		for _, m := range families[f.name].GetMetric() {
			if v := value(m); v >= 0 && v <= maxNumber {
				f.add(r, labels(m), v)
			}
		}
	}
	return nil
}

// value returns the number of a series, or NaN if it has none.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue()
	}
	return math.NaN()
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// numa sets the number of the NUMA node that the label numa_node names. It ignores ids that are not valid, and NUMA
// nodes beyond maxNUMAs.
func numa[T any](of map[int32]T, labels map[string]string, v T) {
	n, err := strconv.ParseInt(labels["numa_node"], 10, 32)
	if err != nil || !idset.Valid(int(n)) {
		return
	}
	if _, known := of[int32(n)]; known || len(of) < maxNUMAs {
		of[int32(n)] = v
	}
}

// container returns the container that the labels name, and adds it if it is new. It returns nil if a label is
// missing or too long, and for a new container beyond maxRead.
func (r *reading) container(labels map[string]string) *container {
	n := name{labels["namespace"], labels["pod"], labels["container"]}
	for _, s := range []string{n.namespace, n.pod, n.container} {
		if s == "" || len(s) > maxLabel {
			return nil
		}
	}
	if r.containers[n] == nil && len(r.containers) < maxRead {
		r.containers[n] = &container{memory: map[int32]int64{}}
	}
	return r.containers[n]
}

// cpu sets the CPU time of a container in seconds, and the NUMA nodes on which it may run.
func (r *reading) cpu(labels map[string]string, v float64) {
	c := r.container(labels)
	if c == nil {
		return
	}
	c.cpu = &v
	if list := labels["numa_nodes"]; len(list) <= maxList {
		if ids, err := idset.Parse[idset.NUMA](list); err == nil && !ids.Empty() {
			c.numas = v1alpha1.IDList(ids.String())
		}
	}
}

// addMemory adds the bytes of one kind of memory to a container's memory on a NUMA node.
func (r *reading) addMemory(labels map[string]string, v float64) {
	if c := r.container(labels); c != nil {
		id, _ := strconv.ParseInt(labels["numa_node"], 10, 32)
		numa(c.memory, labels, min(c.memory[int32(id)]+int64(v), maxNumber))
	}
}

// setMemory sets a container's memory on a NUMA node, in bytes of all kinds together.
func (r *reading) setMemory(labels map[string]string, v float64) {
	if c := r.container(labels); c != nil {
		numa(c.memory, labels, int64(v))
	}
}

// remote sets the part of a container's memory that is on other NUMA nodes than its CPUs, from 0 to 1.
func (r *reading) remote(labels map[string]string, v float64) {
	if c := r.container(labels); c != nil && v <= 1 {
		c.remote = &v
	}
}

// problem returns what an agent does not measure, as text; "" if it measures everything.
func (r *reading) problem() string {
	switch {
	case len(r.used) == 0 && len(r.busy) == 0 && len(r.containers) == 0:
		return "the agent measures no use: it may be an older version, or its node another machine than the one described"
	case len(r.busy) == 0:
		return "the agent cannot read how long CPUs were busy: its node may not be the machine that it describes"
	}
	return ""
}

// since returns a copy of r in which rates replace the counters: their growth per second since the previous reading,
// last. It leaves out unknown rates; if last is nil, all rates are unknown.
func (r *reading) since(last *reading) *reading {
	out := *r
	out.busy, out.containers = map[int32]float64{}, map[name]*container{}
	for n, c := range r.containers {
		one := *c
		one.cpu = nil
		if last != nil && last.containers[n] != nil {
			one.cpu = rate(c.cpu, last.containers[n].cpu, r.at.Sub(last.at))
		}
		out.containers[n] = &one
	}
	for id := range r.busy {
		if last == nil {
			break
		}
		if v := rate(pointer(r.busy, id), pointer(last.busy, id), r.at.Sub(last.at)); v != nil {
			out.busy[id] = *v
		}
	}
	return &out
}

// sample returns the reading as one sample of a time line. The counters of r must have been replaced by rates (see
// since).
func (r *reading) sample() document.UseSample {
	out := document.UseSample{Time: r.at.UTC(), NUMAs: []document.NUMAUse{}, Containers: []document.ContainerUse{}}
	ids := map[int32]bool{}
	for _, of := range []map[int32]int64{r.used, r.unused} {
		for id := range of {
			ids[id] = true
		}
	}
	for id := range r.busy {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		out.NUMAs = append(out.NUMAs, document.NUMAUse{ID: id, CPUs: pointer(r.busy, id), Memory: pointer(r.used, id),
			MemoryFree: pointer(r.unused, id)})
	}
	for n, c := range r.containers {
		one := document.ContainerUse{Namespace: n.namespace, Pod: n.pod, Container: n.container, NUMAs: c.numas,
			CPUs: c.cpu, Memory: []document.BytesOnNUMA{}, Remote: c.remote}
		for _, id := range slices.Sorted(maps.Keys(c.memory)) {
			one.Memory = append(one.Memory, document.BytesOnNUMA{NUMA: id, Bytes: c.memory[id]})
		}
		out.Containers = append(out.Containers, one)
	}
	slices.SortFunc(out.Containers, func(a, b document.ContainerUse) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.Container, b.Container))
	})
	return out
}

// pointer returns a pointer to a copy of the number of a NUMA node; nil if there is none.
func pointer[T any](of map[int32]T, id int32) *T {
	if v, ok := of[id]; ok {
		return &v
	}
	return nil
}

// rate returns the growth of a counter per second, rounded to thousandths. It returns nil if a value is missing, or
// if the counter fell, as after a restart.
func rate(now, before *float64, over time.Duration) *float64 {
	if now == nil || before == nil || *now < *before || over <= 0 {
		return nil
	}
	v := math.Round((*now-*before)/over.Seconds()*1000) / 1000
	return &v
}
