package plugin

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// lines returns the plugin's log lines about one pod, at a verbosity and with an annotation.
func lines(t *testing.T, verbosity int, level string) string {
	t.Helper()
	p := newPlugin(t, refuse)
	logger, text := logged(t, verbosity)
	p.logger = logger
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	p.Feed.Layout(layout(t, "small", "numa 0 cpus 0-1 memory 64Gi", place.SingleNUMA, 2))
	pod := cpus("p", 4)
	if level != "" {
		pod = noted(pod, report.LogAnnotation, level)
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
	}{{2, "Reserved pod="}, {2, `holdings="c: cpus 0-3`}, {2, "Released pod="}, {4, "Pod read pod="},
		{4, "Turn has come pod="}, {5, "Node does not fit pod="},
		{5, `reason="never on this machine: container`}, {6, "Node fits pod="}, {6, "Node scored pod="}}
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

func TestPodsMayBeDeniedLines(t *testing.T) {
	p := newPlugin(t, `{"podLogs":"Deny"}`)
	logger, text := logged(t, 0)
	p.logger = logger
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	for _, level := range []string{"10", "nonsense"} {
		pod := noted(cpus("p", 4), report.LogAnnotation, level)
		filter(t, p, cycle(t, p, pod), "n")
		if _, status := p.SignPod(t.Context(), pod); !status.IsSuccess() {
			t.Errorf("the pod is not batched: %v", status)
		}
	}
	if text() != "" {
		t.Errorf("logged: %s", text())
	}
}
