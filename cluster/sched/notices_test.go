package sched

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// strict is a layout under strict-cpu-reservation with CPU 0 reserved.
func strict(t *testing.T, node string, version int, entries ...ledger.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	m, err := topo.ParseMachine(two)
	if err != nil {
		t.Fatal(err)
	}
	l := v1alpha1.FromCore(
		node,
		m,
		place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort}, Memory: place.MemoryRules{Static: true},
			CPU: place.CPURules{Static: true, StrictReservation: true, Reserved: idset.Of[idset.CPU](0)}},
		entries,
		nil,
	)
	l.ResourceVersion = string(rune('0' + version))
	return l
}

func inexact(l *v1alpha1.NodeLayout, codes ...ledger.InexactCode) *v1alpha1.NodeLayout {
	l.Inexact = nil
	for _, c := range codes {
		l.Inexact = append(
			l.Inexact,
			v1alpha1.FromInexact([]ledger.Inexact{{Code: c, Message: "because of " + string(c)}})...)
	}
	return l
}

func (o *outlets) told(want ...string) {
	o.t.Helper()
	for _, w := range want {
		select {
		case e := <-o.recorder.Events:
			if !strings.Contains(e, w) {
				o.t.Errorf("event %q, want %q", e, w)
			}
		default:
			o.t.Errorf("no event that says %q", w)
		}
	}
	if len(o.recorder.Events) > 0 {
		o.t.Errorf("one event more: %s", <-o.recorder.Events)
	}
}

// An administrator sees as an event, once, that predictions for a node have become inexact, and that they are exact
// again.
func TestNodesThatBecomeInexactAreToldOfOnce(t *testing.T) {
	o := newOutlets(t)
	say := func(version int, codes ...ledger.InexactCode) {
		l := layout(t, "n", two, place.SingleNUMA, version)
		o.s.Feed.Layout(inexact(l, codes...))
	}
	say(1)
	o.told()
	say(2, ledger.RulesFromFiles)
	o.told(
		"Warning PredictionsInexact predictions for the node may differ from what its kubelet does: rules-from-files: because of rules-from-files",
	)
	say(3, ledger.RulesFromFiles)
	o.told()
	say(4, ledger.RulesFromFiles, ledger.UnhealthyDevices)
	o.told("rules-from-files: because of rules-from-files; unhealthy-devices: ")
	say(5)
	o.told("Normal PredictionsExact")
	say(6)
	o.told()
}

// A node may be filled so that its kubelet does not survive a restart. It runs well until then, so an event says it.
func TestNodesWhoseKubeletWouldNotRestartAreNamed(t *testing.T) {
	o := newOutlets(t)
	full := bind(cpus("p", 31), "n")
	o.s.Feed.Layout(strict(t, "n", 1, holding(full, "1-30")))
	o.told()
	o.s.Feed.Layout(strict(t, "n", 2, holding(full, "1-31")))
	o.told(
		"Warning KubeletRestartHazard kubelet will not restart: containers hold every CPU that is not reserved; free one CPU",
	)
	g := newGauges(inspect.Source{Book: o.s.Book, Now: time.Now})
	if got := gathered(t, g); !strings.Contains(got, `tenon_restart_hazards{hazard="no-shared-cpu",node="n"} 1`) {
		t.Errorf("metrics: %s", got)
	}
	o.s.Feed.Layout(strict(t, "n", 3, holding(full, "1-31")))
	o.told()
	o.s.Feed.Layout(strict(t, "n", 4))
	o.told("Normal KubeletRestartSafe")
}

// gathered returns what gauges say, one line each.
func gathered(t *testing.T, g *gauges) string {
	t.Helper()
	r := metrics.NewKubeRegistry()
	r.CustomMustRegister(g)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			out.WriteString(
				f.GetName() + "{" + strings.Join(
					labels,
					",",
				) + "} " + strconv.FormatFloat(
					m.GetGauge().GetValue(),
					'g',
					-1,
					64,
				) + "\n",
			)
		}
	}
	return out.String()
}

// A node may send codes that nobody knows; the metric's labels stay few.
func TestNodesAreCountedByKnownCodes(t *testing.T) {
	o := newOutlets(t)
	o.s.Feed.Layout(
		inexact(
			layout(t, "a", two, place.SingleNUMA, 1),
			ledger.RulesFromFiles,
			ledger.RulesFromFiles,
			"made-up",
			"made-up-too",
		),
	)
	o.s.Feed.Layout(inexact(layout(t, "b", two, place.SingleNUMA, 2), ledger.RulesFromFiles))
	got := gathered(
		t,
		newGauges(inspect.Source{Book: o.s.Book, Now: time.Now, Healthy: func() error { return errors.New("not yet") }}),
	)
	for _, want := range []string{`tenon_nodes_inexact{code="rules-from-files"} 2`, `tenon_nodes_inexact{code="other"} 1`,
		`tenon_nodes_inexact{code="release-order"} 0`, `tenon_feed_running{} 0`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "made-up") {
		t.Errorf("metrics have what a node made up: %s", got)
	}
}

