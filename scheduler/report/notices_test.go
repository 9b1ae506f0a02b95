package report

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// desk is a ledger whose changes are reported by events.
type desk struct {
	t        *testing.T
	feed     *kube.Feed
	recorder *events.FakeRecorder
}

func newDesk(t *testing.T) *desk {
	book := ledger.New()
	d := &desk{t: t, feed: kube.NewFeed(book, nil, nil), recorder: events.NewFakeRecorder(100)}
	e := NewEvents(klog.Background())
	e.To(d.recorder)
	d.feed.OnReport(NewNotices(book.Snapshot, e, func(string) {}).Reported)
	d.feed.Begin()
	return d
}

// layoutOf makes the layout of a node with two NUMA nodes of 16 CPUs; versions are resource versions.
func layoutOf(t *testing.T, version int, r place.Rules, entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	l := v1alpha1.FromCore("n", m, r, entries, nil)
	l.ResourceVersion = fmt.Sprint(version)
	return l
}

func layout(t *testing.T, version int, policy place.Policy) *v1alpha1.NodeLayout {
	return layoutOf(t, version, place.Rules{Topology: place.TopologyRules{Policy: policy},
		CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}})
}

// strict returns a layout under strict-cpu-reservation with CPU 0 reserved.
func strict(t *testing.T, version int, entries ...state.Entry) *v1alpha1.NodeLayout {
	return layoutOf(t, version, place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort},
		Memory: place.MemoryRules{Static: true},
		CPU:    place.CPURules{Static: true, StrictReservation: true, Reserved: idset.Of[idset.CPU](0)}}, entries...)
}

// holding returns the entry of a pod that the node reports with these CPUs.
func holding(cpus string) state.Entry {
	set, err := idset.Parse[idset.CPU](cpus)
	if err != nil {
		panic(err)
	}
	return state.Entry{Pod: state.PodID{UID: "uid-p", Namespace: "default", Name: "p"},
		Holdings: []place.Holding{{Container: "c", CPUs: set}}}
}

func inexact(l *v1alpha1.NodeLayout, codes ...state.InexactCode) *v1alpha1.NodeLayout {
	l.Inexact = nil
	for _, c := range codes {
		l.Inexact = append(
			l.Inexact,
			v1alpha1.FromInexact([]state.Inexact{{Code: c, Message: "because of " + string(c)}})...)
	}
	return l
}

func (o *desk) recorded(want ...string) {
	o.t.Helper()
	for _, w := range want {
		select {
		case e := <-o.recorder.Events:
			if !strings.Contains(e, w) {
				o.t.Errorf("event %q, want %q", e, w)
			}
		default:
			o.t.Errorf("no event that says %q", w)
		}
	}
	if len(o.recorder.Events) > 0 {
		o.t.Errorf("one event more: %s", <-o.recorder.Events)
	}
}

// One event reports that predictions for a node have become inexact, and one that they are exact again.
func TestInexactNodesAreReportedOnce(t *testing.T) {
	o := newDesk(t)
	say := func(version int, codes ...state.InexactCode) {
		l := layout(t, version, place.SingleNUMA)
		o.feed.Layout(inexact(l, codes...))
	}
	say(1)
	o.recorded()
	say(2, state.RulesFromFiles)
	o.recorded(
		"Warning PredictionsInexact predictions for the node may differ from what its kubelet does: " +
			"rules-from-files: because of rules-from-files",
	)
	say(3, state.RulesFromFiles)
	o.recorded()
	say(4, state.RulesFromFiles, state.UnhealthyDevices)
	o.recorded("rules-from-files: because of rules-from-files; unhealthy-devices: ")
	say(5)
	o.recorded("Normal PredictionsExact")
	say(6)
	o.recorded()
}

// A node's pods may keep its kubelet from restarting. It runs well until then, so an event reports it.
func TestNodesWhoseKubeletWouldNotRestartAreNamed(t *testing.T) {
	o := newDesk(t)
	o.feed.Layout(strict(t, 1, holding("1-30")))
	o.recorded()
	o.feed.Layout(strict(t, 2, holding("1-31")))
	o.recorded(
		"Warning KubeletRestartHazard kubelet will not restart: containers hold every CPU that is not reserved; free one CPU",
	)
	o.feed.Layout(strict(t, 3, holding("1-31")))
	o.recorded()
	o.feed.Layout(strict(t, 4))
	o.recorded("Normal KubeletRestartSafe")
}

func TestTheConditionExactFollowsTheLayout(t *testing.T) {
	l := layout(t, 1, place.SingleNUMA)
	check := func(want metav1.ConditionStatus, message string) {
		t.Helper()
		c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact)
		if c == nil || c.Status != want || c.Message != message {
			t.Errorf("condition %+v, want %s: %s", c, want, message)
		}
		if stale(l, &state.Node{Machine: known(t, l).Machine, Rules: known(t, l).Rules, Inexact: core(t, l)}) {
			t.Error("the condition that was written would be written again")
		}
		if setConditions(l, core(t, l)) {
			t.Error("judging once more changes something")
		}
	}
	setConditions(l, core(t, l))
	check(metav1.ConditionTrue, "")
	inexact(l, state.UnhealthyDevices)
	if !setConditions(l, core(t, l)) {
		t.Error("nothing is written")
	}
	check(metav1.ConditionFalse, "unhealthy-devices: because of unhealthy-devices")
	inexact(l)
	setConditions(l, core(t, l))
	check(metav1.ConditionTrue, "")
	l.Machine.NUMAs = nil
	setConditions(l, nil)
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact); c != nil {
		t.Errorf("a layout that is refused has condition %+v", c)
	}
}

// core returns why predictions may differ according to a layout.
func core(t *testing.T, l *v1alpha1.NodeLayout) []state.Inexact { return known(t, l).Inexact }

// known returns the core values of a layout.
func known(t *testing.T, l *v1alpha1.NodeLayout) v1alpha1.Layout {
	t.Helper()
	c, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A layout of a kubelet with default policies has a condition that names the settings, until they are set.
func TestTheConditionAlignedNamesTheSettings(t *testing.T) {
	l := layout(t, 1, place.SingleNUMA)
	node := func() *state.Node {
		return &state.Node{Machine: known(t, l).Machine, Rules: known(t, l).Rules}
	}
	aligned := func() *metav1.Condition {
		return meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAligned)
	}
	if setConditions(l, nil); aligned() != nil || stale(l, node()) {
		t.Errorf("a layout that leaves nothing unaligned has condition %+v", aligned())
	}
	l.Rules.TopologyManagerPolicy = "none"
	if !stale(l, node()) || !setConditions(l, nil) || stale(l, node()) {
		t.Error("the condition is not written once")
	}
	if c := aligned(); c == nil || c.Status != metav1.ConditionFalse ||
		!strings.Contains(c.Message, "set topologyManagerPolicy: single-numa-node") {
		t.Errorf("condition %+v", c)
	}
	l.Rules.TopologyManagerPolicy = "restricted"
	if !stale(l, node()) || !setConditions(l, nil) || aligned().Status != metav1.ConditionTrue || aligned().Message != "" {
		t.Errorf("the policy is set: condition %+v", aligned())
	}
}
