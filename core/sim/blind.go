package sim

// blindly is kube-scheduler without a plugin for NUMA nodes: it uses amounts of whole nodes, and chooses the emptiest
// node.
type blindly struct {
	cluster *cluster
	chance  *chance
}

func (b *blindly) pick(shape int, among []int) (int, bool) {
	c, best := b.cluster, choice{chance: b.chance}
	if among == nil {
		for _, s := range c.live {
			if room(c.fleets[s.fleet], s.asked, c.requests[shape]) {
				best.offer(leastAllocated(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory), s.nodes...)
			}
		}
	}
	for _, n := range among {
		s := c.nodes[n].state
		if room(c.fleets[s.fleet], s.asked, c.requests[shape]) {
			best.offer(leastAllocated(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory), n)
		}
	}
	return best.node, best.equals > 0
}

func (b *blindly) arrived(int)     {}
func (b *blindly) sent(int, int)   {}
func (b *blindly) left(int)        {}
func (b *blindly) reported() []int { return nil }
