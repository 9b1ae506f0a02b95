package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
)

const sparse = `
numa 0 cpus 0-7 memory 16Gi
numa 8 cpus 8-15 memory 16Gi
device acme.com/gpu gpu-0 numa 8
`

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func podID(name string) state.PodID {
	return state.PodID{UID: "uid-" + name, Namespace: "default", Name: name}
}

func cpus(n int64) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "main", MilliCPU: n * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}}
}

// world has a ledger with one known node and one assumed pod.
func world(t *testing.T) Source {
	t.Helper()
	m, err := topo.ParseMachine(sparse)
	if err != nil {
		t.Fatal(err)
	}
	book := ledger.New()
	held := place.Holding{Container: "c", CPUs: idset.Of[idset.CPU](4, 5),
		Memory:  []place.Block{{Kind: topo.Memory, NUMAs: 1, Bytes: 2 << 30}},
		Devices: []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"gpu-0"}, NUMAs: 2}}}
	book.Report("a", state.Layout{Machine: m,
		Rules: place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA, PreferClosest: true},
			CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)}, Memory: place.MemoryRules{Static: true}},
		Entries: []state.Entry{{Pod: podID("old"), Holdings: []place.Holding{held}}}})
	now := noon
	clock := func() time.Time { return now }
	s := Source{Book: book, Decisions: NewDecisions(clock), Now: func() time.Time { return noon.Add(90 * time.Second) },
		Names: func() []string { return []string{"unknown", "a", "refused"} },
		Problem: func(node string) string {
			return map[string]string{"refused": "cpu 7 is in NUMA node 0 and in NUMA node 1"}[node]
		},
		Reported: func(node string) time.Time { return map[string]time.Time{"a": noon.Add(time.Minute)}[node] }}

	refused := s.Decisions.Begin(podID("new"))
	refused.Refused("a", []place.Reason{{Code: place.OneNUMA, Container: "main", Resource: "cpu", Want: 12, Have: 8}}, nil)
	refused.Refused("unknown", nil, status("node has no layout"))
	now = noon.Add(time.Minute)
	d := s.Decisions.Begin(podID("new"))
	d.Fits("a")
	d.Cost("a", 42)
	d.Refused("unknown", nil, status("node has no layout"))
	v, ok := book.Reserve("a", podID("new"), cpus(6), place.Demand{})
	if !ok || !v.Fits() {
		t.Fatalf("%+v, %v", v, ok)
	}
	d.Reserve("a", v.Holdings)
	sidecar := cpus(1)
	sidecar.Containers = append([]place.Container{{Kind: place.Sidecar, MilliCPU: 500,
		Devices: []place.Count{{Resource: "acme.com/nic", N: 1}}}}, sidecar.Containers...)
	mix := score.NewMix([]score.Share{{Pod: cpus(6), Weight: 5}, {Pod: sidecar, Weight: 1}})
	s.Mix = func() *score.Mix { return mix }
	return s
}

type status string

func (s status) Message() string { return string(s) }

func get(t *testing.T, s Source, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Prefix+path, nil))
	return w
}

func TestAnswers(t *testing.T) {
	s := world(t)
	for file, path := range map[string]string{
		"nodes.json": "nodes", "nodes.txt": "nodes?format=text",
		"node.json": "nodes/a", "node.txt": "nodes/a?format=text", "refused.txt": "nodes/refused?format=text",
		"mix.json": "mix", "mix.txt": "mix?format=text",
		"pod.json": "pods/default/new", "pod.txt": "pods/default/new?format=text",
	} {
		w := get(t, s, path)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
			continue
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: not JSON: %s", path, w.Body)
		}
		golden.Check(t, filepath.Join("testdata", file), w.Body.String())
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := world(t)
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"nodes/unknown":                      {404, `nothing is known of node "unknown"`},
		"nodes/a?format=xml":                 {400, "format is json or text"},
		"pods/default/other":                 {404, `no decision on pod "other" in namespace "default"`},
		"pods/kube-system/new":               {404, `in namespace "kube-system"`},
		"pods/default":                       {404, ""},
		"other":                              {404, ""},
		"nodes/" + strings.Repeat("x", 1000): {404, strings.Repeat("x", 253) + `..."`},
	} {
		if w := get(t, s, path); w.Code != want.code || !strings.Contains(w.Body.String(), want.says) {
			t.Errorf("%.40s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodPut, Prefix+"nodes", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", w.Code)
	}
}

