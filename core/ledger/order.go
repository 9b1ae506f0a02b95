package ledger

// This file decides which of two pods a node certainly admits first.
//
// Pod f is admitted before pod g in two cases. Either f was known to be admitted when g had its turn. Or the API
// server had the binding of f by then, and f was created in an earlier second than g: a kubelet receives bindings in
// the order in which the API server got them, so it receives f first. If the kubelet receives several at once, as
// after its start, it sorts them by creation time (pkg/kubelet/kubelet.go, HandlePodAdditions).

// admittedBefore reports whether f was known to be admitted when g had its turn.
func (f *assumedPod) admittedBefore(g *assumedPod) bool { return f.acked != 0 && f.acked <= g.turned }

// precedes reports whether the node certainly admits f before me, a pod whose turn comes now.
func (f *assumedPod) precedes(me *assumedPod) bool {
	return f.bound && f.created != 0 && f.created < me.created
}

// ticketMoments returns a moment for the ticket of each pod (see assumed.go): pods with tickets from before that
// moment are admitted earlier. Pods of one shape may exchange tickets, and pods that are known to come later take the
// last tickets. So the moment of a ticket is the least assumedPod.after among the pods of its shape with this ticket
// or a later one.
func ticketMoments(assumed []*assumedPod) []int {
	out := make([]int, len(assumed))
	for i, f := range assumed {
		out[i] = f.after
		for _, g := range assumed[i+1:] {
			if g.shape == f.shape {
				out[i] = min(out[i], g.after)
			}
		}
	}
	return out
}

// markMissing marks as uncertain every pod that a report does not list although the node admitted it before a pod
// that the report lists. Such a pod has ended or was refused, or the report is not yet complete for it. missing is
// set if there is one.
func (a *account) markMissing(listed func(uid string) bool) (missing bool) {
	last := 0 // pods with an earlier turn were admitted before a pod in the report
	turned := a.assumed[:a.turnedCount()]
	for i, at := range ticketMoments(turned) {
		if listed(turned[i].id.UID) && turned[i].decision == nil {
			last = max(last, at)
		}
	}
	for _, f := range turned {
		if f.turned < last && !listed(f.id.UID) && f.decision == nil {
			f.uncertain, missing = true, true
		}
	}
	return missing
}
