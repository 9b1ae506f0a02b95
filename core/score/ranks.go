package score

import "slices"

// steps are the points by which a node scores less than the next better one. They depend on the most important term
// in which the costs of the two nodes differ. Every unit is a power of 2.
var steps = [...]struct{ unit, points int64 }{
	{costNUMA, 40},
	{costDistance, 25},
	{costShort, 20},
	{costWait, 20},
	{costLocal, 20},
	{costDamage, 15},
	{1, 10},
}

// Scores turns the costs of the nodes that a pod can choose from into scores of 0 to [Max], in place.
//
// Tenon's cost is an order without a scale: a cost a thousand times higher is not a thousand times worse, and one
// node with a high cost must not make all others equal for the plugins that score beside this one. So the lowest cost
// gets Max, and every higher cost gets fewer points than the next lower one, by the term in which the two differ. If
// the differences exceed the available points, they are scaled down, to at least one point for each cost; a hundred
// costs get a hundred scores in their order. A node without any report scores 0 beside other nodes. The other types
// have their own scale, so a node's score does not depend on the other nodes.
func (s Strategy) Scores(costs []int64) {
	if s.Type != Tenon {
		for i, c := range costs {
			costs[i] = min(max(Max-c, 0), Max)
		}
		return
	}
	if len(costs) == 0 {
		return
	}
	room := make([]int64, 2*len(costs))
	ranks := room[:len(costs)]
	copy(ranks, costs)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	scores := ranked(ranks, room[len(costs):][:len(ranks)])
	for i, c := range costs {
		at, _ := slices.BinarySearch(ranks, c)
		costs[i] = scores[at]
	}
}

// ranked stores the score of every cost in out, which has zeros, and returns it. costs has at least one entry, in
// strictly ascending order.
func ranked(costs, out []int64) []int64 {
	reported := costs // the costs of nodes with a report
	if n := len(costs); n > 1 && costs[n-1] >= costUnknown {
		reported = costs[:n-1]
	}
	lost := out[:len(reported)] // points lost in all, up to each cost
	for i := 1; i < len(reported); i++ {
		lost[i] = lost[i-1] + points(reported[i-1], reported[i])
	}
	const available = Max - 1 // a node with a report scores at least 1
	// Every cost but the first loses at least one point. The points beyond that are scaled to what is available.
	least := int64(len(reported) - 1)
	allowed, beyond := max(0, available-least), lost[least]-least
	for i, l := range lost {
		if at := int64(i); beyond > allowed {
			l = at + (l-at)*allowed/beyond
		}
		out[i] = max(Max-l, 0)
	}
	return out
}

// points returns how many points less a node of cost high scores than a node of cost low. The costs differ in a term
// or a more important one exactly if their highest different bit has at least the term's unit.
func points(low, high int64) int64 {
	for _, s := range steps {
		if low^high >= s.unit {
			return s.points
		}
	}
	return 0
}
