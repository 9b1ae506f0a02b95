package whole

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ofBindings returns a round whose pods were bound at these seconds after its first binding.
func ofBindings(contender string, cut float64, at ...float64) Round {
	first := time.Unix(1e9, 0)
	after := func(s float64) time.Time { return first.Add(time.Duration(s * float64(time.Second))) }
	r := Round{Contender: contender, Nodes: 1000, Pods: 5000, Peak: 300 << 20}
	var bindings []binding
	var end ends
	for i, s := range at {
		bindings = append(bindings, binding{node: fmt.Sprint(i), at: after(s)})
		end.settled, end.published = after(s+1), after(s+10)
	}
	if len(at) > 0 {
		r.Start = 2 * time.Second
	}
	if cut > 0 {
		end.cut, r.Cut = after(cut), time.Duration(cut*float64(time.Second))+r.Start
	}
	r.measure(bindings, end)
	return r
}

// evenly returns when n pods are bound in so many seconds.
func evenly(n int, seconds float64) (at []float64) {
	for i := range n {
		at = append(at, seconds*float64(i)/float64(n-1))
	}
	return at
}

// A round that was cut has the rate over its whole duration, however early its pods were bound.
func TestRoundThatWasCutHasItsRate(t *testing.T) {
	r := ofBindings("slow", 98, 0, 0.1, 0.2)
	if r.Bound != 3 || r.Took != 98*time.Second || r.Rate < 0.0204 || r.Rate > 0.0205 || r.Ran < 0.0306 ||
		r.Ran > 0.0307 || r.Told != r.Ran || r.Slope != 0 {
		t.Errorf("measured: %+v", r)
	}
	r = ofBindings("quick", 0, evenly(5000, 50)...)
	if r.Took != 50*time.Second || r.Rate < 99.9 || r.Rate > 100 || r.Ran < 98 || r.Ran > 98.1 || r.Told < 83.3 ||
		r.Told > 83.4 || r.Slope < 99.9 || r.Slope > 100.1 {
		t.Errorf("measured: %+v", r)
	}
}

// Rounds with few pods or none omit figures, and have no ratios.
func TestReportOfRoundsThatWereCut(t *testing.T) {
	quick := ofBindings("kube-scheduler 1.36", 0, evenly(5000, 10)...)
	quick.CPU = 2500 * time.Millisecond
	slow := ofBindings("NodeResourceTopologyMatch", 98, evenly(491, 98)...)
	slow.CPU = 50 * time.Second
	one, none := ofBindings("one", 98, 0), ofBindings("none", 100)
	text := Report([]Round{quick, slow, one, none, slow, ofBindings("NodeResourceTopologyMatch", 98, 0)})
	for _, want := range []string{
		"| kube-scheduler 1.36 | 5000 | 500 | 500 | 455 | 250 | 2.50 | 300 MiB | 2.0 s | 0 |\n",
		"| NodeResourceTopologyMatch | 491 (cut) | 5 | 5 | 5 | 4.5 | 50.00 | 300 MiB | 2.0 s | 0 |\n",
		"| one | 1 (cut) | - | - | - | - | - | 300 MiB | 2.0 s | 0 |\n",
		"| none | 0 (cut) | - | - | - | - | - | 300 MiB | - | 0 |\n",
		"| NodeResourceTopologyMatch | 0.01 | 0.01 | 0.011 | 0.018 | 20.00 | 1.00 |\n",
		"| one | - | - | - | - | - | 1.00 |\n",
		"- NodeResourceTopologyMatch: cut after 100 s, with 491 of 5000 pods bound\n",
		"- none: cut after 100 s, with 0 of 5000 pods bound\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if len(strings.TrimSpace(line)) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, r := range []Round{quick, slow, one, none} {
		if line := r.line(); strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Error(line)
		}
	}
}
