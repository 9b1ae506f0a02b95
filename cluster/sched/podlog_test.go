package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/place"
)

// lines of the plugin about one pod, at a verbosity and with an annotation.
func lines(t *testing.T, verbosity int, level string) string {
	t.Helper()
	p := newPlugin(t, refuse)
	logger, text := logged(t, verbosity)
	p.logger = logger
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	p.Feed.Layout(layout(t, "small", "numa 0 cpus 0-1 memory 64Gi", place.SingleNUMA, 2))
	pod := cpus("p", 4)
	if level != "" {
		pod = noted(pod, LogAnnotation, level)
	}
	for range 2 {
		cs := cycle(t, p, pod)
		filter(t, p, cs, "n")
		filter(t, p, cs, "small")
		if _, status := p.Score(t.Context(), cs, pod, nodeInfo("n")); !status.IsSuccess() {
			t.Fatal(status)
		}
		fits(t, p.Reserve(t.Context(), cs, pod, "n"))
		fits(t, p.PreBind(t.Context(), cs, pod, "n"))
		p.Unreserve(t.Context(), cs, pod, "n")
	}
	return text()
}

func TestLinesOfAPod(t *testing.T) {
	said := []struct {
		from int
		line string
	}{{2, "Reserved pod="}, {2, `holdings="c: cpus 0-3`}, {2, "Released pod="}, {4, "Pod read pod="}, {4, "Turn has come pod="},
		{5, "Node does not fit pod="}, {5, `reason="cannot align container`}, {6, "Node fits pod="}, {6, "Node scored pod="}}
	check := func(how, text string, level int) {
		t.Helper()
		for _, s := range said {
			if strings.Contains(text, s.line) != (level >= s.from) {
				t.Errorf("%s: level %d, %s: logged %v", how, level, s.line, !(level >= s.from))
			}
		}
		for line := range strings.Lines(text) {
			if !strings.Contains(line, `pod="default/p"`) {
				t.Errorf("%s: a line without the pod: %s", how, line)
			}
		}
	}
	for level, text := range map[int]string{0: "0", 2: "2", 4: "4", 5: "5", 6: "6", 10: "10"} {
		check("verbosity", lines(t, level, ""), level)
		check("annotation", lines(t, 0, text), level)
		check("annotation below the verbosity", lines(t, 5, text), max(5, level))
	}
}

func TestALogLevelThatIsNotUnderstoodIsIgnored(t *testing.T) {
	for _, level := range []string{"11", "-1", "debug", " 4", "4.0", strings.Repeat("9", 1<<17)} {
		text := lines(t, 0, level)
		if n := strings.Count(text, "\n"); n != 1 || !strings.Contains(text, `annotation="tenon.sh/log-level"`) ||
			len(text) > 400 {
			t.Errorf("level %.20q: %d lines: %.500s", level, n, text)
		}
	}
}

func TestOnceIsBounded(t *testing.T) {
	var o once
	for i := range 3 * maxSeen {
		if !o.first(fmt.Sprint(i)) {
			t.Fatalf("number %d is not the first", i)
		}
	}
	if o.first("same") == o.first("same") || len(o.seen) > maxSeen {
		t.Errorf("%d keys are remembered", len(o.seen))
	}
}

// Whoever may create pods may ask for lines about them; the log has room for so many in a minute.
func TestLinesThatPodsAskForAreBounded(t *testing.T) {
	p := newPlugin(t, refuse)
	logger, text := logged(t, 0)
	p.logger = logger
	var due []func()
	p.lines = &lineLimit{later: func(_ time.Duration, do func()) { due = append(due, do) }}
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	attempt := func(pods int) {
		for i := range pods {
			pod := noted(cpus(fmt.Sprint("p", i), 4), LogAnnotation, "10")
			filter(t, p, cycle(t, p, pod), "n")
		}
	}
	attempt(maxPodLines)
	if n := strings.Count(text(), "\n"); n != maxPodLines {
		t.Fatalf("%d lines, want %d", n, maxPodLines)
	}
	if len(due) != 1 {
		t.Fatalf("the minute ends %d times", len(due))
	}
	due[0]()
	last := func() string {
		all := strings.Split(strings.TrimSpace(text()), "\n")
		return all[len(all)-1]
	}
	// Each of the pods asks for two lines or three.
	var suppressed, written int
	if _, err := fmt.Sscanf(last()[strings.Index(last(), "suppressed="):], "suppressed=%d logged=%d", &suppressed, &written); err != nil ||
		written != maxPodLines ||
		suppressed < maxPodLines ||
		suppressed > 2*maxPodLines {
		t.Errorf("last line %s (%v)", last(), err)
	}
	attempt(1)
	if !strings.Contains(last(), "Node fits") {
		t.Errorf("nothing is logged in the next minute: %s", last())
	}
	due[1]()
	if !strings.Contains(last(), "Node fits") {
		t.Errorf("a minute in which nothing was suppressed is told of: %s", last())
	}
}

// What the verbosity asks for is not bounded, nor does it use up the bound.
func TestLinesThatTheVerbosityAsksForAreNotBounded(t *testing.T) {
	p := newPlugin(t, refuse)
	logger, text := logged(t, 6)
	p.logger = logger
	p.lines = &lineLimit{later: func(time.Duration, func()) { t.Error("a line is counted") }}
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	for i := range maxPodLines {
		filter(t, p, cycle(t, p, noted(cpus(fmt.Sprint("p", i), 4), LogAnnotation, "10")), "n")
	}
	if n := strings.Count(text(), "Node fits"); n != maxPodLines {
		t.Errorf("%d lines, want %d", n, maxPodLines)
	}
}

func TestPodsMayBeDeniedLines(t *testing.T) {
	p := newPlugin(t, `{"podLogs":"Deny"}`)
	logger, text := logged(t, 0)
	p.logger = logger
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	for _, level := range []string{"10", "nonsense"} {
		pod := noted(cpus("p", 4), LogAnnotation, level)
		filter(t, p, cycle(t, p, pod), "n")
		if _, status := p.SignPod(t.Context(), pod); !status.IsSuccess() {
			t.Errorf("the pod is not batched: %v", status)
		}
	}
	if text() != "" {
		t.Errorf("logged: %s", text())
	}
}
