package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// hostile has characters that terminals and readers of logs interpret: escape sequences, a bell, line breaks, reversed
// text, C1 controls, invalid UTF-8.
const hostile = "x\x1b[31m\x07\r\nFORGED\u202e\u009b2J\xff\x00\x7f"

// texts calls do for every string below a value that can be set.
func texts(v reflect.Value, path string, do func(path string, field reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		do(path, v)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			texts(v.Elem(), path, do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				texts(v.Field(i), path+"."+v.Type().Field(i).Name, do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), fmt.Sprintf("%s[%d]", path, i), do)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem()
			x.Set(v.MapIndex(k))
			texts(x, path+"."+k.String(), do)
			v.SetMapIndex(k, x)
		}
	}
}

// raw returns the first unprintable part of a text, or "".
func raw(text string) string {
	for i, r := range text {
		if _, width := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && width == 1 ||
			r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return fmt.Sprintf("%q in %q", r, text[max(0, i-80):min(len(text), i+20)])
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "FORGED") || strings.HasPrefix(line, "\tFORGED") {
			return "a forged line in " + text
		}
	}
	return ""
}

// outlets has a scheduler's parts with all their outputs.
type outlets struct {
	t        *testing.T
	s        *Shared
	log      func() string
	recorder *events.FakeRecorder
}

func newOutlets(t *testing.T) *outlets {
	logger, text := logged(t, 6)
	s := NewShared(logger, Options{})
	o := &outlets{t: t, s: s, log: text, recorder: events.NewFakeRecorder(1000)}
	s.sources.Report(o.recorder)
	s.sources.Begin()
	return o
}

// clean checks all that was logged, recorded as events, served and counted.
func (o *outlets) clean(what string, nodes ...string) {
	o.t.Helper()
	check := func(where, text string) {
		if bad := raw(text); bad != "" {
			o.t.Errorf("%s: %s: %s", what, where, bad)
		}
	}
	check("log", o.log())
	for len(o.recorder.Events) > 0 {
		check("event", <-o.recorder.Events)
	}
	source := inspect.Source{
		Book:      o.s.Book,
		Problem:   o.s.sources.Problem,
		Decisions: o.s.Decisions,
		Mix:       o.s.workload.Mix,
		Now:       time.Now,
		Names:     func() []string { return nodes },
	}
	paths := []string{"nodes", "mix", "pods/default/p"}
	for _, n := range nodes {
		paths = append(paths, "nodes/"+n)
	}
	for _, path := range paths {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, inspect.Prefix+path+"?format=text", nil)
		inspect.Handler(source).ServeHTTP(w, r)
		check(path, w.Body.String())
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		o.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if strings.HasPrefix(f.GetName(), "tenon_") {
				check(f.GetName(), strings.ReplaceAll(fmt.Sprint(m.GetLabel()), "\\", ""))
			}
		}
	}
}

// Every string that a node publishes is replaced, one at a time and all at once. Whether the object is accepted or
// rejected, no raw text leaves the scheduler.
func TestNothingRawOfANodeLeavesTheScheduler(t *testing.T) {
	held := bind(cpus("p", 4), "n")
	fresh := func() any { return layout(t, "n", two, place.SingleNUMA, 1, holding(held, "0-3")) }
	var paths []string
	texts(reflect.ValueOf(fresh()), "layout", func(path string, _ reflect.Value) { paths = append(paths, path) })
	if len(paths) < 15 {
		t.Fatalf("%d strings in a layout: %v", len(paths), paths)
	}
	for _, one := range append(paths, "") {
		l := layout(t, "n", two, place.SingleNUMA, 1, holding(held, "0-3"))
		texts(reflect.ValueOf(l), "layout", func(path string, field reflect.Value) {
			name := strings.HasSuffix(path, ".ObjectMeta.Name") || strings.HasSuffix(path, ".ResourceVersion")
			if (one == "" || one == path) && !name {
				field.SetString(hostile)
			}
		})
		o := newOutlets(t)
		o.s.Feed.Layout(l)
		p := pluginOf(t, o.s, refuse)
		p.logger = report.Quoting(p.logger)
		pod := cpus("p", 16)
		status := filter(t, p, cycle(t, p, pod), "n")
		if bad := raw(status.Message()); bad != "" {
			t.Errorf("%s: status: %s", one, bad)
		}
		o.clean(one, "n")
	}
}

func TestNothingRawOfATopologyLeavesTheScheduler(t *testing.T) {
	var paths []string
	texts(
		reflect.ValueOf(topology("n", 1, 16, 16)),
		"topology",
		func(path string, _ reflect.Value) { paths = append(paths, path) },
	)
	for _, one := range append(paths, "") {
		o := newOutlets(t)
		x := topology("n", 1, 16, 16)
		texts(reflect.ValueOf(x), "topology", func(path string, field reflect.Value) {
			name := strings.HasSuffix(path, ".ObjectMeta.Name") || strings.HasSuffix(path, ".ResourceVersion")
			if (one == "" || one == path) && !name {
				field.SetString(hostile)
			}
		})
		o.s.Feed.Topology(x)
		p := pluginOf(t, o.s, refuse)
		if bad := raw(filter(t, p, cycle(t, p, cpus("p", 16)), "n").Message()); bad != "" {
			t.Errorf("%s: status: %s", one, bad)
		}
		o.clean(one, "n")
	}
}

// The API server accepts any text in annotations.
func TestNothingRawOfAPodLeavesTheScheduler(t *testing.T) {
	for _, annotation := range []string{apipod.PolicyAnnotation, apipod.ScopeAnnotation, apipod.AlignAnnotation,
		apipod.IgnoreAnnotation, report.LogAnnotation, booking.StrategyAnnotation, "volcano.sh/numa-topology-policy",
		"scheduling.koordinator.sh/numa-topology-spec"} {
		for _, value := range []string{hostile, `{"numaTopologyPolicy":"` + hostile + `"}`,
			"{\"singleNUMANodeExclusive\":\"\\u001b[31m\"}"} {
			o := newOutlets(t)
			o.s.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
			p := pluginOf(t, o.s, refuse)
			logger, text := logged(t, 6)
			p.logger = report.Quoting(logger)
			pod := noted(cpus("p", 4), annotation, value)
			_, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
			if bad := raw(status.Message()); bad != "" {
				t.Errorf("%s: status: %s", annotation, bad)
			}
			if bad := raw(text()); bad != "" {
				t.Errorf("%s: log: %s", annotation, bad)
			}
			o.clean(annotation, "n")
		}
	}
}