func TestOutcomesAreSeenWithTheDecision(t *testing.T) {
	s := world(t)
	predicted := s.Book.Snapshot().Node("a").Entries[1].Holdings
	for _, c := range []struct {
		result state.Result
		err    place.RefusalReason
		stage  document.Stage
		why    string
	}{
		{state.Confirmed, "", "confirmed", ""},
		{state.Wrong, "", "wrong", ""},
		{state.Rejected, place.SMTAlignmentError, "rejected", "node a: SMTAlignmentError"},
	} {
		s.Decisions.Outcome(
			state.Outcome{Node: "a", Pod: podID("new"), Result: c.result, Predicted: predicted, Seen: predicted, Error: c.err},
		)
		p, err := s.pod("default", "new")
		if err != nil {
			t.Fatal(err)
		}
		if a := p.Decisions[0]; a.Stage != c.stage || a.Why != c.why || len(a.Seen) != 1 ||
			string(a.Seen[0].CPUs) != predicted[0].CPUs.String() {
			t.Errorf("%s: %+v", c.result, a)
		}
		if p.Decisions[1].Stage != document.Judged {
			t.Errorf("%s: the attempt before is %s", c.result, p.Decisions[1].Stage)
		}
	}
	s.Decisions.Outcome(state.Outcome{Pod: podID("another scheduler's")})
}

func TestStages(t *testing.T) {
	d := NewDecisions(time.Now).Begin(podID("p"))
	stage := func(want document.Stage) {
		t.Helper()
		if d.stage != want {
			t.Errorf("stage %s, want %s", d.stage, want)
		}
	}
	d.Release()
	d.Bound()
	stage(document.Judged)
	d.Reserve("a", nil)
	stage(document.Reserved)
	d.Turn(nil)
	stage(document.Turned)
	d.Bound()
	stage(document.Bound)
	d.Release() // too late
	stage(document.Bound)
	d.Reserve("b", nil)
	d.Release()
	stage(document.Released)
}

func TestQualities(t *testing.T) {
	s := world(t)
	if got := fmt.Sprint(s.Qualities()); got != "map[coarse:0 exact:1 none:2]" {
		t.Error(got)
	}
	s.Names = nil
	if got := fmt.Sprint(s.Qualities()); got != "map[coarse:0 exact:1 none:0]" {
		t.Error(got)
	}
}

func TestOldestPrediction(t *testing.T) {
	s := world(t)
	var w Waiting
	if got := w.Oldest(s); got != 30*time.Second {
		t.Errorf("oldest prediction is %s old, want 30s", got)
	}
	s.Book.Assume("a", podID("foreign"), cpus(1))
	later := noon.Add(2 * time.Minute)
	s.Now = func() time.Time { return later }
	if got := w.Oldest(s); got != time.Minute {
		t.Errorf("oldest prediction is %s old, want 1m", got)
	}
	s.Book.Unreserve("uid-new")
	if got := w.Oldest(s); got != 0 {
		t.Errorf("of the foreign pod, which was noticed now: %s", got)
	}
	later = later.Add(time.Second)
	if got := w.Oldest(s); got != time.Second {
		t.Errorf("of the foreign pod, a second later: %s", got)
	}
	s.Book.Release("uid-foreign")
	if got := w.Oldest(s); got != 0 || len(w.since) > 0 {
		t.Errorf("nothing is on its way, and the oldest is %s old", got)
	}
}

// The newest decisions are kept, in bounded memory, however many pods and nodes there are.
func TestRecordedDecisionsAreBounded(t *testing.T) {
	all := NewDecisions(time.Now)
	for i := range MaxDecisions + 10 {
		all.Begin(podID(fmt.Sprint(i)))
	}
	list := all.newest()
	if len(list) != MaxDecisions || list[0].pod.Name != fmt.Sprint(MaxDecisions+9) ||
		list[MaxDecisions-1].pod.Name != "10" {
		t.Errorf("%d decisions from %s to %s", len(list), list[0].pod.Name, list[len(list)-1].pod.Name)
	}
	s := Source{Book: ledger.New(), Decisions: all, Now: time.Now}
	for range 2 * maxShown {
		all.Begin(podID("p"))
	}
	if p, err := s.pod("default", "p"); err != nil || len(p.Decisions) != maxShown {
		t.Errorf("%+v, %v", p, err)
	}
}

// Many goroutines record answers of nodes during a request; every recorded node is complete.
func TestAnswersAreRecordedConcurrently(t *testing.T) {
	for _, nodes := range []int{MaxNodes - 1, MaxNodes, MaxNodes + 1, 10 * MaxNodes} {
		all := NewDecisions(time.Now)
		d := all.Begin(podID("p"))
		s := Source{Book: ledger.New(), Decisions: all, Now: time.Now}
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				for i := g; i < nodes; i += 8 {
					name := fmt.Sprint(i)
					if i%2 == 0 {
						d.Fits(name)
						d.Cost(name, int64(i))
					} else {
						d.Refused(name, []place.Reason{{Code: place.Short, Resource: name}}, nil)
					}
				}
			})
		}
		group.Go(func() { _, _ = s.pod("default", "p") })
		group.Wait()
		p, err := s.pod("default", "p")
		if err != nil {
			t.Fatal(err)
		}
		a := p.Decisions[0]
		if len(a.Nodes) != min(nodes, MaxNodes) || a.MoreNodes != (nodes > MaxNodes) {
			t.Errorf("of %d nodes %d are remembered, more: %v", nodes, len(a.Nodes), a.MoreNodes)
		}
		for _, n := range a.Nodes {
			whole := n.Fits && len(n.Reasons) == 0 && (n.Cost == nil || fmt.Sprint(*n.Cost) == n.Node) ||
				!n.Fits && n.Reasons[0].Resource == n.Node
			if !whole {
				t.Errorf("%+v", n)
			}
		}
		if !slices.IsSortedFunc(a.Nodes, func(a, b document.Verdict) int { return strings.Compare(a.Node, b.Node) }) {
			t.Error("nodes are not in order")
		}
	}
}