func TestTheConditionExactFollowsTheLayout(t *testing.T) {
	l := layout(t, "n", two, place.SingleNUMA, 1)
	judge(l, core(t, l))
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact); c != nil {
		t.Errorf("a layout that never was inexact has condition %+v", c)
	}
	check := func(want metav1.ConditionStatus, message string) {
		t.Helper()
		c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact)
		if c == nil || c.Status != want || c.Message != message {
			t.Errorf("condition %+v, want %s: %s", c, want, message)
		}
		if stale(l, &ledger.Node{Machine: known(t, l).Machine, Rules: known(t, l).Rules, Inexact: core(t, l)}) {
			t.Error("the condition that was written would be written again")
		}
		if judge(l, core(t, l)) {
			t.Error("judging once more changes something")
		}
	}
	inexact(l, ledger.UnhealthyDevices)
	if !judge(l, core(t, l)) {
		t.Error("nothing is written")
	}
	check(metav1.ConditionFalse, "unhealthy-devices: because of unhealthy-devices")
	inexact(l)
	judge(l, core(t, l))
	check(metav1.ConditionTrue, "")
	l.Machine.NUMAs = nil
	judge(l, nil)
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact); c != nil {
		t.Errorf("a layout that is refused has condition %+v", c)
	}
}

// core returns why predictions may differ as a layout says it.
func core(t *testing.T, l *v1alpha1.NodeLayout) []ledger.Inexact { return known(t, l).Inexact }

// known returns the values that a layout describes.
func known(t *testing.T, l *v1alpha1.NodeLayout) v1alpha1.Layout {
	t.Helper()
	c, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A layout of a kubelet with default policies has a condition that names the settings, until they are set.
func TestTheConditionAlignedNamesTheSettings(t *testing.T) {
	l := layout(t, "n", two, place.SingleNUMA, 1)
	node := func() *ledger.Node {
		return &ledger.Node{Machine: known(t, l).Machine, Rules: known(t, l).Rules}
	}
	aligned := func() *metav1.Condition {
		return meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAligned)
	}
	if judge(l, nil); aligned() != nil || stale(l, node()) {
		t.Errorf("a layout that leaves nothing unaligned has condition %+v", aligned())
	}
	l.Rules.TopologyManagerPolicy = "none"
	if !stale(l, node()) || !judge(l, nil) || stale(l, node()) {
		t.Error("the condition is not written once")
	}
	if c := aligned(); c == nil || c.Status != metav1.ConditionFalse ||
		!strings.Contains(c.Message, "set topologyManagerPolicy: single-numa-node") {
		t.Errorf("condition %+v", c)
	}
	l.Rules.TopologyManagerPolicy = "restricted"
	if !stale(l, node()) || !judge(l, nil) || aligned().Status != metav1.ConditionTrue || aligned().Message != "" {
		t.Errorf("the policy is set: condition %+v", aligned())
	}
}

func TestInexactNodesMayBeRefused(t *testing.T) {
	for args, refused := range map[string]bool{"{}": false, `{"inexactNodes":"Allow"}`: false, `{"inexactNodes":"Refuse"}`: true} {
		p := newPlugin(t, args)
		p.Feed.Layout(inexact(layout(t, "n", two, place.SingleNUMA, 1), ledger.UnknownKubeletVersion))
		p.Feed.Layout(layout(t, "exact", two, place.SingleNUMA, 2))
		cs := cycle(t, p, cpus("p", 4))
		fits(t, filter(t, p, cs, "exact"))
		status := filter(t, p, cs, "n")
		if status.IsSuccess() == refused {
			t.Errorf("%s: status %v", args, status)
		}
		const want = "predictions for the node are inexact (unknown-kubelet-version): mend what its NodeLayout lists as inexact, or set inexactNodes: Allow"
		if refused && status.Message() != want {
			t.Errorf("status %v, want %s", status, want)
		}
		s, _ := read(cs)
		if p.accepts(s, p.Book.Snapshot().Node("n")) == refused {
			t.Errorf("%s: a waiting pod would be woken wrongly", args)
		}
	}
}

// The scheduler may keep the one CPU without which a kubelet under strict-cpu-reservation does not start again.
func TestOneSharedCPUMayBeKept(t *testing.T) {
	for args, keeps := range map[string]bool{"{}": false, `{"keepRestartable":true}`: true} {
		p := newPlugin(t, args)
		p.Feed.Layout(strict(t, "n", 1))
		fits(t, filter(t, p, cycle(t, p, cpus("p", 30)), "n"))
		status := filter(t, p, cycle(t, p, cpus("p", 31)), "n")
		if status.IsSuccess() == keeps {
			t.Errorf("%s: status %v", args, status)
		}
		if keeps && !strings.Contains(status.Message(), "keepRestartable: false") {
			t.Errorf("status %v names no remedy", status)
		}
		other := layout(t, "m", two, place.BestEffort, 2)
		p.Feed.Layout(other)
		fits(t, filter(t, p, cycle(t, p, cpus("p", 32)), "m"))
	}
}

func TestHealthNamesWhatIsMissing(t *testing.T) {
	logger, _ := logged(t, 0)
	s := newSources(logger, Options{})
	check := func(want string) {
		t.Helper()
		err := s.healthy()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("health: %v, want %q", err, want)
		}
	}
	check("no profile enables the plugin: layouts and pods are not followed")
	pluginOf(t, s.Shared, refuse)
	in := false
	s.synced = map[string]cache.InformerSynced{"pods": func() bool { return in }, "layouts": func() bool { return in }}
	check("first list is not in: layouts, pods")
	in = true
	check("what was read at the start is not in the ledger yet")
	close(s.ready)
	check("")
}

// Every code that the ledger knows is counted by its own name.
func TestAllCodesOfTheLedgerAreKnown(t *testing.T) {
	text, err := os.ReadFile("../../core/ledger/inexact.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`InexactCode = "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(declared) < 7 {
		t.Fatalf("%d codes are declared", len(declared))
	}
	for _, d := range declared {
		if !slices.Contains(knownCodes(), ledger.InexactCode(d[1])) {
			t.Errorf("code %s is counted as %q", d[1], otherCode)
		}
	}
}
