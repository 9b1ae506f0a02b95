package ledger

// This file says which of two pods a node surely admits first.
//
// The first is admitted first if that was known when the second had its turn. It is also admitted first if its binding
// was known by then, and it was created in an earlier second. A kubelet receives bindings in the order of the API
// server, which has the binding of the first one before that of the second. Where it receives several at once, as after
// its start, it sorts them by creation time (pkg/kubelet/kubelet.go, HandlePodAdditions).

// before reports whether f was known to be admitted when g had its turn.
func (f *assumedPod) before(g *assumedPod) bool { return f.acked != 0 && f.acked <= g.turned }

// precedes reports whether the node admits f before a pod whose turn comes now.
func (f *assumedPod) precedes(me *assumedPod) bool {
	return f.bound && f.created != 0 && f.created < me.created
}

// after returns for the slot of each pod the moment before which other slots are admitted earlier. Pods of one shape
// may change slots: the last slots are those of the pods that are known to come later than others. So a slot is after
// what all pods of its shape in this and in later slots are after.
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

// leftOut marks the pods that a report leaves out though the node admitted them before one that it lists, and reports
// whether there are any. Such a pod has ended or was refused, or the report does not have all of it yet.
func (a *account) leftOut(listed func(uid string) bool) (any bool) {
	last := 0 // pods that had their turn before it were admitted before a pod that is listed
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
