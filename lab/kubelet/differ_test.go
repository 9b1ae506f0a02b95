package kubelet_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
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

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
)

// The differential test: the kubelet's own managers and place see the same machine, rules and steps, and
// must agree after each. A difference is made small and printed as a scenario file.

var (
	admissions = flag.Int("diff.n", 10000, "admissions to judge in the differential test")
	firstSeed  = flag.Uint64("diff.seed", 1, "first seed of the differential test")
	workers    = flag.Int("diff.workers", runtime.GOMAXPROCS(0), "machines that are judged at once")
)

const (
	perMachine  = 16   // admissions on one machine
	shrinkTries = 4000 // scenarios to judge for a smaller one
)

func TestPlaceAgreesWithTheManagers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	run := &differ{dir: judgeDir(t), predict: place.Place, next: *firstSeed, began: time.Now()}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(run.work)
	}
	wg.Wait()
	t.Logf("seeds %d to %d\n%s", *firstSeed, run.next-1, run.total.String())
	if run.failure != nil {
		t.Error(run.failure.report(run.dir))
	}
}

// judgeDir prepares the process for managers, and returns a directory for their files: on a file system
// in memory where there is one, which makes their checkpoints cheap.
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
	s    *scenario.Scenario
	err  error
}

// seed hands out the next seed, as long as there is something to do.
func (d *differ) seed() (uint64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil || d.total.steps[scenario.Admit] >= *admissions {
		return 0, false
	}
	d.next++
	return d.next - 1, true
}

func (d *differ) work() {
	for {
		seed, ok := d.seed()
		if !ok {
			return
		}
		var count tally
		s, err := try(d.dir, seed, d.predict, &count)
		d.mu.Lock()
		d.total.add(&count)
		if err != nil && (d.failure == nil || seed < d.failure.seed) {
			d.failure = &failure{seed, s, err}
		}
		if since := time.Since(d.began); since > d.spoke+10*time.Second {
			d.spoke = since
			fmt.Fprintf(os.Stderr, "%s: seed %d, %s\n", since.Round(time.Second), seed, d.total.line(since))
		}
		d.mu.Unlock()
	}
}

