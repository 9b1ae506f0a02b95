package ledger

import "github.com/tenon-numa/tenon/core/place"

// unplaced are the pods that are in the amounts of a coarse node, of which it is not known where they are.
type unplaced struct {
	pods   map[string]*place.Pod // by UID; nil where it is not known what it asked for
	layout *Layout
}

// unplaced returns them for a node of such entries, or nil.
func (a *account) unplaced(base *Node) *unplaced {
	if base.Quality != Coarse || len(a.coarse.counted) == 0 {
		return nil
	}
	out := &unplaced{pods: map[string]*place.Pod{}, layout: a.layout}
	for uid, r := range a.coarse.counted {
		_, left := a.gone[uid]
		if _, known := base.Entry(uid); !known && !left {
			out.pods[uid] = r.pod
		}
	}
	return out
}

// Unplaced reports whether the amounts of a coarse node account for a pod of which it is not known where it is.
func (n *Node) Unplaced(uid string) bool {
	if n.unplaced == nil {
		return false
	}
	_, is := n.unplaced.pods[uid]
	return is
}

// lacking returns the node without some of its unplaced pods, in every state in which it may be then: what
// each of their containers held was on any one of the numas that hold as much. It is unsettled where there are
// too many states, where a container may have been on several numas, and where nobody knows what it held.
func (n *Node) lacking(uids []string) *Node {
	if n.unplaced == nil {
		return n
	}
	nodes, sure, told := append([]*Node{n}, n.Others...), true, account{layout: n.unplaced.layout}
	for _, uid := range uids {
		p, is := n.unplaced.pods[uid]
		if !is {
			continue
		}
		if p == nil {
			sure = false
			continue
		}
		hs, _ := told.needs(p)
		for _, lot := range told.lots(p, told.shown(hs)) {
			next := without(nodes, lot)
			if len(next) == 0 || len(next) > maxStates {
				sure = false
				break
			}
			nodes = next
		}
	}
	out := *nodes[0]
	out.Others, out.Unsettled = nil, n.Unsettled || !sure
	for _, o := range nodes[1:] {
		other := *o
		other.Others = nil
		out.Others = append(out.Others, &other)
	}
	return &out
}
