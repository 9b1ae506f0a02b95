package kubelet_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
)

// The differential test: the kubelet's own managers and place get the same machine, rules and steps, and must agree
// after each. A difference is reduced and printed as a scenario file.

var (
	admissions = flag.Int("diff.n", 60000, "admissions to judge in the differential test")
	firstSeed  = flag.Uint64("diff.seed", 1, "first seed of the differential test")
	workers    = flag.Int("diff.workers", runtime.GOMAXPROCS(0), "machines that are judged at once")
)

const (
	perMachine  = 16   // admissions on one machine
	shrinkTries = 4000 // scenarios to judge while reducing one
)

func TestPlaceAgreesWithTheManagers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	releases, admit := judging()
	for i, release := range releases {
		t.Run(release, func(t *testing.T) { differBy(t, release, admit[i]) })
	}
}

func differBy(t *testing.T, release string, admit int) {
	run := &differ{dir: judgeDir(t), predict: place.Place, most: admit, next: *firstSeed, began: time.Now()}
	var wg sync.WaitGroup
	for range *workers {
		j := newJudge(t, release)
		wg.Go(func() { run.work(j) })
	}
	wg.Wait()
	t.Logf("%s, seeds %d to %d\n%s", release, *firstSeed, run.next-1, run.total.String())
	if run.failure != nil {
		t.Error(run.failure.report(newJudge(t, release), run.dir))
	}
}

