package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// logged returns a logger and what it logged.
func logged(t *testing.T, verbosity int) (klog.Logger, func() string) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
	return logger, func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
}

// asking returns a pod that requests lines.
func asking(number int, level string) *v1.Pod {
	name := fmt.Sprint("p", number)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
		Annotations: map[string]string{LogAnnotation: level}}}
}

// Anybody who may create pods may request lines about them; the log accepts a bounded number per minute.
func TestLinesThatPodsAskForAreBounded(t *testing.T) {
	logger, text := logged(t, 0)
	var due []func()
	suppressed := 0
	lines := NewLines(func() { suppressed++ })
	lines.later = func(_ time.Duration, do func()) { due = append(due, do) }
	attempt := func(pods int) {
		for i := range pods {
			log := NewPodLog(logger, asking(i, "10"), true, lines)
			log.Info(LevelNode, "Node fits")
			log.Info(LevelData, "Pod read")
		}
	}
	attempt(maxPodLines)
	if n := strings.Count(text(), "\n"); n != maxPodLines || suppressed != maxPodLines {
		t.Fatalf("%d lines and %d suppressed, want %d of each", n, suppressed, maxPodLines)
	}
	if len(due) != 1 {
		t.Fatalf("the minute ends %d times", len(due))
	}
	due[0]()
	last := func() string {
		all := strings.Split(strings.TrimSpace(text()), "\n")
		return all[len(all)-1]
	}
	if want := fmt.Sprintf("suppressed=%[1]d logged=%[1]d", maxPodLines); !strings.Contains(last(), want) {
		t.Errorf("last line %s, want %s", last(), want)
	}
	attempt(1)
	if !strings.Contains(last(), "Pod read") {
		t.Errorf("nothing is logged in the next minute: %s", last())
	}
	due[1]()
	if !strings.Contains(last(), "Pod read") {
		t.Errorf("a minute in which nothing was suppressed is reported: %s", last())
	}
}

// Lines that the verbosity requests are not bounded, and do not count toward the bound.
func TestLinesThatTheVerbosityAsksForAreNotBounded(t *testing.T) {
	logger, text := logged(t, 6)
	lines := NewLines(func() { t.Error("a line is suppressed") })
	lines.later = func(time.Duration, func()) { t.Error("a line is counted") }
	for i := range 2 * maxPodLines {
		log := NewPodLog(logger, asking(i, "10"), true, lines)
		log.Info(LevelNode, "Node fits")
	}
	if n := strings.Count(text(), "Node fits"); n != 2*maxPodLines {
		t.Errorf("%d lines, want %d", n, 2*maxPodLines)
	}
}

// A pod with an invalid level is reported once, and after many others once more.
func TestAnInvalidLevelIsReportedOnce(t *testing.T) {
	logger, text := logged(t, 0)
	lines := NewLines(func() {})
	lines.later = func(time.Duration, func()) {}
	for range 3 {
		NewPodLog(logger, asking(0, "debug"), true, lines)
		NewPodLog(logger, asking(1, "10"), false, lines)
	}
	if n := strings.Count(text(), "Annotation ignored"); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, text())
	}
}
