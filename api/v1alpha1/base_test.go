package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// overTheWire returns an object as a reader decodes it.
func overTheWire[T any](t interface{ Fatal(...any) }, in *T) *T {
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// drawChurn draws what pods of a node hold after some of them ended, some changed and some came.
func drawChurn(t *rapid.T, m *topo.Machine, before []state.Entry, round int) (out []state.Entry) {
	for _, e := range before {
		switch rapid.IntRange(0, 3).Draw(t, "fate") {
		case 0:
		case 1:
			h := place.Holding{Container: "later", CPUs: drawCPUs(t, m)}
			out = append(out, state.Entry{Pod: e.Pod, Source: e.Source, Holdings: []place.Holding{h}})
		default:
			out = append(out, e)
		}
	}
	for i, e := range drawEntries(t, m) {
		e.Pod.UID = fmt.Sprintf("r%d-%d", round, i)
		out = append(out, e)
	}
	return out
}

// Whatever pods do, a reader that has base and difference has what the agent saw; and both ways of reading agree.
func TestALayoutWithItsBaseIsWhatTheAgentSaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, first := drawMachine(t), []state.Entry(nil)
		rules := drawRules(t, m)
		first = drawEntries(t, m)
		at := func(sequence int64, in []state.Entry, groups map[int]place.MemoryGroup) *NodeLayout {
			l := FromCore("n", m, rules, in, groups)
			l.Sequence, l.Agent.ID, l.Kubelet.Version = sequence, "a", "v1.36.0"
			return l
		}
		groups := map[int]place.MemoryGroup{}
		base := overTheWire(t, BaseOf(at(5, first, groups)))
		now := first
		for round := range 3 {
			now = drawChurn(t, m, now, round)
			if rapid.Bool().Draw(t, "groups") {
				groups = map[int]place.MemoryGroup{0: {NUMAs: m.All()}}
			}
			whole := overTheWire(t, at(int64(6+round), now, groups))
			d, ok := whole.Since(base)
			if !ok {
				t.Fatalf("no difference for %v after %v", now, first)
			}
			d = overTheWire(t, d)
			got, err := d.On(base)
			if err != nil {
				t.Fatal(err)
			}
			whole.Base, whole.Ended = 0, nil
			if a, b := text(t, got), text(t, whole); a != b {
				t.Fatalf("base and difference are\n%s\nthe agent saw\n%s", a, b)
			}
			want, err := whole.Core()
			if err != nil {
				t.Fatal(err)
			}
			core, err := d.CoreFrom(NewBase(base), Sharing{Machine: topo.New})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(spelled(core), spelled(want)) {
				t.Fatalf("as core values it is %v, want %v", spelled(core), spelled(want))
			}
		}
	})
}