// judgeDir prepares the process for managers, and returns a directory for their files: on a memory file system if there
// is one, which makes their checkpoints cheap.
func judgeDir(t testing.TB) string {
	t.Helper()
	klog.SetLogger(logr.Discard())
	if err := lab.SetFeatureGates(&configv1beta1.KubeletConfiguration{FeatureGates: alphaGates()}); err != nil {
		t.Fatal(err)
	}
	memory := "/dev/shm"
	if st, err := os.Stat(memory); err != nil || !st.IsDir() {
		memory = ""
	}
	dir, err := os.MkdirTemp(memory, "td")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// differ is a run over many seeds.
type differ struct {
	dir     string
	predict oracle
	most    int // admissions
	began   time.Time

	mu      sync.Mutex
	next    uint64
	total   tally
	spoke   time.Duration
	failure *failure
}

// failure is a seed on which the two sides differ.
type failure struct {
	seed uint64
	d    *drawing
	err  error
}

// seed returns the next seed; ok is false when the run is over.
func (d *differ) seed() (uint64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil || d.total.steps[scenario.Admit] >= d.most {
		return 0, false
	}
	d.next++
	return d.next - 1, true
}

func (d *differ) work(j judge) {
	for {
		seed, ok := d.seed()
		if !ok {
			return
		}
		var count tally
		drawn, err := try(j, d.dir, seed, d.predict, &count)
		d.mu.Lock()
		d.total.add(&count)
		if err != nil && (d.failure == nil || seed < d.failure.seed) {
			d.failure = &failure{seed, drawn, err}
		}
		if since := time.Since(d.began); since > d.spoke+10*time.Second {
			d.spoke = since
			fmt.Fprintf(os.Stderr, "%s: seed %d, %s\n", since.Round(time.Second), seed, d.total.line(since))
		}
		d.mu.Unlock()
	}
}

// try draws and judges the machine of a seed. The scenario ends with the step that failed.
func try(j judge, dir string, seed uint64, predict oracle, count *tally) (*drawing, error) {
	d, err := draw(seed)
	if err != nil {
		return nil, err
	}
	if err := d.unusualLists(seed, j); err != nil {
		return nil, err
	}
	d.managers = j.managers()
	if err := asOf(j, d.s); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t, err := newTrial(ctx, j, filepath.Join(dir, fmt.Sprint(seed)), d.s, d.extras, predict, count)
	if err != nil {
		return d, err
	}
	defer t.end()
	count.machine(d)
	if want, got := *d.s, *d.s; true {
		if got.Rules = t.node.Rules; want.Text() != got.Text() {
			return d, differs(aboutTranslation, "the configuration reads as\n%s", got.Text())
		}
	}
	for d.names < perMachine {
		st := d.next(t.node)
		d.s.Steps = append(d.s.Steps, st)
		if err := t.step(st); errors.Is(err, errOver) {
			count.lost += perMachine - d.names
			return nil, nil
		} else if err != nil {
			return d, err
		}
		d.refused = st.Do == scenario.Admit && !t.node.Has(st.Name)
	}
	return nil, nil
}

// nameOf returns what -diff.release calls a judge.
func nameOf(k model) string {
	if k.managers() {
		return k.release().String() + withManagers
	}
	return k.release().String()
}

// report makes a failing scenario small, and prints how to reproduce it.
func (f *failure) report(j judge, dir string) string {
	out := fmt.Sprintf("seed %d: %v\n", f.seed, f.err)
	var d difference
	if !errors.As(f.err, &d) { // there is nothing to reduce
		return out + f.text()
	}
	out += f.text()
	small := shrink(j, dir, f.d.s, f.d.extras, d.about, place.Place)
	out += fmt.Sprintf("smaller: %v\n", replay(j, dir, small, f.d.extras, place.Place, &tally{}))
	text, err := small.Played()
	if err != nil {
		return out + err.Error()
	}
	return out + "as a scenario, with what place says:\n" + text +
		fmt.Sprintf("again: go test ./lab/kubelet -run TestPlaceAgreesWithTheManagers"+
			" -diff.seed %d -diff.n 1 -diff.release %s\n", f.seed, nameOf(j))
}

// text returns the drawn scenario. Its comment has the pods that were written in another way than a scenario can
// express.
func (f *failure) text() string {
	if f.d == nil {
		return ""
	}
	out := f.d.s.Text()
	if last := len(f.d.s.Steps) - 1; last >= 0 {
		if pod := f.d.written[f.d.s.Steps[last].Name]; pod != nil {
			out += fmt.Sprintf("# as it was written: %+v %+v\n", pod.Spec.InitContainers, pod.Spec.Containers)
		}
	}
	return out + fmt.Sprintf("# preferences %v\n", f.d.prefers)
}

// shrink makes a scenario small on which a prediction differs from the managers about the same.
func shrink(j judge, dir string, s *scenario.Scenario, x extras, about string, predict oracle) *scenario.Scenario {
	return scenario.Shrink(s, func(c *scenario.Scenario) bool {
		if !acceptable(c) {
			return false
		}
		for range 3 { // the kubelet's random choices may hide a difference
			var d difference
			if errors.As(replay(j, dir, c, x, predict, &tally{}), &d) {
				return d.about == about
			}
		}
		return false
	}, shrinkTries)
}

// acceptable reports whether the API server could accept the pods of a scenario: Guaranteed pods have CPU and memory.
func acceptable(s *scenario.Scenario) bool {
	for _, st := range s.Steps {
		if st.Do != scenario.Admit {
			continue
		}
		pod := podOf(st)
		pod.Status = v1.PodStatus{}
		if p, err := podapi.ToPlace(pod); err != nil || p.QoS != st.Pod.QoS || len(pod.Spec.Containers) == 0 {
			return false
		}
	}
	return true
}

// replay judges a whole scenario; what it cannot start is an error that is not a difference.
func replay(j judge, dir string, s *scenario.Scenario, x extras, predict oracle, count *tally) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	own, err := os.MkdirTemp(dir, "r")
	if err != nil {
		return err
	}
	t, err := newTrial(ctx, j, own, s, x, predict, count)
	if err != nil {
		return err
	}
	defer t.end()
	for _, st := range s.Steps {
		if err := t.step(st); err != nil {
			return err
		}
	}
	return nil
}

// tally counts what a run has judged, so that a run that judges nothing is noticed.
type tally struct {
	steps            [scenario.Free + 1]int
	machines         int
	faults           map[string]int
	admitted, chance int
	exact            int            // admitted, and every device id was predicted
	chained          int            // the longest chain of predictions
	lost             int            // admissions that were not made, since the trial ended
	skipped          map[string]int // admissions that were not judged, or not completely, by reason
	restarts         map[string]int
	refused          map[string]int
	classes          map[string]int
	policies, scopes map[string]int
}

