package metrics

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/component-base/metrics"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Bounds of what is counted.
const (
	maxNamed   = 8    // shapes that the configuration names
	maxLearned = 4    // shapes of the workload profile
	maxOnNode  = 256  // pods of a shape on one node
	maxCounts  = 2000 // nodes that are counted anew in one scrape, all shapes together
)

// fitting counts how many more pods of some shapes fit. What was counted of a node holds until the node changes. A
// scrape counts a bounded number of nodes anew, so that it is cheap after a start in a large cluster too; a shape has
// no number before all nodes were counted for it once.
type fitting struct {
	desc    *metrics.Desc
	named   []*place.Pod
	learned func() *score.Mix // nil: nothing is learned

	mu     sync.Mutex
	counts map[string]map[string]count // by shape, and by name of the node
}

// count is how many pods fitted on a node when it was in a state. States do not change; a node gets another one.
type count struct {
	of   *ledger.Node
	pods int
}

func newFitting(named []*place.Pod, learned func() *score.Mix) *fitting {
	return &fitting{named: named[:min(len(named), maxNamed)], learned: learned, counts: map[string]map[string]count{},
		desc: metrics.NewDesc("tenon_fitting_pods", "How many more pods of a shape fit on all nodes together, as far as "+
			"NUMA nodes decide: CPUs, memory, hugepages and devices.", []string{"shape"}, nil, metrics.ALPHA, "")}
}

// shapes are those of the configuration, and then the most usual ones, each once.
func (f *fitting) shapes() (out []*place.Pod) {
	out = slices.Clone(f.named)
	if f.learned == nil {
		return out
	}
	learned := 0
	for _, s := range f.learned().Shares() {
		known := slices.ContainsFunc(out, func(p *place.Pod) bool { return document.Shape(p) == document.Shape(s.Pod) })
		if !known && learned < maxLearned {
			out = append(out, s.Pod)
			learned++
		}
	}
	return out
}

// collect counts on the nodes of a snapshot.
func (f *fitting) collect(snap *ledger.Snapshot, ch chan<- metrics.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left, seen := maxCounts, map[string]bool{}
	for _, p := range f.shapes() {
		name := document.Shape(p)
		seen[name] = true
		sum, whole := f.sum(snap, name, p, &left)
		if whole {
			ch <- metrics.NewLazyConstMetric(f.desc, metrics.GaugeValue, float64(sum), name)
		}
	}
	for name := range f.counts {
		if !seen[name] {
			delete(f.counts, name)
		}
	}
}

// sum adds up what fits on each node. Of nodes beyond left the last count is taken; whole is false where there is none.
func (f *fitting) sum(snap *ledger.Snapshot, shape string, p *place.Pod, left *int) (sum int, whole bool) {
	before, now := f.counts[shape], map[string]count{}
	whole = true
	for n := range snap.All() {
		c, counted := before[n.Name]
		switch {
		case counted && c.of == n:
		case *left > 0:
			*left--
			c = count{n, fits(n, p)}
		case !counted:
			whole = false
			continue
		}
		now[n.Name] = c
		sum += c.pods
	}
	f.counts[shape] = now
	return sum, whole
}

// fits places pods of a shape on a node until there is no room.
func fits(n *ledger.Node, p *place.Pod) int {
	if n.Machine == nil || n.Usage == nil {
		return 0
	}
	plan := whatif.New([]whatif.Node{{Name: n.Name, State: n}}, whatif.Rules{})
	out, err := plan.Fill(&whatif.Want{Pod: p}, maxOnNode,
		func(i int) ledger.PodID { return ledger.PodID{UID: fmt.Sprintf("fitting-%d", i)} }, func() error { return nil })
	if err != nil {
		return 0 // only the step function returns errors
	}
	return len(out.Placed)
}
