package whole

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/cluster/kube"
)

// This file follows every pod of a round from its scheduler's queue to the node's report. The scheduler's own log has
// the times of the scheduler; it is the log of an unmodified program with -v=4. The process that imitates the nodes
// records its times itself. All processes run on one computer, so there is one clock.

// Moment is an event in the life of a pod. The constants are in the order in which the events usually come.
type Moment int

// The moments of a pod. Only Tenon has turns and predictions.
const (
	Tried   Moment = iota // the scheduler takes the pod from its queue, the last time
	Chosen                // a node is reserved; without Tenon, whose log reports that, the scheduler takes the next pod
	Turn                  // the pod may be bound
	Sent                  // the scheduler sends the binding
	Bound                 // the API server has answered
	Arrived               // the node has received the pod, and admits it
	Started               // the status that the node writes is accepted
	Told                  // the layout with what the pod holds is written
	Learnt                // the scheduler has compared the layout with its prediction
	moments
)

// String returns the name of the moment.
func (m Moment) String() string {
	return [moments]string{"tried", "chosen", "turn", "sent", "bound", "arrived", "started", "told", "learnt"}[m]
}

// Traced has the times of one pod, since the start of its scheduler. A moment that did not come is negative.
type Traced struct {
	Pod, Node string
	// Tries is how often the scheduler took the pod from its queue.
	Tries int
	At    [moments]time.Duration
}

// record is a moment that the process of the nodes has recorded.
type record struct {
	Pod    string // namespace/name
	Moment Moment
	At     time.Time
}

// journal collects records, and writes them into a file. A nil journal records nothing.
type journal struct {
	file string
	mu   sync.Mutex
	all  []record
}

// write writes what was recorded so far.
func (j *journal) write() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := json.Marshal(j.all)
	if err == nil {
		err = os.WriteFile(j.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the records of the nodes: %w", err)
	}
	return nil
}

func (j *journal) add(m Moment, pods ...string) {
	if j == nil {
		return
	}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range pods {
		j.all = append(j.all, record{p, m, now})
	}
}

// logLine is a line of klog about a pod.
var logLine = regexp.MustCompile(`^[IWE](\d{4} \d\d:\d\d:\d\d\.\d{6}) .*?\] "([^"]*)".*? pod="([^"]*)"`)

// momentByMessage has the log messages of schedulers at -v=4 that show a moment. They are in
// pkg/scheduler/schedule_one.go and plugins/defaultbinder of Kubernetes 1.37, and in scheduler/report.
var momentByMessage = map[string]Moment{
	"Attempting to schedule pod":     Tried,
	"Reserved":                       Chosen,
	"Turn has come":                  Turn,
	"Attempting to bind pod to node": Sent,
	"Successfully bound pod to node": Bound,
	"Prediction settled":             Learnt,
}

// readLog calls add for each moment that a scheduler's log shows. The year is an argument because klog writes local
// times without a year.
func readLog(name string, year int, add func(record)) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the log of the scheduler: %w", err)
	}
	defer f.Close()
	tried := ""
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := logLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		what, known := momentByMessage[m[2]]
		if !known {
			continue
		}
		at, err := time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", year, m[1]), time.Local)
		if err != nil {
			return fmt.Errorf("read the log of the scheduler: %w", err)
		}
		if what == Tried {
			if tried != "" {
				add(record{tried, Chosen, at}) // Tenon's own line came before, and counts
			}
			tried = m[3]
		}
		add(record{m[3], what, at})
	}
	return lines.Err()
}

// trace returns the moments of each bound pod, in the order of the bindings. The records are in the order of time;
// pods maps UIDs to the names in the records.
func trace(began time.Time, pods map[types.UID]string, bindings []binding, records []record) []Traced {
	at := map[string]*Traced{}
	var out []*Traced
	for _, b := range bindings {
		t := &Traced{Pod: pods[b.pod], Node: b.node}
		for i := range t.At {
			t.At[i] = -1
		}
		at[t.Pod] = t
		out = append(out, t)
	}
	for _, r := range records {
		t := at[r.Pod]
		if t == nil {
			continue
		}
		since := r.At.Sub(began)
		switch {
		case r.Moment == Tried: // what came before was an attempt that failed
			t.Tries++
			for m := range Arrived {
				t.At[m] = -1
			}
			t.At[Tried] = since
		case t.At[r.Moment] < 0:
			t.At[r.Moment] = since
		}
	}
	flat := make([]Traced, len(out))
	for i, t := range out {
		flat[i] = *t
	}
	return flat
}

