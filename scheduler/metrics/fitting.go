package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Bounds of the counting.
const (
	maxNamed   = 8    // shapes that the configuration names
	maxLearned = 4    // shapes of the workload profile
	maxCounts  = 2000 // nodes that are counted anew in one scrape, all shapes together
	maxPools   = 64   // pools with numbers of their own; the others are otherPools together
)

// resendFor is how long scrapes send the numbers of a complete count again. Prometheus scrapes every 15 seconds or
// less often. After an incomplete count, the next scrape goes on counting.
const resendFor = 5 * time.Second

// fitting counts how many more pods of some shapes fit. The count of a node stays valid until the node changes. A
// scrape counts at most maxCounts nodes anew, so that it stays cheap after a start in a large cluster. A shape has
// no number while some node was never counted for it.
type fitting struct {
	desc    *metrics.Desc
	plain   Plain
	named   []*place.Pod
	learned func() *score.Mix // nil: no shapes of the workload profile
	// pool returns the pool of a node; nil: nodes are in no pools.
	pool func(node string) string

	now func() time.Time

	mu      sync.Mutex
	counts  map[string]map[string]count // by shape, and by name of the node
	sums    []sum                       // of the last scrape that counted
	counted time.Time                   // when that scrape was; zero if it left nodes uncounted
}

// otherPools is the pool of the nodes whose pools are too many.
const otherPools = "other"

// sum is how many pods of a shape fit on all nodes of a pool, or on all nodes if there are no pools.
type sum struct {
	shape, pool string
	pods        int
}

// Plain has the plain amounts of nodes.
type Plain interface {
	// Version returns a number that changes when the result of Of may have changed.
	Version(*state.Node) uint64
	// Of returns the node's allocatable amounts, and the amounts that its pods request. It returns false if the node
	// does not exist.
	Of(*state.Node) (allocatable, used whatif.Amounts, there bool)
}

// count is how many pods of a shape fit on a node in one state, with one version of its plain amounts. States are
// immutable, so the count is valid as long as the node has this state.
type count struct {
	node    *state.Node
	version uint64
	pods    int
}

// newFitting returns a fitting without counts. It uses only the first maxNamed shapes of named.
func newFitting(named []*place.Pod, learned func() *score.Mix, plain Plain) *fitting {
	return &fitting{plain: plain, named: named[:min(len(named), maxNamed)], learned: learned,
		counts: map[string]map[string]count{}, now: time.Now,
		desc: newFittingDesc("shape")}
}

// divide has nodes counted by pool, unless the function is nil.
func (f *fitting) divide(pool func(node string) string) {
	if f.pool = pool; pool != nil {
		f.desc = newFittingDesc("shape", "pool")
	}
}

func newFittingDesc(labels ...string) *metrics.Desc {
	return metrics.NewDesc("tenon_fitting_pods", "How many more pods of a shape fit on all nodes together, or on the "+
		"nodes of a pool, by their NUMA nodes and by what each node has in all.", labels, nil, metrics.ALPHA, "")
}

// shapes returns the shapes of the configuration, then the most frequent other shapes of the workload profile.
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

// collect sends one gauge per shape. If the last scrape that counted all nodes is younger than resendFor, it sends
// that scrape's numbers.
func (f *fitting) collect(snap *ledger.Snapshot, ch chan<- metrics.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); f.counted.IsZero() || now.Sub(f.counted) >= resendFor {
		var complete bool
		if f.sums, complete = f.count(snap); complete {
			f.counted = now
		} else {
			f.counted = time.Time{}
		}
	}
	for _, s := range f.sums {
		labels := []string{s.shape}
		if f.pool != nil {
			labels = append(labels, s.pool)
		}
		ch <- metrics.NewLazyConstMetric(f.desc, metrics.GaugeValue, float64(s.pods), labels...)
	}
}

// count returns how many more pods of each shape fit on the nodes of a snapshot. It leaves out shapes for which some
// nodes were never counted. It returns false if the next scrape may have to go on counting.
func (f *fitting) count(snap *ledger.Snapshot) (out []sum, complete bool) {
	budget, seen, shown := maxCounts, map[string]bool{}, 0
	shapes, versions := f.shapes(), map[string]uint64{}
	for n := range snap.All() {
		if len(shapes) > 0 {
			versions[n.Name] = f.plain.Version(n)
		}
	}
	for _, p := range shapes {
		name := document.Shape(p)
		seen[name] = true
		if pools, complete := f.sum(snap, versions, name, p, &budget); complete {
			shown++
			for _, pool := range slices.Sorted(maps.Keys(pools)) {
				out = append(out, sum{name, pool, pools[pool]})
			}
		}
	}
	for name := range f.counts {
		if !seen[name] {
			delete(f.counts, name)
		}
	}
	return out, budget > 0 && shown == len(shapes)
}

// sum adds up how many more pods of a shape fit on each node, by pool. It counts down budget, the number of nodes that
// this scrape may still count anew. At 0, it takes the last counts of changed nodes, and returns false if a node has
// none.
func (f *fitting) sum(snap *ledger.Snapshot, versions map[string]uint64, shape string, p *place.Pod,
	budget *int) (sum map[string]int, complete bool) {
	before, counts := f.counts[shape], map[string]count{}
	complete, sum = true, map[string]int{}
	for n := range snap.All() {
		c, counted := before[n.Name]
		version := versions[n.Name]
		switch {
		case counted && c.node == n && c.version == version:
		case *budget > 0:
			*budget--
			c = count{n, version, f.slots(n, p)}
		case !counted:
			complete = false
			continue
		}
		counts[n.Name] = c
		sum[f.poolOf(n.Name, sum)] += c.pods
	}
	f.counts[shape] = counts
	return sum, complete
}

// poolOf returns the pool of a node. all are the pools so far.
func (f *fitting) poolOf(node string, all map[string]int) string {
	if f.pool == nil {
		return ""
	}
	pool := f.pool(node)
	if _, known := all[pool]; !known && len(all) >= maxPools {
		return otherPools
	}
	return pool
}

// slots returns how many more pods like p fit on a node; 0 if nothing is known of the node.
func (f *fitting) slots(n *state.Node, p *place.Pod) int {
	allocatable, used, there := f.plain.Of(n)
	if !there || n.Machine == nil || n.Usage == nil {
		return 0
	}
	return whatif.Slots(whatif.Node{Name: n.Name, State: n, Allocatable: allocatable, Used: used}, p)
}
