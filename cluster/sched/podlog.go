package sched

import (
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/config"
)

// LogAnnotation lets the lines about a pod be logged as if the scheduler's verbosity were so high.
const LogAnnotation = "tenon.sh/log-level"

// maxLogLevel is beyond the highest verbosity that anything here is logged at.
const maxLogLevel = 10

// The verbosities of lines about a pod.
const (
	logDecision = 2 // what was reserved, or why not
	logData     = 4 // what was read of the pod; waits
	logRefusal  = 5 // every node that refuses
	logNode     = 6 // every node that fits, and its cost
)

// podLog logs lines about one pod; every line has the pod's key. The zero podLog logs nothing.
type podLog struct {
	logger klog.Logger
	plain  klog.Logger // without the pod's key
	level  int         // of the pod's annotation
	most   int         // the highest verbosity at which lines are logged, of those above
	// lines bounds what is logged for the annotation's sake; nil bounds nothing.
	lines *lineLimit
}

// podLog returns the log of a pod. What is logged is decided once for an attempt to schedule it, so
// that asking costs nothing for each of many nodes.
func (p *Plugin) podLog(pod *v1.Pod) podLog {
	l := podLog{plain: p.logger, logger: p.logger.WithValues("pod", klog.KObj(pod)), level: -1, lines: p.lines}
	if text, ok := p.logLevel(pod); ok {
		level, err := strconv.Atoi(text)
		if err == nil && 0 <= level && level <= maxLogLevel {
			l.level = level
		} else if p.warned.first(string(pod.UID)) && l.lines.take(p.logger) {
			l.logger.Info("Annotation ignored: want a number from 0 to 10", "annotation", LogAnnotation, "value", clip(text))
		}
	}
	for _, v := range [...]int{logDecision, logData, logRefusal, logNode} {
		if v <= l.level || l.logger.V(v).Enabled() {
			l.most = v
		}
	}
	return l
}

// logLevel returns the annotation of a pod where the profile lets pods have a log level.
func (p *Plugin) logLevel(pod *v1.Pod) (text string, ok bool) {
	if p.args.PodLogs == config.Deny {
		return "", false
	}
	text, ok = pod.Annotations[LogAnnotation]
	return text, ok
}

func clip(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

func (l *podLog) on(v int) bool { return v <= l.most }

// info logs a line about the pod if lines of this verbosity are logged.
func (l *podLog) info(v int, msg string, pairs ...any) {
	switch {
	case !l.on(v):
	case l.logger.V(v).Enabled():
		l.logger.V(v).WithCallDepth(1).Info(msg, pairs...)
	case v <= l.level && l.lines.take(l.plain):
		l.logger.WithCallDepth(1).Info(msg, pairs...)
	}
}

// maxPodLines bounds the lines in a minute that are logged only because annotations of pods ask for them. Whoever
// may create pods may ask, and one attempt logs a line for every node.
const maxPodLines = 600

// lineLimit counts lines that pods ask for, of all pods together.
type lineLimit struct {
	later   func(time.Duration, func())
	metrics *schedulerMetrics
	mu      sync.Mutex
	// lines and suppressed are of the minute that the first line began.
	lines, suppressed int
}

func newLineLimit(m *schedulerMetrics) *lineLimit {
	return &lineLimit{metrics: m, later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
}

// take reports whether one more line may be logged. When the minute is over, the logger says how many could not.
func (l *lineLimit) take(logger klog.Logger) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == 0 {
		l.later(time.Minute, func() { l.renew(logger) })
	}
	if l.lines == maxPodLines {
		l.suppressed++
		l.metrics.suppresses()
		return false
	}
	l.lines++
	return true
}

func (l *lineLimit) renew(logger klog.Logger) {
	l.mu.Lock()
	n := l.suppressed
	l.lines, l.suppressed = 0, 0
	l.mu.Unlock()
	if n > 0 {
		logger.Info("Lines about pods were suppressed: too many pods ask for them", "suppressed", n, "logged", maxPodLines,
			"annotation", LogAnnotation)
	}
}

// once remembers of what something was said already, bounded: after many others it is said again.
type once struct {
	mu   sync.Mutex
	seen map[string]bool
}

const maxSeen = 1024

func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		return false
	}
	if o.seen == nil || len(o.seen) >= maxSeen {
		o.seen = map[string]bool{}
	}
	o.seen[key] = true
	return true
}
