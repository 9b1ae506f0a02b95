package score

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// MaxShapes bounds the shapes of a mix, since every node computes an answer for each of them.
const MaxShapes = 16

// maxColumns bounds the different resources of all shapes of a mix together: CPUs, kinds of memory, devices.
const maxColumns = 12

// fullWeight is the sum of the weights of a mix, except for rounding.
const fullWeight = 256

// The weights of amounts, so that a large pod counts more than a small one: a CPU 4, a device 64, 1 GiB of memory 1.
// The proportions follow machines with devices: some 16 CPUs and 64 GiB for each device.
const (
	worthCPU    = 4
	worthDevice = 16 * worthCPU
	gibibyte    = 1 << 30
)

// Share is a shape of pods, and how many of them were requested.
type Share struct {
	Pod    *place.Pod // container names do not count
	Weight int64      // 1..MaxWeight; a share with less does not count, a higher weight counts as MaxWeight
}

// Mix is a workload profile: the pods that a cluster usually runs. A placement is judged by what it takes away from
// such pods. [NewMix] makes it, and it never changes. A nil Mix has no pods.
type Mix struct {
	shares      []Share
	texts       []string // of the shapes
	shapes      []shape
	columns     []string // cpu, then kinds of memory, then resources with devices
	firstDevice int      // the first column with devices
	unseen      int64    // weight of the unseen pod, out of fullWeight; see unseen.go
}

// shape is a pod in terms of the columns of a mix.
type shape struct {
	weight int64  // of fullWeight
	worth  int64  // at least 1
	whole  []need // the pod
	widest []need // the container with the highest worth
	memory bool   // the managers assign memory to the pod
}

// need is an amount of one column, above 0: CPUs, bytes or devices. The needs of a shape begin with devices, because
// there are fewest of them.
type need struct {
	column int
	amount int64
	// inverse is the greatest 64-bit number divided by amount; see times.
	inverse uint64
}

func needOf(column int, amount int64) need {
	return need{column, amount, math.MaxUint64 / uint64(amount)}
}

// times returns how often the amount is contained in free, which is at least 0. A multiplication takes a fraction of
// the time of a division; its result is the quotient or one less.
func (n *need) times(free int64) int64 {
	high, _ := bits.Mul64(uint64(free), n.inverse)
	if q := int64(high); free-q*n.amount < n.amount {
		return q
	}
	return int64(high) + 1
}

// NewMix returns the mix of some shares, in any order. It merges shares of equal shape, and leaves out pods that no
// node aligns. Of the other shapes it uses the [MaxShapes] with the highest weight times worth; it leaves out a shape
// for which the mix has too few columns left.
func NewMix(shares []Share) *Mix {
	counted := make([]countedShare, 0, len(shares))
	for _, s := range shares {
		if s.Pod != nil && s.Weight > 0 {
			counted = append(counted, countShare(s))
		}
	}
	return newMix(counted)
}

// countedShare is a share with what NewMix computes from its pod.
type countedShare struct {
	Share
	text  string // of the shape
	wants map[string]int64
	worth int64 // at least 1
}

// countShare returns the countedShare of a share.
func countShare(s Share) countedShare {
	wants := podWants(s.Pod)
	return countedShare{s, s.Pod.Shape(), wants, max(1, worth(wants))}
}

// newMix is NewMix of shares with a pod and a weight.
func newMix(shares []countedShare) *Mix {
	out, total, seen := &Mix{}, int64(0), int64(0)
	names := map[string]bool{cpu: true}
	for _, s := range merged(shares) {
		if len(s.wants) > 0 {
			seen += s.Weight
		}
		if len(out.shares) == MaxShapes || len(s.wants) == 0 || !room(names, s.wants) {
			continue
		}
		for name := range s.wants {
			names[name] = true
		}
		out.shares, out.texts = append(out.shares, s.Share), append(out.texts, s.text)
		total += s.Weight
	}
	out.unseen = fullWeight / (seen + 1)
	delete(names, cpu)
	out.columns = append([]string{cpu}, slices.SortedFunc(maps.Keys(names), byKind)...)
	out.firstDevice = len(out.columns)
	if i := slices.IndexFunc(out.columns[1:], isDevice); i >= 0 {
		out.firstDevice = 1 + i
	}
	for i := range out.shares {
		out.shares[i].Weight = max(1, out.shares[i].Weight*fullWeight/total)
		out.shapes = append(out.shapes, out.shape(out.shares[i]))
	}
	return out
}

// Shares returns the shapes of the mix, highest weight times worth first. Their weights add up to 256, except for
// rounding. The caller must not change them.
func (m *Mix) Shares() []Share {
	if m == nil {
		return nil
	}
	return m.shares
}