// try draws and judges the machine of a seed. The scenario ends with the step that failed.
func try(dir string, seed uint64, predict oracle, count *tally) (*scenario.Scenario, error) {
	d, err := draw(seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t, err := newTrial(ctx, filepath.Join(dir, fmt.Sprint(seed)), d.s, predict, count)
	if err != nil {
		return d.s, err
	}
	defer t.end()
	count.machine(d)
	if want, got := *d.s, *d.s; true {
		if got.Rules = t.node.Rules; want.Text() != got.Text() {
			return d.s, differs(aboutTranslation, "the configuration reads as\n%s", got.Text())
		}
	}
	for d.names < perMachine {
		st := d.next(t.node)
		d.s.Steps = append(d.s.Steps, st)
		if err := t.step(st); errors.Is(err, errOver) {
			return nil, nil
		} else if err != nil {
			return d.s, err
		}
		d.refused = st.Do == scenario.Admit && !t.node.Has(st.Name)
	}
	return nil, nil
}

// report makes a failing scenario small, and says how to see it again.
func (f *failure) report(dir string) string {
	out := fmt.Sprintf("seed %d: %v\n", f.seed, f.err)
	var d difference
	if !errors.As(f.err, &d) { // there is nothing to make smaller
		return out + f.s.Text()
	}
	small := shrink(dir, f.s, d.about, place.Place)
	out += fmt.Sprintf("smaller: %v\n", replay(dir, small, place.Place, &tally{}))
	text, err := small.Played()
	if err != nil {
		return out + err.Error()
	}
	return out + "as a scenario, with what place says:\n" + text +
		fmt.Sprintf("again: go test ./lab/kubelet -run TestPlaceAgrees -diff.seed %d -diff.n 1\n", f.seed)
}

// shrink makes a scenario small on which a prediction differs from the managers about the same.
func shrink(dir string, s *scenario.Scenario, about string, predict oracle) *scenario.Scenario {
	return scenario.Shrink(s, func(c *scenario.Scenario) bool {
		if !acceptable(c) {
			return false
		}
		for range 3 { // what the kubelet draws may hide a difference
			var d difference
			if errors.As(replay(dir, c, predict, &tally{}), &d) {
				return d.about == about
			}
		}
		return false
	}, shrinkTries)
}

// acceptable reports whether the API server could take the pods of a scenario: Guaranteed pods have CPU
// and memory.
func acceptable(s *scenario.Scenario) bool {
	for _, st := range s.Steps {
		if st.Do != scenario.Admit {
			continue
		}
		pod := podOf(st)
		pod.Status = v1.PodStatus{}
		if p, err := kube.Pod(pod); err != nil || p.QoS != st.Pod.QoS || len(pod.Spec.Containers) == 0 {
			return false
		}
	}
	return true
}

// replay judges a whole scenario; what it cannot start is an error that is not a difference.
func replay(dir string, s *scenario.Scenario, predict oracle, count *tally) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	own, err := os.MkdirTemp(dir, "r")
	if err != nil {
		return err
	}
	t, err := newTrial(ctx, own, s, predict, count)
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

// tally counts what a run has seen, so that a run that tries nothing shows.
type tally struct {
	steps            [scenario.Free + 1]int
	machines         int
	faults           map[string]int
	admitted, chance int
	exact            int // admitted, and every device id was predicted
	refused          map[string]int
	classes          map[string]int
	policies, scopes map[string]int
}

func (c *tally) machine(d *drawing) {
	c.machines++
	c.classes = counted(c.classes, d.class(), 1)
	c.policies = counted(c.policies, d.s.Rules.Topology.Policy.String(), 1)
	c.scopes = counted(c.scopes, d.s.Rules.Topology.Scope.String(), 1)
}

func counted(m map[string]int, name string, n int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[name] += n
	return m
}

func (c *tally) admission(v place.Verdict, reason string) {
	switch {
	case v.Chance:
		c.chance++
	case reason != "":
		c.refused = counted(c.refused, reason, 1)
	default:
		c.admitted++
		if v.Exact() {
			c.exact++
		}
	}
}

func (c *tally) add(o *tally) {
	for i, n := range o.steps {
		c.steps[i] += n
	}
	c.machines += o.machines
	c.admitted += o.admitted
	c.chance += o.chance
	c.exact += o.exact
	for _, m := range []struct {
		to   *map[string]int
		from map[string]int
	}{{&c.refused, o.refused}, {&c.faults, o.faults}, {&c.classes, o.classes}, {&c.policies, o.policies}, {&c.scopes, o.scopes}} {
		for name, n := range m.from {
			*m.to = counted(*m.to, name, n)
		}
	}
}

func (c *tally) refusals() (n int) {
	for _, k := range c.refused {
		n += k
	}
	return n
}

func (c *tally) line(since time.Duration) string {
	all := c.steps[scenario.Admit]
	return fmt.Sprintf("%d machines, %d admissions (%.0f/s), %d %% refused", c.machines, all,
		float64(all)/since.Seconds(), 100*c.refusals()/max(1, all))
}

func (c *tally) String() string {
	var b strings.Builder
	all := max(1, c.steps[scenario.Admit])
	fmt.Fprintf(&b, "%d machines, %d admissions: %d admitted (%d of them exact to the device), %d refused (%d %%),\n"+
		"  %d judged only up to where the kubelet draws numas at random\n",
		c.machines, c.steps[scenario.Admit], c.admitted, c.exact, c.refusals(), 100*c.refusals()/all, c.chance)
	fmt.Fprintf(&b, "  other steps: %d starts, %d ends, %d times devices failed, %d times they came back\n",
		c.steps[scenario.Start], c.steps[scenario.Remove], c.steps[scenario.Unhealthy], c.steps[scenario.Healthy])
	for _, row := range []struct {
		name string
		m    map[string]int
	}{{"refused", c.refused}, {"trials that ended early", c.faults}, {"machines", c.classes}, {"policies", c.policies}, {"scopes", c.scopes}} {
		var parts []string
		for name, n := range row.m {
			parts = append(parts, fmt.Sprintf("%s: %d", name, n))
		}
		slices.Sort(parts)
		fmt.Fprintf(&b, "  %s: %s\n", row.name, strings.Join(parts, "; "))
	}
	return b.String()
}
