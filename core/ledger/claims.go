package ledger

import "slices"

// claims records which nodes report which pods, by UID. A pod runs on one node, so nearly always one node reports it.
// But a node may list pods of other nodes, by mistake or on purpose. The claims of several nodes are therefore
// independent: none replaces another.
type claims struct {
	first map[string]string
	more  map[string][]string // nodes beyond the first
}

func newClaims() claims { return claims{map[string]string{}, map[string][]string{}} }

// put records that a node reports a pod.
func (c claims) put(uid, node string) {
	switch first, taken := c.first[uid]; {
	case !taken:
		c.first[uid] = node
	case first != node && !slices.Contains(c.more[uid], node):
		c.more[uid] = append(c.more[uid], node)
	}
}

// drop records that a node no longer reports a pod.
func (c claims) drop(uid, node string) {
	more := c.more[uid]
	switch at := slices.Index(more, node); {
	case at >= 0:
		more = slices.Delete(more, at, at+1)
	case c.first[uid] != node:
		return
	case len(more) == 0:
		delete(c.first, uid)
	default:
		c.first[uid], more = more[0], more[1:]
	}
	if len(more) == 0 {
		delete(c.more, uid)
	} else {
		c.more[uid] = more
	}
}

// has reports whether a node reports a pod.
func (c claims) has(uid, node string) bool {
	first, taken := c.first[uid]
	return taken && (first == node || slices.Contains(c.more[uid], node))
}

// nodes returns the nodes that report a pod, in ascending order of name.
func (c claims) nodes(uid string) []string {
	first, taken := c.first[uid]
	if !taken {
		return nil
	}
	out := append([]string{first}, c.more[uid]...)
	slices.Sort(out)
	return out
}
