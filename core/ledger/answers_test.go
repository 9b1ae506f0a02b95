package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// checkAnswers checks in every state that all callers get the same answer to whether a pod fits.
func (m *model) checkAnswers(t *testing.T) {
	n := m.book.Snapshot().Node("n")
	key := fmt.Sprint(n.Unsettled, n.Refused)
	for _, one := range append([]*state.Node{n}, n.Others...) {
		key += "/" + m.describe(one.Entries)
	}
	if m.answered[key] {
		return
	}
	m.answered[key] = true
	if why := disagreement(m.book, candidates, func() *Book { return m.clone().book }); why != "" {
		m.fail(t, "%s", why)
	}
}

// disagreement asks in every way whether pods fit on node n, and returns the first difference, or "". Filter uses
// Node.Fits, Node.Place or an index; explain, simulate and preemption use Node.Place; Reserve decides. book returns a
// book in the same state that may be changed; nil leaves out Reserve.
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
			if o, ok := index.Outline(n); in && ok && o.CPUs != cpusOf(v.Holdings) {
				return fmt.Sprintf("a pod of %s gets %v by Place, and by its outline %v", key, v.Holdings, o)
			}
			if !v.Fits() && len(v.Reasons) == 0 {
				return fmt.Sprintf("a pod of %s is refused without a reason", key)
			}
			if book == nil {
				continue
			}
			got, ok := book().Reserve("n", state.PodID{UID: "asked"}, p, d)
			if !ok || got.Fits() != v.Fits() || !slices.Equal(got.Reasons, v.Reasons) {
				return fmt.Sprintf("of a pod of %s, Place says %v, and Reserve %v", key, v, got)
			}
		}
	}
	return ""
}

func cpusOf(hs []place.Holding) (count int64) {
	for _, h := range hs {
		count += int64(h.CPUs.Len())
	}
	return count
}

// checkExtended checks that Reserve has published what the report and all assumed pods lead to.
func (m *model) checkExtended(t *testing.T) {
	is, c := m.book.Snapshot().Node("n"), m.clone()
	if is == nil {
		return // its report is lost
	}
	c.book.renew(c.book.nodes["n"])
	want := c.book.Snapshot().Node("n")
	if got, want := m.picture(is), m.picture(want); got != want {
		m.fail(t, "after a reservation the node is\n%s\nwant\n%s", got, want)
	}
}

// picture is a text of everything that distinguishes states of the node.
func (m *model) picture(n *state.Node) string {
	out := fmt.Sprint(n.Unsettled, n.Crowded, n.Silent, n.Unlisted, n.Gone, n.News, n.Refused, n.Inexact,
		n.Basis.Uncertain, n.Basis.Queue)
	for _, one := range append([]*state.Node{n}, n.Others...) {
		used, grouped := one.Usage.MemoryGroups()
		out += fmt.Sprint("\n", m.describe(one.Entries), " free: ", one.Usage.FreeCPUs(), one.Usage.FreeDevices("nic"), used,
			grouped)
		for i := range one.Machine.NUMAs() {
			out += fmt.Sprint(" ", one.Usage.MemoryGroup(i))
		}
	}
	return out
}

// candidates are the pods that checkAnswers asks about in every state.
var candidates = []*place.Pod{pod(2, 1), pod(6, 1),
	{QoS: place.Burstable, Containers: []place.Container{{Name: "c", MilliCPU: 500}}}}

// checkProgress applies to every state without pending events for the book. Once the node has handled all bound pods
// and has reported, nothing may remain open: the node is settled, and at least one of the waiting pods has its turn.
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
			n.writeStatus(t, i)
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
