package whatif

// This file places pods that come in the place of others, one after the other.

// Succession is a pod that comes in the place of another one.
type Succession struct {
	Member
	// From is the position of the node that the other pod leaves, and Leave returns that node without it.
	From  int
	Leave func(n Node) Node
}

// Succeed moves pods one after the other: each gets, of the nodes that have room for it while the other pod is still
// there, the best one once that has left, as kube-scheduler chooses. Succeed returns no places if a pod gets none, and
// otherwise the nodes as they are in the end. The plan does not change. Succeed calls step before every pod; if step
// returns an error, it returns that error.
func (p *Plan) Succeed(all []Succession, step func() error) (places []Placement, after []Node, err error) {
	p.onTrial(func() {
		near := neighbourhood{}
		for _, s := range all {
			if err = step(); err != nil {
				places = nil
				return
			}
			neighbours := near.of(p, s.Want)
			open := p.open(s.Want, neighbours)
			p.undo = append(p.undo, undone{s.From, p.nodes[s.From]})
			p.nodes[s.From] = s.Leave(p.nodes[s.From])
			p.changes[s.From]++
			p.got[s.From]++ // onTrial takes one away
			at, _ := p.cheapest(p.shapeCosts(s.Want), s.Want, neighbours, open)
			if at < 0 {
				places = nil
				return
			}
			places = append(places, near.put(p, s.Member, at))
		}
		after = append(after, p.nodes...)
	})
	return places, after, err
}

// open returns the positions of the nodes that have room for a pod.
func (p *Plan) open(w *Want, neighbours Neighbours) []int {
	c, out := p.shapeCosts(w), []int{}
	for _, i := range p.all() {
		if at, _ := p.cheapest(c, w, neighbours, []int{i}); at >= 0 {
			out = append(out, at)
		}
	}
	return out
}
