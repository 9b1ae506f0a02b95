package whatif

import "github.com/tenon-numa/tenon/core/place"

// MaxSlots bounds the pods of a shape that [Slots] counts on one node.
const MaxSlots = 10_000

// Slots counts the pods of a shape that fit on a node one after the other, beside its present pods. A pod must fit on
// the NUMA nodes and in the amounts of the whole node. It returns at most [MaxSlots].
func Slots(n Node, p *place.Pod) int { return Rules{}.Room(n, OfShape(p), MaxSlots) }

// OfShape returns what pods of a shape want of a node by their containers alone.
func OfShape(p *place.Pod) *Want { return &Want{Pod: p, Needs: needsOf(p)} }

// needsOf returns what a pod requests of the whole node: of each resource its containers and sidecars together, or an
// init container with the sidecars before it, whichever is more (KEP-753).
func needsOf(p *place.Pod) Amounts {
	sum, sidecars, inits := Amounts{}, Amounts{}, Amounts{}
	for _, c := range p.Containers {
		one := Amounts{"cpu": c.MilliCPU}
		for _, m := range c.Memory {
			one[m.Kind] = m.Bytes
		}
		for _, d := range c.Devices {
			one[d.Resource] = d.N
		}
		switch c.Kind {
		case place.Init:
			for name, amount := range one {
				inits[name] = max(inits[name], sidecars[name]+amount)
			}
		case place.Sidecar:
			sidecars, sum = sidecars.Add(one), sum.Add(one)
		default:
			sum = sum.Add(one)
		}
	}
	for name, amount := range inits {
		sum[name] = max(sum[name], amount)
	}
	sum["pods"] = 1
	return sum
}
