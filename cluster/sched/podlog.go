package sched

import (
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
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
	level  int // of the pod's annotation
	most   int // the highest verbosity at which lines are logged, of those above
}

// podLog returns the log of a pod. What is logged is decided once for an attempt to schedule it, so
// that asking costs nothing for each of many nodes.
func (p *Plugin) podLog(pod *v1.Pod) podLog {
	l := podLog{logger: p.logger.WithValues("pod", klog.KObj(pod)), level: -1}
	if text, ok := pod.Annotations[LogAnnotation]; ok {
		level, err := strconv.Atoi(text)
		if err == nil && 0 <= level && level <= maxLogLevel {
			l.level = level
		} else if p.odd.first(string(pod.UID)) {
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
	case v <= l.level:
		l.logger.WithCallDepth(1).Info(msg, pairs...)
	default:
		l.logger.V(v).WithCallDepth(1).Info(msg, pairs...)
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
