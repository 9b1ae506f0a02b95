// Package report tells people what the scheduler finds: lines about pods and nodes in the log, events on pods and
// nodes, the conditions of layouts, and the words of refusals.
//
// Invariant: it decides nothing, and nothing waits for it. Strings of nodes and users leave it printable and bounded,
// and a change is logged once. It refuses to log more for pods that ask for lines than [Lines] allows, and writes to no
// layout whose conditions are current.
package report

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/printable"
)

// This file makes strings of nodes and users printable, wherever they leave the scheduler: klog writes a value with a
// line break as it is, escape sequences included, and an event is read in terminals.

// Quoting returns a logger that writes to l and shows every value by [printable.Text].
func Quoting(l klog.Logger) klog.Logger {
	sink := l.GetSink()
	if _, done := sink.(quotingSink); done || sink == nil {
		return l
	}
	// One more frame lies between the caller and the sink: -vmodule and the line number look at the caller.
	return l.WithSink(quotingSink{deeper(sink, 1)})
}

// quotingSink shows the values of log lines. Messages and keys are the scheduler's own.
type quotingSink struct{ klog.LogSink }

func (s quotingSink) Info(level int, msg string, pairs ...any) {
	s.LogSink.Info(level, msg, shownPairs(pairs)...)
}

func (s quotingSink) Error(err error, msg string, pairs ...any) {
	if err != nil {
		err, _ = shown(err).(error)
	}
	s.LogSink.Error(err, msg, shownPairs(pairs)...)
}

func (s quotingSink) WithValues(pairs ...any) klog.LogSink {
	return quotingSink{s.LogSink.WithValues(shownPairs(pairs)...)}
}

func (s quotingSink) WithName(name string) klog.LogSink {
	return quotingSink{s.LogSink.WithName(name)}
}

// WithCallDepth makes the sink one that knows its callers' callers (logr.CallDepthLogSink).
func (s quotingSink) WithCallDepth(depth int) klog.LogSink {
	return quotingSink{deeper(s.LogSink, depth)}
}

func deeper(s klog.LogSink, depth int) klog.LogSink {
	if d, ok := s.(interface{ WithCallDepth(int) klog.LogSink }); ok {
		return d.WithCallDepth(depth)
	}
	return s
}

func shownPairs(pairs []any) []any {
	out := make([]any, len(pairs))
	for i, v := range pairs {
		out[i] = shown(v)
	}
	return out
}

// shown returns a value as it is where its text is printable, and its quoted text otherwise.
func shown(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return printable.Text(v)
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = printable.Text(s)
		}
		return out
	case error:
		if text := fmt.Sprint(v); printable.Text(text) != text {
			return errors.New(printable.Text(text))
		}
		return v
	}
	if text := fmt.Sprint(v); printable.Text(text) != text {
		return printable.Text(text)
	}
	return v
}

// QuotedEvents returns a recorder that writes to r, shows every argument by [printable.Text], and shortens notes to
// what the API server accepts.
func QuotedEvents(r events.EventRecorder) events.EventRecorder { return quotedEvents{r} }

// quotedEvents records events whose arguments are shown.
type quotedEvents struct{ events.EventRecorder }

func (q quotedEvents) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	note = clipNote(fmt.Sprintf(note, shownStrings(args)...))
	q.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", note)
}

// maxNote is less than the API server allows for an event's note, in bytes.
const maxNote = 1000

func clipNote(note string) string {
	if len(note) > maxNote {
		return strings.ToValidUTF8(note[:maxNote], "") + "..."
	}
	return note
}

// shownStrings shows the strings among some values, whatever their type; numbers stay numbers.
func shownStrings(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if v := reflect.ValueOf(a); v.Kind() == reflect.String {
			out[i] = printable.Text(v.String())
		}
	}
	return out
}
