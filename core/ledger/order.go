package ledger

// This file decides which of two pods a node certainly admits first.
//
// The first is admitted first if that was known when the second had its turn. It is also admitted first if its
// binding was known by then, and it was created in an earlier second. A kubelet receives bindings in the order of the
// API server, which has the first pod's binding before the second's. If the kubelet receives several at once, as
// after its start, it sorts them by creation time (pkg/kubelet/kubelet.go, HandlePodAdditions).

// before reports whether f was known to be admitted when g had its turn.
func (f *assumedPod) before(g *assumedPod) bool { return f.acked != 0 && f.acked <= g.turned }

// precedes reports whether the node certainly admits f before me, a pod whose turn comes now.
func (f *assumedPod) precedes(me *assumedPod) bool {
	return f.bound && f.created != 0 && f.created < me.created
}

// after returns, for the ticket of each pod, a moment: tickets from before that moment are admitted earlier. Pods of
// one shape may exchange tickets, and pods that are known to come later take the last tickets. So the moment of a
// ticket is the earliest one among all pods of its shape in this and in later tickets.
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