// Worths returns what one pod of each of Shares is worth: its size, times the weight of its shape, as fragmentation
// costs count it.
func (m *Mix) Worths() (out []int64) {
	if m == nil {
		return nil
	}
	for i := range m.shapes {
		out = append(out, m.shapes[i].worth*m.shapes[i].weight)
	}
	return out
}

// merged returns one share for every shape, highest weight times worth first, since a rare large shape may take as
// much of a cluster as a common small one. Shapes with equal products are in the order of their texts.
func merged(shares []countedShare) []countedShare {
	at := make(map[string]int, len(shares))
	var out []countedShare
	for _, s := range shares {
		s.Weight = min(s.Weight, MaxWeight)
		if i, seen := at[s.text]; seen {
			s.Weight = min(out[i].Weight+s.Weight, MaxWeight)
			out[i] = s
			continue
		}
		at[s.text] = len(out)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b countedShare) int {
		return cmp.Or(cmp.Compare(b.Weight*b.worth, a.Weight*a.worth), strings.Compare(a.text, b.text))
	})
	return out
}

// room reports whether there are enough columns for names and wants together.
func room(names map[string]bool, wants map[string]int64) bool {
	more := 0
	for name := range wants {
		if !names[name] {
			more++
		}
	}
	return len(names)+more <= maxColumns
}

// isDevice reports whether a resource is neither CPUs nor a kind of memory.
func isDevice(name string) bool {
	return name != cpu && name != topo.Memory && !strings.HasPrefix(name, "hugepages-")
}

// byKind orders kinds of memory before resources with devices.
func byKind(a, b string) int {
	if isDevice(a) != isDevice(b) {
		if isDevice(b) {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// shape returns the shape of a share. The columns of m must be complete.
func (m *Mix) shape(s Share) shape {
	out := shape{weight: s.Weight}
	wants := podWants(s.Pod)
	out.whole, out.worth = m.needs(wants), max(1, worth(wants))
	highest := int64(-1)
	for i := range s.Pod.Containers {
		wants := containerWants(s.Pod, &s.Pod.Containers[i])
		if w := worth(wants); len(wants) > 0 && w > highest {
			highest, out.widest = w, m.needs(wants)
		}
	}
	out.memory = slices.ContainsFunc(out.whole, func(n need) bool { return n.column > 0 && n.column < m.firstDevice })
	return out
}

// needs returns the wanted amounts as needs, in descending order of columns.
func (m *Mix) needs(wants map[string]int64) (out []need) {
	for i := len(m.columns) - 1; i >= 0; i-- {
		if n := wants[m.columns[i]]; n > 0 {
			out = append(out, needOf(i, min(n, topo.MaxBytes)))
		}
	}
	return out
}

// podWants returns the most that a pod needs at once: its containers and sidecars, or an init container with the
// sidecars that start before it.
func podWants(p *place.Pod) map[string]int64 {
	out, beside, inits := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for i := range p.Containers {
		c := &p.Containers[i]
		for name, n := range containerWants(p, c) {
			switch c.Kind {
			case place.Init:
				inits[name] = max(inits[name], beside[name]+n)
				continue
			case place.Sidecar:
				beside[name] = min(beside[name]+n, topo.MaxBytes)
			}
			out[name] = min(out[name]+n, topo.MaxBytes)
		}
	}
	for name, n := range inits {
		out[name] = max(out[name], n)
	}
	return out
}

// containerWants returns the part of a container's requests that a node's managers may assign. Devices count in any
// pod. Memory, and CPUs in a whole number, count only in a pod that can have them for itself ([place.Pod.Exclusive]).
func containerWants(p *place.Pod, c *place.Container) map[string]int64 {
	out := map[string]int64{}
	if p.Exclusive() {
		if c.MilliCPU > 0 && c.MilliCPU%1000 == 0 {
			out[cpu] = c.MilliCPU / 1000
		}
		for _, a := range c.Memory {
			if a.Bytes > 0 {
				out[a.Kind] = a.Bytes
			}
		}
	}
	for _, d := range c.Devices {
		if d.N > 0 {
			out[d.Resource] = d.N
		}
	}
	return out
}

// worth adds up the worth of amounts. An amount beyond the largest machine counts as the amount of that machine.
func worth(wants map[string]int64) (sum int64) {
	for name, n := range wants {
		switch {
		case name == cpu:
			sum += worthCPU * min(n, topo.MaxCPUs)
		case isDevice(name):
			sum += worthDevice * min(n, topo.MaxDevices)
		default:
			sum += min(n, topo.MaxBytes) / gibibyte
		}
	}
	return sum
}