// stages are the parts of a pod's way, each from a moment to a moment.
var stages = []struct {
	name     string
	from, to Moment
}{
	{"cycle", Tried, Chosen}, {"turn", Chosen, Turn}, {"before binding", Turn, Sent}, {"binding", Sent, Bound},
	{"watch", Bound, Arrived}, {"status", Arrived, Started}, {"report", Arrived, Told}, {"ledger", Told, Learnt},
}

// duration returns how long a stage of a pod took; ok is false if one of its moments did not come. Without a turn,
// the stage after the turn begins when the node is chosen.
func (t *Traced) duration(from, to Moment) (d time.Duration, ok bool) {
	begin := t.At[from]
	if from == Turn && begin < 0 {
		begin = t.At[Chosen]
	}
	return t.At[to] - begin, begin >= 0 && t.At[to] >= 0
}

// TraceReport returns a table of the stages of a contender's pods, and the time lines of four pods. These are at the
// 50th, 90th, 99th and 100th percentile of the time from the queue to the node.
func TraceReport(contender string, pods []Traced) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d pods\n\n%-16s %8s %8s %8s %8s %8s %7s\n", contender, len(pods), "ms", "mean", "p50", "p90",
		"p99", "most", "pods")
	for _, s := range stages {
		var all []time.Duration
		var sum time.Duration
		for i := range pods {
			if d, ok := pods[i].duration(s.from, s.to); ok {
				all, sum = append(all, d), sum+d
			}
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(percent int) string { return ms(all[(len(all)-1)*percent/100]) }
		fmt.Fprintf(&b, "%-16s %8s %8s %8s %8s %8s %7d\n", s.name, ms(sum/time.Duration(len(all))), at(50), at(90),
			at(99), at(100), len(all))
	}
	tries := 0
	for i := range pods {
		tries += pods[i].Tries
	}
	fmt.Fprintf(&b, "\n%d attempts for %d pods\n\n", tries, len(pods))
	b.WriteString(timeLines(pods))
	return b.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000) }

// timeLines draws the time lines of the pods at some percentiles of the time from the queue to the node.
func timeLines(pods []Traced) string {
	type ranked struct {
		*Traced
		took time.Duration
	}
	var all []ranked
	for i := range pods {
		if d, ok := pods[i].duration(Tried, Arrived); ok {
			all = append(all, ranked{&pods[i], d})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.took, b.took) })
	var b strings.Builder
	for _, percent := range []int{50, 90, 99, 100} {
		if len(all) > 0 {
			b.WriteString(all[(len(all)-1)*percent/100].draw(fmt.Sprintf("p%d", percent)))
		}
	}
	return b.String()
}

// lane is the width of a time line.
const lane = 60

// draw draws the way of one pod: a line for each stage, on one scale.
func (t *Traced) draw(rank string) string {
	begin, end := t.At[Tried], time.Duration(0)
	for _, at := range t.At {
		end = max(end, at)
	}
	column := func(at time.Duration) int { return int(int64(at-begin) * lane / max(1, int64(end-begin))) }
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s on %s, %.3f s after the start, %d tries\n", rank, t.Pod, t.Node, begin.Seconds(), t.Tries)
	for _, s := range stages {
		d, ok := t.duration(s.from, s.to)
		if !ok {
			continue
		}
		from := column(t.At[s.to] - d)
		width := max(1, column(t.At[s.to])-from)
		fmt.Fprintf(&b, "  %-16s%s%s %s ms\n", s.name, strings.Repeat(" ", from), strings.Repeat("=", width), ms(d))
	}
	return b.String() + "\n"
}

// verbosity returns the flags with which a scheduler logs what is traced.
func (a *arena) verbosity() []string {
	if a.Trace {
		return []string{"-v=4"}
	}
	return nil
}

// tracePods returns the ways of the bound pods of a round, from its scheduler's start on.
func tracePods(dir string, began time.Time, pods map[types.UID]*v1.Pod, bindings []binding) ([]Traced, error) {
	records, err := readRecords(dir)
	if err != nil {
		return nil, err
	}
	err = readLog(filepath.Join(dir, schedulerLog), began.Year(), func(r record) { records = append(records, r) })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(records, func(a, b record) int { return a.At.Compare(b.At) })
	keys := map[types.UID]string{}
	for uid, p := range pods {
		keys[uid] = kube.ID(p).String()
	}
	return trace(began, keys, bindings, records), nil
}

// traceFile is the name of the file of records of the nodes, in the folder of a round.
const traceFile = "nodes.trace"

// readRecords reads the records that the process of the nodes has written.
func readRecords(dir string) (out []record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, traceFile))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read the records of the nodes: %w", err)
	}
	return out, nil
}
