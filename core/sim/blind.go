package sim

import "github.com/tenon-numa/tenon/core/score"

// blindly is a picker like kube-scheduler without a plugin for NUMA nodes: it uses amounts of whole nodes.
type blindly struct {
	cluster *cluster
	chance  *chance
	score   func(allocatable, asked, request amounts, memory int) int64
}

// newBlindly returns a picker that prefers the emptiest node, or the fullest one if the strategy is MostAllocated.
func newBlindly(c *cluster, strategy score.Type, r *chance) *blindly {
	b := &blindly{cluster: c, chance: r, score: leastAllocated}
	if strategy == score.MostAllocated {
		b.score = mostAllocated
	}
	return b
}

func (b *blindly) pick(shape int, among []int) (int, bool) {
	c, best := b.cluster, choice{chance: b.chance}
	if among == nil {
		for _, s := range c.live {
			if hasRoom(c.fleets[s.fleet], s.asked, c.requests[shape]) {
				best.offer(b.score(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory), s.nodes...)
			}
		}
	}
	for _, n := range among {
		s := c.nodes[n].state
		if hasRoom(c.fleets[s.fleet], s.asked, c.requests[shape]) {
			best.offer(b.score(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory), n)
		}
	}
	return best.node, best.equals > 0
}

func (b *blindly) podArrived(int)       {}
func (b *blindly) podSent(int, int)     {}
func (b *blindly) podLeft(int)          {}
func (b *blindly) nodesReported() []int { return nil }