// A node that is judged twice, with nominated pods and without them, does not fit if one of the judgements refuses it.
func TestTheRefusalOfANodeCounts(t *testing.T) {
	all := NewDecisions(time.Now)
	d := all.Begin(podID("p"))
	d.Fits("a")
	d.Refused("a", []place.Reason{{Code: place.Short}}, nil)
	p, err := Source{Book: ledger.New(), Decisions: all, Now: time.Now}.pod("default", "p")
	if err != nil || len(p.Decisions[0].Nodes) != 1 || p.Decisions[0].Nodes[0].Fits {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestNothingIsRememberedOfNothing(t *testing.T) {
	var all *Decisions
	d := all.Begin(podID("p"))
	d.Fits("a")
	d.Cost("a", 1)
	d.Refused("a", nil, status("x"))
	d.Refuse("x")
	d.Reserve("a", nil)
	d.Turn(nil)
	d.Bound()
	d.Release()
	all.Outcome(state.Outcome{})
	if d != nil || len(all.Reserved()) > 0 {
		t.Error("something is remembered")
	}
}

// What keeps pods off a node temporarily is shown with the node.
func TestANodeShowsWhatKeepsPodsAway(t *testing.T) {
	s := world(t)
	s.Book.Assume("a", podID("refused"), cpus(1))
	s.Book.Refuse("uid-refused", place.TopologyAffinityError)
	s.Book.Recover("a", podID("lost"), cpus(2))
	s.Book.Admitted("uid-lost")
	s.Book.Overdue("uid-lost")
	body := get(t, s, "nodes/a?format=text").Body.String()
	for _, want := range []string{"unsettled: what", "silent: a report is overdue",
		"refused a pod that should have fitted (TopologyAffinityError)"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not said in:\n%s", want, body)
		}
	}
	if body := get(t, s, "nodes/a").Body.String(); !strings.Contains(body, `"unsettled": true`) ||
		!strings.Contains(body, `"silent": true`) {
		t.Errorf("answer %s", body)
	}
}

// The list of paths is complete, and each path on it is served.
func TestIndexListsWhatIsServed(t *testing.T) {
	s := world(t)
	list := get(t, s, "").Body.String()
	names := strings.NewReplacer("pods/NAMESPACE/NAME", "pods/default/new", "nodes/NAME", "nodes/a")
	listed := 0
	for line := range strings.Lines(list) {
		path, ok := strings.CutPrefix(line, Prefix)
		if !ok {
			continue
		}
		listed++
		path, _, _ = strings.Cut(names.Replace(path), " ")
		if w := get(t, s, path); w.Code != http.StatusOK {
			t.Errorf("%s is listed, and answered %d", path, w.Code)
		}
	}
	if listed != 7 || !strings.Contains(list, "takes part in no election") {
		t.Errorf("%d paths in:\n%s", listed, list)
	}
}

// A standby marks every answer, and names the leader.
func TestAStandbyNamesTheLeader(t *testing.T) {
	s := world(t)
	s.Election = func() document.Election {
		return document.Election{Role: document.Standby, Identity: "tenon-b_2", Leader: "tenon-a_1", Renewed: noon}
	}
	const says = `this scheduler is a standby and schedules nothing; the leader is "tenon-a_1"`
	for path, code := range map[string]int{"": 200, "leader?format=text": 200, "nodes?format=text": 200,
		"pods/default/other": 404} {
		w := get(t, s, path)
		if w.Code != code || strings.Count(w.Body.String(), says) != 1 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if got := w.Header().Get("Tenon-Scheduler"); got != "standby tenon-a_1" {
			t.Errorf("%s: header %q", path, got)
		}
	}
	if w := get(t, s, "pods/default/other"); !strings.Contains(w.Body.String(), "port-forward pod/tenon-a 10261") {
		t.Errorf("no way to the leader in %s", w.Body)
	}
	golden.Check(t, filepath.Join("testdata", "leader.json"), get(t, s, "leader").Body.String())
	golden.Check(t, filepath.Join("testdata", "leader.txt"), get(t, s, "leader?format=text").Body.String())
}
