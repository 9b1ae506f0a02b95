package report

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Reasons of events on nodes whose kubelet may deviate from predictions or fail to restart.
const (
	eventInexact = "PredictionsInexact"
	eventExact   = "PredictionsExact"
	eventHazard  = "KubeletRestartHazard"
	eventSafe    = "KubeletRestartSafe"
)

// Notices reports when predictions for a node become inexact, and when a restart of its kubelet becomes dangerous. It
// records one event for each change, and has the conditions of the layout rewritten.
type Notices struct {
	snapshot func() *ledger.Snapshot
	events   *Events
	// rewrite queues a node whose layout's conditions have to be written again.
	rewrite func(node string)

	mu sync.Mutex
	// last has the last notice of every node that has one.
	last map[string]notice
}

// notice is what was last reported of a node: the sorted codes of why predictions are inexact, and of restart
// hazards.
type notice struct{ inexact, hazards string }

// NewNotices returns a Notices that records events on changes, and calls rewrite for each layout with stale
// conditions.
func NewNotices(snapshot func() *ledger.Snapshot, e *Events, rewrite func(node string)) *Notices {
	return &Notices{snapshot: snapshot, events: e, rewrite: rewrite, last: map[string]notice{}}
}

// Reported receives a layout that the ledger has accepted.
func (n *Notices) Reported(l *v1alpha1.NodeLayout) {
	node := n.snapshot().Node(l.Name)
	if node == nil {
		return
	}
	dangers := Hazards(node)
	now := notice{guard.Codes(node.Inexact), dangerCodes(dangers)}
	n.mu.Lock()
	before := n.last[l.Name]
	if now == (notice{}) {
		delete(n.last, l.Name)
	} else {
		n.last[l.Name] = now
	}
	n.mu.Unlock()
	if stale(l, node) {
		n.rewrite(l.Name)
	}
	switch {
	case now.inexact == before.inexact:
	case now.inexact == "":
		n.events.node(l.Name, v1.EventTypeNormal, eventExact,
			"no reason is known any more why a prediction for the node may differ from what its kubelet does")
	default:
		n.events.node(l.Name, v1.EventTypeWarning, eventInexact,
			"predictions for the node may differ from what its kubelet does: "+messages(node.Inexact))
	}
	switch {
	case now.hazards == before.hazards:
	case now.hazards == "":
		n.events.node(l.Name, v1.EventTypeNormal, eventSafe, "a restart of the node's kubelet is safe again")
	default:
		n.events.node(l.Name, v1.EventTypeWarning, eventHazard, hazardTexts(dangers))
	}
}

// Hazards returns the restart hazards of a node that are certain. Uncertain ones get no event; kubectl tenon shows
// them.
func Hazards(n *state.Node) []place.Hazard {
	return slices.DeleteFunc(n.RestartHazards(), func(h place.Hazard) bool { return !h.Sure })
}

func dangerCodes(all []place.Hazard) string {
	var out []string
	for _, h := range all {
		out = append(out, string(h.Code))
	}
	return strings.Join(out, ",")
}

func hazardTexts(all []place.Hazard) string {
	var out []string
	for _, h := range all {
		out = append(out, h.Text())
	}
	return strings.Join(out, "; ")
}

// messages returns the reasons with their codes, in one line.
func messages(in []state.Inexact) string {
	var out []string
	for _, r := range in {
		text := string(r.Code)
		if r.Message != "" {
			text += ": " + r.Message
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// stale reports whether the conditions Exact and Aligned of a layout have to be written. A layout that never was
// inexact, and never left anything unaligned, needs no write.
func stale(l *v1alpha1.NodeLayout, n *state.Node) bool {
	return outdated(l, exactness(n.Inexact)) || outdated(l, alignment(n.Rules.Forgotten(n.Machine)))
}

// outdated reports whether a condition has to be written. A missing condition has to be written unless it is True.
func outdated(l *v1alpha1.NodeLayout, want metav1.Condition) bool {
	c := meta.FindStatusCondition(l.Status.Conditions, want.Type)
	if c == nil {
		return want.Status != metav1.ConditionTrue
	}
	return c.Status != want.Status || c.Message != want.Message
}
