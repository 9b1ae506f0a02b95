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

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// strict is a layout under strict-cpu-reservation with CPU 0 reserved.
func strict(t *testing.T, node string, version int, entries ...ledger.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	return kubetest.Strict(t, node, version, entries...)
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

// A node that is filled so that its kubelet does not survive a restart is counted.
func TestRestartHazardsAreCounted(t *testing.T) {
	o := newOutlets(t)
	o.s.Feed.Layout(strict(t, "n", 1, holding(bind(cpus("p", 31), "n"), "1-31")))
	g := newGauges(inspect.Source{Book: o.s.Book, Now: time.Now})
	if got := gathered(t, g); !strings.Contains(got, `tenon_restart_hazards{hazard="no-shared-cpu",node="n"} 1`) {
		t.Errorf("metrics: %s", got)
	}
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
