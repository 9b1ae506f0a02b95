package report

import (
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/tenon-numa/tenon/core/printable"
)

// LogAnnotation makes the scheduler log lines about the pod as if its verbosity were the annotation's value.
const LogAnnotation = "tenon.sh/log-level"

// maxLogLevel is above the highest verbosity of any line here.
const maxLogLevel = 10

// The verbosities of lines about a pod.
const (
	LevelDecision = 2 // the reservation, or why there is none
	LevelData     = 4 // the pod's shape and demand; waits
	LevelRefusal  = 5 // every node that refuses
	LevelNode     = 6 // every node that fits, and its cost
)

// PodLog logs lines about one pod; every line has the pod's key. The zero PodLog logs nothing.
type PodLog struct {
	logger   klog.Logger // without the pod's key; named adds it, since few attempts log a line
	pod      klog.ObjectRef
	level    int // from the pod's annotation
	maxLevel int // the highest verbosity that is logged
	lines    *Lines
}

// NewPodLog returns the log of a pod for one attempt. It computes the verbosity once, so that checking it costs
// nothing for each of many nodes. If annotated is false, the pod's LogAnnotation is ignored. lines bounds the lines
// that are logged because of annotations; nil means no bound.
func NewPodLog(logger klog.Logger, pod *v1.Pod, annotated bool, lines *Lines) PodLog {
	l := PodLog{logger: logger, pod: klog.KObj(pod), level: -1, lines: lines}
	if text, ok := pod.Annotations[LogAnnotation]; ok && annotated {
		level, err := strconv.Atoi(text)
		if err == nil && 0 <= level && level <= maxLogLevel {
			l.level = level
		} else if lines.firstWarning(string(pod.UID)) && lines.allow(logger) {
			l.named().Info("Annotation ignored: want a number from 0 to 10", "annotation", LogAnnotation, "value", clip(text))
		}
	}
	for _, v := range [...]int{LevelDecision, LevelData, LevelRefusal, LevelNode} {
		if v <= l.level || logger.V(v).Enabled() {
			l.maxLevel = v
		}
	}
	return l
}

// clip shortens an argument of a log line to 60 bytes.
func clip(text string) string { return printable.Clip(text, 60) }

// named returns the logger with the pod's key.
func (l *PodLog) named() klog.Logger { return l.logger.WithValues("pod", l.pod) }

// On reports whether lines of a verbosity are logged.
func (l *PodLog) On(v int) bool { return v <= l.maxLevel }

// Info logs a line about the pod if lines of this verbosity are logged.
func (l *PodLog) Info(v int, msg string, pairs ...any) {
	switch {
	case !l.On(v):
	case l.logger.V(v).Enabled():
		l.named().V(v).WithCallDepth(1).Info(msg, pairs...)
	case v <= l.level && l.lines.allow(l.logger):
		l.named().WithCallDepth(1).Info(msg, pairs...)
	}
}

// maxPodLines bounds the lines per minute that are logged only because of annotations. Anybody who may create pods may
// set the annotation, and one attempt logs a line for every node.
const maxPodLines = 600

// maxWarned bounds the record of pods whose annotation was reported as invalid. Once a pod has dropped out of the
// record, its annotation is reported again.
const maxWarned = 1024

// Lines counts the lines that are logged because of annotations, for all pods together. A nil *Lines bounds nothing.
type Lines struct {
	later    func(time.Duration, func())
	suppress func()
	warned   *lru.Cache // UIDs of pods
	mu       sync.Mutex
	// lines and suppressed count since the first line of the present minute.
	lines, suppressed int
}

// NewLines returns Lines at 0. It calls suppress for each line that is not logged.
func NewLines(suppress func()) *Lines {
	return &Lines{suppress: suppress, warned: lru.New(maxWarned),
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
}

// firstWarning reports whether the pod has not been warned about yet, and records that it now has been.
func (l *Lines) firstWarning(uid string) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, warned := l.warned.Get(uid)
	l.warned.Add(uid, nil)
	return !warned
}

// allow counts a line, and reports whether it may be logged. One minute after the first line, the count begins again,
// and the number of suppressed lines is logged.
func (l *Lines) allow(logger klog.Logger) bool {
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
		l.suppress()
		return false
	}
	l.lines++
	return true
}

// renew begins a new minute, and logs how many lines were suppressed in the last one.
func (l *Lines) renew(logger klog.Logger) {
	l.mu.Lock()
	n := l.suppressed
	l.lines, l.suppressed = 0, 0
	l.mu.Unlock()
	if n > 0 {
		logger.Info("Lines about pods were suppressed: too many pods ask for them", "suppressed", n, "logged", maxPodLines,
			"annotation", LogAnnotation)
	}
}
