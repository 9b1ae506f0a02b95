package sim

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file models scheduler-plugins' NodeResourceTopologyMatch with its cache OverReserve, after its code
// (pkg/noderesourcetopology, 2026-08):
//
//  - A pod sent to a node is subtracted from every zone until the node is synchronised, whatever its QoS and zone.
//    This includes pods that the kubelet refused and pods that have ended.
//  - A node is synchronised only when it reports, and only if the filter has refused some pod there since. In this
//    model reports come on time and always match the pods of the node, and every waiting pod is then tried again.
//    Both are better than in reality.
//  - The filter looks at nodes with policy single-numa-node only. It keeps a mask of zones for every resource, and
//    some zone must be in all of them. It does not subtract init containers.
//  - The score is that of LeastAllocated, the default, or of MostAllocated: the least of all zones that would do, the
//    mean over containers; 0 for other policies. NodeResourcesFit with the same strategy and weight is added.

// charging is the picker of this model. It has the nodes' last reports, and the pods sent to the nodes since.
type charging struct {
	cluster *cluster
	chance  *chance
	nodes   []charged
	wants   []wants // by shape
	packs   bool    // the score is MostAllocated
}

// charged is what the modelled scheduler stores about one node.
type charged struct {
	zones   []amounts // as reported
	assumed amounts   // of the pods sent since; to be subtracted from each zone
	dirty   bool      // the filter has refused a pod here since the last report
	views   []view    // by shape
}

// view is the result of the filter and the score for a shape on a node.
type view struct {
	known, fits bool
	misaligned  bool // the alignment filter refused
	score       int64
}

// wants are the requests of a shape in the form that the filter uses.
type wants struct {
	whole      amounts
	containers []amounts
	init       []bool
	guaranteed bool
}

func newCharging(c *cluster, r *chance, packs bool) *charging {
	k := &charging{cluster: c, chance: r, nodes: make([]charged, len(c.nodes)), packs: packs}
	for i := range c.trace.Shapes {
		pod := &c.trace.Shapes[i].Pod
		w := wants{whole: c.requests[i], guaranteed: pod.QoS == place.Guaranteed}
		for j := range pod.Containers {
			w.containers = append(w.containers, c.names.container(&pod.Containers[j]))
			w.init = append(w.init, pod.Containers[j].Kind != place.App)
		}
		k.wants = append(k.wants, w)
	}
	for n := range k.nodes {
		k.synchronise(n)
	}
	return k
}

// synchronise models a report of node n: its zones become what the node really has free. The amounts that were
// assumed, the cached views and the mark dirty are reset.
func (k *charging) synchronise(n int) {
	c := k.cluster
	k.nodes[n] = charged{zones: c.zones(c.nodes[n].state.usage), assumed: make(amounts, len(c.names)),
		views: make([]view, len(k.wants))}
}

// zones returns what every NUMA node has free, in the form of exporters' reports.
func (c *cluster) zones(u *place.Usage) []amounts {
	out := make([]amounts, len(u.Machine.NUMAs()))
	for i, numa := range u.Machine.NUMAs() {
		z := make(amounts, len(c.names))
		z[0] = int64(numa.CPUs.AndLen(u.FreeCPUs())) * 1000
		for _, kind := range u.Kinds() {
			z[c.names.index(kind)] = u.FreeMemory(i, kind)
		}
		for at, r := range u.Machine.Resources() {
			z[c.names.index(r.Name)] = u.FreeDevicesOn(at, 1<<uint(i))
		}
		out[i] = z
	}
	return out
}

// pick chooses the node with the best view. It marks the nodes whose alignment filter refuses the pod.
func (k *charging) pick(shape int, among []int) (int, bool) {
	best := choice{chance: k.chance}
	offer := func(n int) {
		if v := k.view(n, shape); v.fits {
			best.offer(v.score, n)
		} else if v.misaligned {
			k.nodes[n].dirty = true
		}
	}
	if among == nil {
		for n := range k.nodes {
			offer(n)
		}
	}
	for _, n := range among {
		offer(n)
	}
	return best.node, best.equals > 0
}