func text(t interface{ Fatal(...any) }, l *NodeLayout) string {
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// spelled writes core values in full, with an empty list and none alike.
func spelled(l Layout) string {
	return fmt.Sprintf("%v|%+v|%+v|%+v|%+v", l.Machine.Spec(), l.Rules, l.Entries, l.Groups, l.Inexact)
}

func TestWhatADifferenceCannotSay(t *testing.T) {
	whole := big(t)
	whole.Sequence, whole.Agent.ID = 7, "a"
	for name, change := range map[string]func(*NodeLayout){
		"another agent":         func(l *NodeLayout) { l.Agent.ID = "b" },
		"another machine":       func(l *NodeLayout) { l.Machine.NUMAs[0].Memory++ },
		"other rules":           func(l *NodeLayout) { l.Rules.TopologyManagerPolicy = "restricted" },
		"another kubelet":       func(l *NodeLayout) { l.Kubelet.Version = "v1.99.0" },
		"a reason for doubts":   func(l *NodeLayout) { l.Inexact = append(l.Inexact, Inexact{Code: "new"}) },
		"another order of pods": func(l *NodeLayout) { l.Holdings[0], l.Holdings[1] = l.Holdings[1], l.Holdings[0] },
		"a new pod among old ones": func(l *NodeLayout) {
			l.Holdings = append([]PodHoldings{{Namespace: "n", Name: "p", UID: "new"}}, l.Holdings...)
		},
	} {
		base, l := BaseOf(whole.DeepCopy()), whole.DeepCopy()
		change(l)
		if d, ok := l.Since(base); ok {
			t.Errorf("%s is told as a difference: %+v", name, d.Holdings)
		}
	}
}

// The API server shows layout and base in no fixed order.
func TestLayoutsAndBasesThatDoNotBelongTogether(t *testing.T) {
	whole := big(t)
	whole.Sequence, whole.Agent.ID = 20, "a"
	whole.Kubelet.Version = "v1.36.0"
	base := BaseOf(whole)
	l := func(agent string, sequence, base int64) *NodeLayout {
		return &NodeLayout{ObjectMeta: whole.ObjectMeta, Agent: Agent{ID: agent}, Sequence: sequence, Base: base,
			Ended: []string{whole.Holdings[0].UID}}
	}
	for _, c := range []struct {
		what   string
		layout *NodeLayout
		pods   int // -1: the base is missing
	}{
		{"the layout that continues it", l("a", 21, 20), len(whole.Holdings) - 1},
		{"a layout before it, which the agent will replace", l("a", 19, 10), len(whole.Holdings)},
		{"a layout of an earlier agent before it", l("z", 19, 10), len(whole.Holdings)},
		{"a layout that continues a later one", l("a", 31, 30), -1},
		{"a layout of another agent that counts alike", l("b", 21, 20), -1},
	} {
		got, err := c.layout.On(base)
		core, coreErr := c.layout.CoreFrom(NewBase(base), Sharing{Machine: topo.New})
		if c.pods < 0 {
			if !errors.Is(err, ErrNoBase) || !errors.Is(coreErr, ErrNoBase) {
				t.Errorf("%s: %v, and as core values %v, want a missing base", c.what, err, coreErr)
			}
			continue
		}
		if err != nil || coreErr != nil {
			t.Errorf("%s: %v, and as core values %v", c.what, err, coreErr)
			continue
		}
		if len(got.Holdings) != c.pods || len(core.Entries) != c.pods {
			t.Errorf("%s: %d and %d pods, want %d", c.what, len(got.Holdings), len(core.Entries), c.pods)
		}
	}
	if _, err := l("a", 21, 20).CoreFrom(nil, Sharing{Machine: topo.New}); !errors.Is(err, ErrNoBase) {
		t.Errorf("without any base: %v", err)
	}
	if _, err := l("a", 21, 20).Core(); !errors.Is(err, ErrNoBase) {
		t.Errorf("read alone: %v", err)
	}
}

// A difference is bounded with its base, as a layout is.
func TestBadDifferencesAreRefused(t *testing.T) {
	whole := big(t)
	whole.Sequence, whole.Agent.ID = 20, "a"
	base := BaseOf(whole)
	many := make([]PodHoldings, MaxPods)
	for i := range many {
		many[i] = PodHoldings{Namespace: "n", Name: "p", UID: fmt.Sprintf("m%d", i)}
	}
	for want, l := range map[string]*NodeLayout{
		"pods: 2158 is outside":  {Holdings: many},
		"ended: 3000 is outside": {Ended: make([]string, 3000)},
		"machine has no cpu 9999": {Holdings: []PodHoldings{{Namespace: "n", Name: "p", UID: "u",
			Containers: []ContainerHolding{{CPUs: "9999"}}}}},
		"sequence: -1": {Sequence: -1},
		"n\": odd":     {Malformed: "odd"},
	} {
		l.Name, l.Agent.ID, l.Base = "n", "a", 20
		if l.Sequence == 0 {
			l.Sequence = 21
		}
		_, err := l.CoreFrom(NewBase(base), Sharing{Machine: topo.New})
		if l.Sequence < 0 {
			err = l.applyTo(&Layout{}, Sharing{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	broken := BaseOf(whole)
	broken.Machine.NUMAs = nil
	l := &NodeLayout{Agent: Agent{ID: "a"}, Sequence: 21, Base: 20}
	_, err := l.CoreFrom(NewBase(broken), Sharing{Machine: topo.New})
	if err == nil || !strings.Contains(err.Error(), "base: layout of node") {
		t.Errorf("a broken base: %v", err)
	}
	if _, err := (&NodeLayout{Machine: whole.Machine, Rules: whole.Rules, Ended: []string{"u"}}).Core(); err == nil {
		t.Error("ended pods without a base are accepted")
	}
}
