package ledger

// This file decides which of two pods a node certainly admits first.
//
// Pod f is admitted before pod g if f was known to be admitted when g had its turn. So it is, too, if by then the API
// server had the binding of f, and f was created in an earlier second than g. A kubelet receives bindings in the
// order in which the API server got them, so it receives f first. If the kubelet receives several at once, as after
// its start, it sorts them by creation time (pkg/kubelet/kubelet.go, HandlePodAdditions).

// before reports whether f was known to be admitted when g had its turn.
func (f *assumedPod) before(g *assumedPod) bool { return f.acked != 0 && f.acked <= g.turned }

// precedes reports whether the node certainly admits f before me, a pod whose turn comes now.
func (f *assumedPod) precedes(me *assumedPod) bool {
	return f.bound && f.created != 0 && f.created < me.created
}

// after returns a moment for the ticket of each pod (see assumed.go): the pods with tickets from before that moment
// are admitted earlier. Pods of one shape may exchange tickets, and pods that are known to come later take the last
// tickets. So the moment of a ticket is the earliest one among all pods of its shape in this and in later tickets.
func after(assumed []*assumedPod) []int {
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

// markMissing marks as uncertain every pod that a report does not list although the node admitted it before a pod that
// the report lists. any is set if there is such a pod. It has ended or was refused, or the report is not yet complete
// for it.
func (a *account) markMissing(listed func(uid string) bool) (any bool) {
	last := 0 // pods with an earlier turn were admitted before a pod in the report
	turned := a.assumed[:a.turned()]
	for i, at := range after(turned) {
		if listed(turned[i].id.UID) && turned[i].decision == nil {
			last = max(last, at)
		}
	}
	for _, f := range turned {
		if f.turned < last && !listed(f.id.UID) && f.decision == nil {
			f.uncertain, any = true, true
		}
	}
	return any
}