func (t *tally) machine(d *drawing) {
	t.machines++
	t.classes = counted(t.classes, d.class(), 1)
	t.policies = counted(t.policies, d.s.Rules.Topology.Policy.String(), 1)
	t.scopes = counted(t.scopes, d.s.Rules.Topology.Scope.String(), 1)
}

// skip counts an admission that is not judged.
func (t *tally) skip(why string) { t.skipped = counted(t.skipped, why, 1) }

func counted(m map[string]int, name string, n int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[name] += n
	return m
}

func (t *tally) admission(v place.Verdict, reason string) {
	switch {
	case reason != "":
		t.refused = counted(t.refused, reason, 1)
	default:
		t.admitted++
		if v.Exact() {
			t.exact++
		}
		if v.Chance {
			t.chance++
		}
	}
}

func (t *tally) add(o *tally) {
	for i, n := range o.steps {
		t.steps[i] += n
	}
	t.machines += o.machines
	t.admitted += o.admitted
	t.chance += o.chance
	t.exact += o.exact
	t.lost += o.lost
	t.chained = max(t.chained, o.chained)
	for _, m := range []struct {
		to   *map[string]int
		from map[string]int
	}{{&t.refused, o.refused}, {&t.skipped, o.skipped}, {&t.restarts, o.restarts},
		{&t.faults, o.faults}, {&t.classes, o.classes}, {&t.policies, o.policies}, {&t.scopes, o.scopes}} {
		for name, n := range m.from {
			*m.to = counted(*m.to, name, n)
		}
	}
}

func (t *tally) refusals() (n int) {
	for _, k := range t.refused {
		n += k
	}
	return n
}

func (t *tally) line(since time.Duration) string {
	all := t.steps[scenario.Admit]
	return fmt.Sprintf("%d machines, %d admissions (%.0f/s), %d %% refused", t.machines, all,
		float64(all)/since.Seconds(), 100*t.refusals()/max(1, all))
}

func (t *tally) String() string {
	var b strings.Builder
	all := max(1, t.steps[scenario.Admit])
	fmt.Fprintf(&b, "%d machines, %d admissions: %d admitted (%d of them exact to the device), %d refused (%d %%),\n"+
		"  %d after which it is chance which NUMA nodes have devices left; chains of up to %d predictions\n",
		t.machines, t.steps[scenario.Admit], t.admitted, t.exact, t.refusals(), 100*t.refusals()/all, t.chance, t.chained)
	fmt.Fprintf(&b, "  other steps: %d starts, %d ends, %d times devices failed, %d times they came back\n",
		t.steps[scenario.Start], t.steps[scenario.Remove], t.steps[scenario.Unhealthy], t.steps[scenario.Healthy])
	for _, row := range []struct {
		name string
		m    map[string]int
	}{{"refused", t.refused}, {"restarts", t.restarts},
		{"trials that ended early", t.faults}, {"machines", t.classes},
		{"policies", t.policies}, {"scopes", t.scopes}} {
		var parts []string
		for name, n := range row.m {
			parts = append(parts, fmt.Sprintf("%s: %d", name, n))
		}
		slices.Sort(parts)
		fmt.Fprintf(&b, "  %s: %s\n", row.name, strings.Join(parts, "; "))
	}
	b.WriteString(t.notJudged())
	return b.String()
}

// notJudged is the table of the managers' answers that were not compared.
func (t *tally) notJudged() string {
	var b strings.Builder
	all := float64(max(1, t.steps[scenario.Admit]))
	sum := 0
	fmt.Fprintf(&b, "  %-84s %8s %6s\n", "NOT JUDGED", "number", "%")
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		sum += t.skipped[why]
		fmt.Fprintf(&b, "  %-84s %8d %6.2f\n", why, t.skipped[why], 100*float64(t.skipped[why])/all)
	}
	fmt.Fprintf(&b, "  %-84s %8d %6.2f\n", "all", sum, 100*float64(sum)/all)
	fmt.Fprintf(&b, "  %d more admissions were not made, as the managers contradicted themselves or did not start again\n",
		t.lost)
	return b.String()
}
