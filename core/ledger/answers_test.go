package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// checkAnswers checks in every state that all callers get the same answer to whether a pod fits.
func (m *model) checkAnswers(t *testing.T) {
	n := m.book.Snapshot().Node("n")
	key := fmt.Sprint(n.Unsettled, n.Refused)
	for _, state := range append([]*Node{n}, n.Others...) {
		key += "/" + m.describe(state.Entries)
	}
	if m.answered[key] {
		return
	}
	m.answered[key] = true
	if why := disagreement(m.book, candidates, func() *Book { return m.clone().book }); why != "" {
		m.fail(t, "%s", why)
	}
}

// disagreement asks in every way whether pods fit on node n, and says where two answers differ. Filter asks Node.Fits,
// Node.Place or an index; explain, simulate and preemption ask Node.Place; Reserve decides. book returns a book in the
// same state that may be changed; nil leaves Reserve out.
func disagreement(b *Book, pods []*place.Pod, book func() *Book) string {
	n := b.Snapshot().Node("n")
	for _, p := range pods {
		for _, d := range []place.Demand{{}, {Policy: place.SingleNUMA, Scope: place.PerPod}} {
			v, key, index := n.Place(p, d), p.Shape(), NewIndex(p, d)
			on, in := index.Fits(n), index.Fitting(b.Snapshot()).Has("n")
			if on != v.Fits() || in != v.Fits() || d == (place.Demand{}) && n.Fits(p) != v.Fits() {
				return fmt.Sprintf("a pod of %s fits: %t by Place, %t by Fits, %t and %t by the index",
					key, v.Fits(), n.Fits(p), on, in)
			}
			if !v.Fits() && len(v.Reasons) == 0 {
				return fmt.Sprintf("a pod of %s is refused without a reason", key)
			}
			if book == nil {
				continue
			}
			got, ok := book().Reserve("n", PodID{UID: "asked"}, p, d)
			if !ok || got.Fits() != v.Fits() || !slices.Equal(got.Reasons, v.Reasons) {
				return fmt.Sprintf("of a pod of %s, Place says %v, and Reserve %v", key, v, got)
			}
		}
	}
	return ""
}

// candidates are the pods for which every state is asked.
var candidates = []*place.Pod{pod(2, 1), pod(6, 1),
	{QoS: place.Burstable, Containers: []place.Container{{Name: "c", MilliCPU: 500}}}}

// checkProgress holds in every state in which nothing is on its way to the book: once the node has dealt with all pods
// that are bound, and has reported, nothing is left open. The node is settled, and of the pods that wait for their turn
// at least one has it.
func (m *model) checkProgress(t *testing.T) {
	if m.seen < len(m.log) || len(m.taken) > 0 || m.reports > 0 {
		return
	}
	n := m.clone()
	for range n.pods {
		for i := range n.pods {
			if n.pods[i].at == bound && n.mayAdmit(i) {
				n.admit(t, i)
			}
		}
	}
	for i, p := range n.pods {
		if p.at >= admitted && p.said != p.at {
			n.tell(t, i)
		}
	}
	for n.seen < len(n.log) {
		n.see()
	}
	n.taken = append(n.taken, n.layout())
	n.deliver(t)
	if n.book.Snapshot().Node("n").Unsettled {
		m.fail(t, "the node is unsettled after a report of all pods")
	}
	var waiting, turns int
	for i, p := range n.pods {
		if p.at == reserved {
			waiting++
			if _, wait, err := n.book.Turn(id(i).UID, p.created); err == nil && wait == nil {
				turns++
			}
		}
	}
	if waiting > 0 && turns == 0 {
		m.fail(t, "%d pods wait for their turns, and none has it", waiting)
	}
}
