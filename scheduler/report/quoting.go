// Package report writes the scheduler's findings: lines about pods and nodes in the log, events on pods and nodes, the
// conditions of layouts, and the texts of refusals.
//
// Invariant: the package decides nothing, and no decision waits for it. It makes strings from nodes and users
// printable and bounded, and logs a change once. It logs no more lines for annotated pods than [Lines] allows, and
// does not write to layouts whose conditions are current.
package report

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/printable"
)

// This file makes strings from nodes and users printable wherever they leave the scheduler. That is needed because
// klog writes a value with a line break unchanged, including its escape sequences, and because terminals show events.

// Quoting returns a logger that writes to l and passes every value through [printable.Text].
func Quoting(l klog.Logger) klog.Logger {
	sink := l.GetSink()
	if _, done := sink.(quotingSink); done || sink == nil {
		return l
	}
	// One more frame lies between the caller and the sink: -vmodule and the line number must refer to the caller.
	return l.WithSink(quotingSink{deeper(sink, 1)})
}

// quotingSink quotes the values of log lines, but not messages and keys, which are the scheduler's own.
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

// WithCallDepth returns a sink that skips more frames (logr.CallDepthLogSink).
func (s quotingSink) WithCallDepth(depth int) klog.LogSink {
	return quotingSink{deeper(s.LogSink, depth)}
}

// deeper returns a sink that skips depth more frames of the call stack, or s itself if it skips none.
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

// shown returns a value unchanged if its text is printable, and its quoted text otherwise.
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

// QuotedEvents returns a recorder that writes to r. It passes every string argument through [printable.Text], and
// cuts notes to maxNote bytes.
func QuotedEvents(r events.EventRecorder) events.EventRecorder { return quotedEvents{r} }

// quotedEvents quotes the arguments of events.
type quotedEvents struct{ events.EventRecorder }

func (q quotedEvents) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	note = printable.Clip(fmt.Sprintf(note, shownStrings(args)...), maxNote)
	q.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", note)
}

// maxNote is below the API server's limit for the note of an event, which is 1024 bytes.
const maxNote = 1000

// shownStrings returns args with each string quoted, whatever its type. Other values stay as they are.
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