// view returns the view of a node. It is cached until an event on the node.
func (k *charging) view(n, shape int) *view {
	v := &k.nodes[n].views[shape]
	if v.known {
		return v
	}
	c := k.cluster
	s := c.nodes[n].state
	*v = view{known: true}
	if !hasRoom(c.fleets[s.fleet], s.asked, c.requests[shape]) {
		return v
	}
	total := leastAllocated
	if k.packs {
		total = mostAllocated
	}
	v.fits, v.score = true, total(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory)
	rules := s.usage.Rules.Topology
	w := &k.wants[shape]
	if rules.Policy != place.SingleNUMA || c.trace.Shapes[shape].Pod.QoS == place.BestEffortQoS {
		return v
	}
	containers, init := w.containers, w.init
	if rules.Scope == place.PerPod {
		containers, init = []amounts{w.whole}, []bool{false}
	}
	zones := k.nodes[n].free()
	if w.guaranteed {
		v.score += k.zoneScore(zones, containers)
	}
	v.fits = k.aligns(s.usage.Machine, zones, containers, init, w.guaranteed)
	v.misaligned = !v.fits
	return v
}

// free returns what the assumed pods leave of the zones.
func (c *charged) free() []amounts {
	out := make([]amounts, len(c.zones))
	for i, z := range c.zones {
		out[i] = make(amounts, len(z))
		for r := range z {
			out[i][r] = max(0, z[r]-c.assumed[r])
		}
	}
	return out
}

// aligns is the filter: it reports whether each container finds a zone. It changes zones: what an app container gets
// is subtracted.
func (k *charging) aligns(m *topo.Machine, zones, containers []amounts, init []bool, guaranteed bool) bool {
	for i, want := range containers {
		mask := uint64(m.All())
		for r, n := range want {
			if n > 0 {
				mask &= k.suitable(m, zones, r, n, guaranteed)
			}
		}
		if mask == 0 {
			return false
		}
		if !init[i] {
			z := zones[bits.TrailingZeros64(mask)]
			for r, n := range want {
				z[r] = max(0, z[r]-n)
			}
		}
	}
	return true
}

// suitable returns the zones that have n of a resource. All zones are suitable for a device that no zone lists, and,
// if the pod is not Guaranteed, for CPUs and memory.
func (k *charging) suitable(m *topo.Machine, zones []amounts, r int, n int64, guaranteed bool) (mask uint64) {
	name := k.cluster.names[r]
	res, device := m.Resource(name)
	if device && res.NUMAs == 0 || !guaranteed && !device {
		return ^uint64(0)
	}
	for i, z := range zones {
		if z[r] >= n {
			mask |= 1 << uint(i)
		}
	}
	return mask
}

// zoneScore returns the mean over containers of the least non-zero score of all zones.
func (k *charging) zoneScore(zones, containers []amounts) (score int64) {
	for _, want := range containers {
		least := int64(0)
		for _, z := range zones {
			sum, count := int64(0), int64(0)
			for r, n := range want {
				if n > 0 {
					count++
					switch {
					case n > z[r]:
					case k.packs:
						sum += 100 * n / z[r]
					default:
						sum += 100 * (z[r] - n) / z[r]
					}
				}
			}
			if s := sum / max(1, count); s > 0 && (least == 0 || s < least) {
				least = s
			}
		}
		score += least
	}
	return score / int64(max(1, len(containers)))
}

func (k *charging) podArrived(int) {}

// podSent subtracts the pod from every zone of the node, even if the kubelet refused it.
func (k *charging) podSent(n, shape int) {
	for r, x := range k.wants[shape].whole {
		k.nodes[n].assumed[r] = saturated(k.nodes[n].assumed[r], x)
	}
	clear(k.nodes[n].views)
}

// podLeft gives nothing back to the zones before the next report; only the plain amounts of the node have changed.
func (k *charging) podLeft(n int) { clear(k.nodes[n].views) }

// nodesReported synchronises the nodes where the filter has refused a pod since the last report.
func (k *charging) nodesReported() (changed []int) {
	for n := range k.nodes {
		if k.nodes[n].dirty {
			k.synchronise(n)
			changed = append(changed, n)
		}
	}
	return changed
}
