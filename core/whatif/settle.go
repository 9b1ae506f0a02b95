package whatif

import "github.com/tenon-numa/tenon/core/assign"

// This file places pods that come once others have left, where there is room before that.

// Settle gives pods nodes, each in its turn: of the nodes that have room for the pod in now, beside the pods before it,
// and that are in its list of among if there is one, the best one in then, where some nodes are replaced by others. It
// returns nil for places if a pod gets none, or else the nodes as they are in then with all pods. Neither plan changes:
// both have the same nodes. Settle calls step before every pod; if step returns an error, it returns that error.
func Settle(now, then *Plan, replaced map[int]Node, pods []Member, among [][]int,
	step func() error) (places []Placement, after []Node, err error) {
	now.onTrial(func() {
		then.onTrial(func() {
			for i, n := range replaced {
				then.replace(i, n)
			}
			nearNow, nearThen := neighbourhood{}, neighbourhood{}
			for k, m := range pods {
				if err = step(); err != nil {
					places = nil
					return
				}
				var list []int
				if among != nil {
					list = among[k]
				}
				open := now.open(m.Want, nearNow.of(now, m.Want), list)
				at, _ := then.cheapest(then.shapeCosts(m.Want), m.Want, nearThen.of(then, m.Want), open)
				if at < 0 {
					places = nil
					return
				}
				nearNow.put(now, m, at)
				places = append(places, nearThen.put(then, m, at))
			}
			after = append(after, then.nodes...)
		})
	})
	return places, after, err
}

// replace replaces a node on trial.
func (p *Plan) replace(i int, n Node) {
	p.undo = append(p.undo, undone{i, p.nodes[i]})
	p.nodes[i] = n
	p.changes[i]++
	p.got[i]++
}

// open returns the positions of the nodes that have room for a pod, of those in a list if there is one.
func (p *Plan) open(w *Want, neighbours Neighbours, among []int) []int {
	c, out := p.shapeCosts(w), []int{}
	if among == nil {
		among = p.all()
	}
	for i := range among {
		if at, _ := p.cheapest(c, w, neighbours, among[i:i+1]); at != assign.Left {
			out = append(out, at)
		}
	}
	return out
}
