package use

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
)

// metrics returns the metrics of a node with two NUMA nodes and one container, after this many busy seconds.
func metrics(busy, cpu float64) string {
	return fmt.Sprintf(`# TYPE numa_node_cpu_busy_seconds_total counter
numa_node_cpu_busy_seconds_total{node="n",numa_node="0"} %g
numa_node_memory_used_bytes{node="n",numa_node="0"} 1000
numa_node_memory_unused_bytes{node="n",numa_node="0"} 500
numa_node_memory_used_bytes{node="n",numa_node="8"} 7
tenon_container_cpu_seconds_total{container="c",namespace="ml",node="n",numa_nodes="0,8",pod="p"} %g
tenon_container_memory_numa_bytes{container="c",kind="anon",namespace="ml",node="n",numa_node="8",pod="p"} 30
tenon_container_memory_numa_bytes{container="c",kind="file",namespace="ml",node="n",numa_node="8",pod="p"} 12
tenon_container_memory_remote_ratio{container="c",namespace="ml",node="n",pod="p"} 0.25
go_goroutines 12
`, busy, cpu)
}

// scripted answers each scrape with the next text; "" is a missing agent.
type scripted struct {
	texts  []string
	asked  int
	closed int
}

func (s *scripted) scrape(context.Context, string) (io.ReadCloser, error) {
	text := s.texts[min(s.asked, len(s.texts)-1)]
	s.asked++
	if text == "" {
		return nil, errors.New("no agent")
	}
	return struct {
		io.Reader
		io.Closer
	}{strings.NewReader(text), closer(func() { s.closed++ })}, nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

func TestATimeLine(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &scripted{texts: []string{metrics(100, 7), metrics(120, 17), metrics(1, 18), ""}}
	lines := NewTimelines(s.scrape, func() time.Time { return now })
	ask := func() document.NodeUse { return lines.Node(t.Context(), "n", "") }

	first := ask()
	if len(first.Samples) != 1 || first.Problem != "" || first.Samples[0].NUMAs[0].CPUs != nil {
		t.Fatalf("the first answer is %+v", first)
	}
	if again := ask(); len(again.Samples) != 1 || s.asked != 1 {
		t.Errorf("the node was asked %d times at one moment", s.asked)
	}
	now = now.Add(5 * time.Second)
	got := ask().Samples[1]
	c := got.Containers[0]
	if *got.NUMAs[0].CPUs != 4 || *got.NUMAs[0].Memory != 1000 || *got.NUMAs[0].MemoryFree != 500 ||
		got.NUMAs[1].ID != 8 || got.NUMAs[1].CPUs != nil || got.NUMAs[1].MemoryFree != nil {
		t.Errorf("NUMA nodes use %+v", got.NUMAs)
	}
	if *c.CPUs != 2 || c.NUMAs != "0,8" || *c.Remote != .25 || len(c.Memory) != 1 ||
		c.Memory[0] != (document.BytesOnNUMA{NUMA: 8, Bytes: 42}) {
		t.Errorf("the container uses %+v", c)
	}
	now = now.Add(5 * time.Second)
	if got := ask().Samples[2]; got.NUMAs[0].CPUs != nil || *got.Containers[0].CPUs != .2 {
		t.Errorf("after a restart of the node %+v", got)
	}
	now = now.Add(5 * time.Second)
	if gone := ask(); gone.Problem != "no agent" || len(gone.Samples) != 3 {
		t.Errorf("without an agent: %q, %d samples", gone.Problem, len(gone.Samples))
	}
	now = now.Add(lineLength + time.Second)
	if late := ask(); len(late.Samples) != 0 || s.closed != 3 {
		t.Errorf("ten minutes later there are %d samples; %d of 3 answers were closed", len(late.Samples), s.closed)
	}
}

// many returns the metrics of a node with this many containers.
func many(count int) string {
	var out strings.Builder
	for i := range count {
		fmt.Fprintf(&out, "tenon_container_cpu_seconds_total{namespace=\"a\",pod=\"p\",container=\"c%d\"} 1\n", i)
	}
	return out.String()
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	const count = 2 * maxContainers / maxSamples
	s := &scripted{texts: []string{many(count)}}
	lines := NewTimelines(s.scrape, func() time.Time { return now })
	var got document.NodeUse
	for range maxSamples + 10 {
		got = lines.Node(t.Context(), "n", "")
		now = now.Add(scrapePeriod)
	}
	sum := 0
	for _, one := range got.Samples {
		sum += len(one.Containers)
	}
	if len(got.Samples) != maxSamples || sum > maxContainers || len(got.Samples[maxSamples-1].Containers) != count {
		t.Errorf("%d samples with %d containers are kept", len(got.Samples), sum)
	}
	s.texts = []string{many(maxRead + 5)}
	if r := lines.Node(t.Context(), "large", ""); len(r.Samples[0].Containers) != maxRead {
		t.Errorf("%d containers of one node", len(r.Samples[0].Containers))
	}
	s.texts = []string{""}
	for i := range 3 * maxNodes {
		lines.Node(t.Context(), fmt.Sprint(i), "")
	}
	if len(lines.all) != maxNodes {
		t.Errorf("%d nodes are kept", len(lines.all))
	}
}

func TestReadingsThatAreNone(t *testing.T) {
	at := time.Unix(1e9, 0)
	for _, text := range []string{"numa_node_memory_used_bytes{", `numa_node_memory_used_bytes{numa_node="0"} x` + "\n",
		strings.Repeat("# x\n", maxText/4+1), strings.Repeat(`tenon_container_cpu_seconds_total{} 1`+"\n", maxLines+1),
		`numa_node_memory_used_bytes{numa_node="` + strings.Repeat("0", maxLine) + "\"} 1\n"} {
		if _, err := parse(strings.NewReader(text), at, &sync.Mutex{}); err == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
	for _, text := range []string{"", "go_goroutines 12\n", "{", "x{y=", strings.Repeat("x", 3*maxLine), `numa_node_memory_used_bytes{numa_node="-1"} 5` + "\n",
		`numa_node_memory_used_bytes{numa_node="0"} NaN` + "\n", `numa_node_memory_used_bytes{numa_node="0"} +Inf` + "\n",
		`tenon_container_memory_remote_ratio{pod="p"} 1` + "\n"} {
		r, err := parse(strings.NewReader(text), at, &sync.Mutex{})
		if err != nil || r.problem() == "" || len(r.since(nil).sample().NUMAs) != 0 {
			t.Errorf("%q: %+v, error %v", text, r, err)
		}
	}
}

// However many series of others a node sends, they are not decoded. What is decoded is added up within bounds.
func TestReadingsOfManySeries(t *testing.T) {
	var before, after runtime.MemStats
	text := strings.NewReader(strings.Repeat("a 1\n", maxText/4-1))
	runtime.ReadMemStats(&before)
	_, err := parse(text, time.Unix(1e9, 0), &sync.Mutex{})
	if runtime.ReadMemStats(&after); err != nil || after.TotalAlloc-before.TotalAlloc > 10<<20 {
		t.Errorf("%d bytes are allocated for %d lines: %v", after.TotalAlloc-before.TotalAlloc, maxText/4, err)
	}
	const line = `tenon_container_memory_numa_bytes{namespace="n",pod="p",container="c",numa_node="0",kind="%d"} %d` + "\n"
	var b strings.Builder
	for i := range 2 * maxPart / len(line) {
		fmt.Fprintf(&b, line, i, int64(maxNumber))
	}
	r, err := parse(strings.NewReader(b.String()), time.Unix(1e9, 0), &sync.Mutex{})
	if err != nil || r.containers[name{"n", "p", "c"}].memory[0] != maxNumber {
		t.Errorf("%+v, %v", r, err)
	}
}

// On a machine with as many NUMA nodes as are kept, all kinds of a container's memory are added up on each.
func TestMemoryOfAsManyNUMANodesAsAreKept(t *testing.T) {
	r := &reading{containers: map[name]*container{}}
	for range 2 {
		for id := range maxNUMAs {
			r.addMemory(map[string]string{"namespace": "n", "pod": "p", "container": "c", "numa_node": fmt.Sprint(id)}, 1)
		}
	}
	for id, bytes := range r.containers[name{"n", "p", "c"}].memory {
		if bytes != 2 {
			t.Errorf("NUMA node %d has %d bytes, want 2", id, bytes)
		}
	}
	if n := len(r.containers[name{"n", "p", "c"}].memory); n != maxNUMAs {
		t.Errorf("%d NUMA nodes, want %d", n, maxNUMAs)
	}
}

// Whatever metrics an agent serves, an answer can be encoded, and is bounded.
func FuzzReading(f *testing.F) {
	f.Add(metrics(1, 2), metrics(3, 1))
	f.Add(`numa_node_memory_used_bytes{numa_node="0"} 1e300`, "")
	f.Fuzz(func(t *testing.T, one, two string) {
		last, err := parse(strings.NewReader(one), time.Unix(1e9, 0), &sync.Mutex{})
		if err != nil {
			return
		}
		now, err := parse(strings.NewReader(two), time.Unix(1e9+1, 0), &sync.Mutex{})
		if err != nil {
			return
		}
		s := now.since(last).sample()
		if len(s.NUMAs) > 3*maxNUMAs || len(s.Containers) > maxRead {
			t.Errorf("%d NUMA nodes, %d containers", len(s.NUMAs), len(s.Containers))
		}
		for _, c := range s.Containers {
			if c.CPUs != nil && (math.IsNaN(*c.CPUs) || math.IsInf(*c.CPUs, 0) || *c.CPUs < 0) {
				t.Errorf("%s uses %v CPUs", c.Container, *c.CPUs)
			}
		}
	})
}
