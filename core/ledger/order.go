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

// after returns for the slot of each pod the moment before which other slots are admitted earlier. Pods of one shape may
// change slots: the last slots are those of the pods that are known to come later than others. So a slot is after what
// all pods of its shape in this and in later slots are after.
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
