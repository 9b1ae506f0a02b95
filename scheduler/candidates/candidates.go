// Package candidates decides which nodes kube-scheduler filters for a pod: all nodes; the nodes where the pod fits,
// if they are few; or a sample of these, if they are many. It names the chosen nodes in PreFilter's result. If no
// named node takes the pod, the other nodes are filtered as well.
//
// Invariant: a node is left out only if Filter would refuse it, or if a sample stands for it. No attempt fails because
// of a sample: some of its nodes have passed all filters of the profile before, and nothing that a filter reads changes
// during an attempt. An attempt that fails ends as if no node had been left out: with every node's own reason, and with
// every node where preemption may help.
//
// The package replaces the diagnosis of a failed attempt, which needs more than the framework's public interfaces. So
// only schedulers that are set up by tenon-scheduler name nodes. BenchmarkAgainstPlain in scheduler/plugin measures
// the gain: on 5,000 nodes that are 95 % full a cycle takes a quarter of kube-scheduler's own. For a pod of a group it
// names at most a sample, since nothing completes the diagnosis of an attempt within a group cycle; and none while the
// framework tries the group on a part of the cluster.
package candidates

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/sample"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Selector chooses the nodes that are filtered for the pods of one profile. A nil *Selector names no nodes.
type Selector struct {
	handle fwk.Handle
	begin  prefilters
	// percent is percentageOfNodesToScore; 0 leaves it to kube-scheduler.
	percent int
	// next is the slot or index at which the next sample begins, so that samples take the nodes in turn.
	next atomic.Int64
	full fullDiagnosis
}

// prefilters runs PreFilter of all plugins. kube-scheduler's framework implements it, but fwk.Handle does not have it.
type prefilters interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// New returns the Selector of a profile whose PostFilter calls Complete and whose failure handler calls Amend. It
// returns nil if the handle cannot run PreFilter, since then no attempt can begin again with all nodes. percent is
// percentageOfNodesToScore for profiles that do not set it.
//
// In an attempt, PreFilter first calls Names or Few. If no named node takes the pod, PostFilter calls Complete, which
// filters all other nodes. Then the failure handler calls Amend, which adds to the diagnosis what PostFilter cannot.
func New(h fwk.Handle, percent int32) *Selector {
	begin, ok := h.(prefilters)
	if !ok {
		return nil
	}
	if f, ok := h.(interface{ PercentageOfNodesToScore() *int32 }); ok && f.PercentageOfNodesToScore() != nil {
		percent = *f.PercentageOfNodesToScore()
	}
	return &Selector{handle: h, begin: begin, percent: int(percent)}
}

// Attempt is one attempt to schedule a pod, with everything that decides which nodes are named.
type Attempt struct {
	Pod *v1.Pod
	// Again returns a copy of the cycle's state in which no node is left out.
	Again func() fwk.CycleState
	Snap  *ledger.Snapshot
	Nodes *Nodes
	// Fits are the nodes of Snap where the pod fits; Few does not read it. Answers are the cached answers for pods of
	// this kind.
	Fits    *ledger.Set
	Answers *answers.Row
	// Devices are the names of the device resources that the pod requests.
	Devices []string
	// Lets reports whether the profile accepts the pod on a node where it fits. If Picky is false, every such node is
	// accepted and Lets is not called.
	Lets  func(*state.Node) bool
	Picky bool
	// Unknown is true if the pod may go to nodes that the ledger does not have.
	Unknown bool
}

// Names returns the names of some or all nodes where the pod fits; nil means that kube-scheduler filters all nodes.
// It returns nil if a list of names costs more than it saves, which depends on the number of nodes in the cluster. It
// also returns nil if the pod fits nowhere, since then every node has to report its reason.
func (s *Selector) Names(ctx context.Context, a *Attempt, all int) sets.Set[string] {
	grouped := fwk.Grouped(a.Pod)
	if s == nil || grouped && !OnAll(s.handle, all) {
		return nil
	}
	fit := a.Fits.Len()
	if names := s.sampled(a, fit, all); len(names) > 0 && s.proven(ctx, a, names, len(names) < sample.Size) {
		return names
	}
	if fit == 0 || grouped || !sample.NamesAll(fit, all, s.percent) {
		return nil
	}
	names := make(sets.Set[string], fit)
	for n := range a.Fits.All() {
		if !a.Picky || a.Lets(n) {
			names.Insert(n.Name)
		}
	}
	if a.Unknown {
		names.Insert(a.Nodes.unknown...)
	}
	if len(names) == 0 || !sample.NamesAll(len(names), all, s.percent) {
		return nil
	}
	return names
}

// OnAll reports whether the framework tries a group on all nodes, so many, and not on a placement of some. Only the
// snapshot of kube-scheduler 1.37 and later shows that.
func OnAll(h fwk.Handle, nodes int) bool {
	snap, ok := h.SnapshotSharedLister().(interface{ NumNodesInPlacement() int })
	return ok && snap.NumNodesInPlacement() == nodes
}

// sampled returns a sample, or nothing where a sample may not be named or costs more than it saves. For a pod with
// devices, the sample has only nodes that have these. Such a pod also fits on nodes without devices, as far as NUMA
// nodes go, but there NodeResourcesFit refuses it. If fewer than sample.Size nodes have the devices, the sample has all
// of them.
func (s *Selector) sampled(a *Attempt, fit, all int) sets.Set[string] {
	some := sample.NamesSome(fit, all, s.percent)
	if !some && len(a.Devices) == 0 || !s.mayLeaveOut(a) || s.manyKeepOthersAway() {
		return nil
	}
	names := s.sample(a, a.Devices)
	if len(names) == 0 && some {
		names = s.sample(a, nil) // no machine has them, but Node objects may
	}
	if few := len(names); few < sample.Size && !sample.NamesFew(few, all, s.percent) || few == sample.Size && !some {
		return nil
	}
	return names
}

// sample returns the names of at most sample.Size nodes that fit and have the devices, and moves s.next behind them.
func (s *Selector) sample(a *Attempt, devices []string) sets.Set[string] {
	costs, from := a.Answers.Costs(a.Snap, a.Fits), a.Fits.From
	if len(devices) > 0 {
		has := a.having(devices)
		every := costs
		costs = func(yield func(int, int64) bool) {
			for slot, cost := range every {
				if has(slot) && !yield(slot, cost) {
					return
				}
			}
		}
		from = func(slot int) iter.Seq[int] {
			return func(yield func(int) bool) {
				for slot := range a.Fits.From(slot) {
					if has(slot) && !yield(slot) {
						return
					}
				}
			}
		}
	}
	slots, next := sample.Of(costs, from, int(s.next.Load()))
	s.next.Store(int64(next))
	names := make(sets.Set[string], len(slots))
	for _, slot := range slots {
		n, _ := a.Snap.At(slot)
		names.Insert(n.Name)
	}
	return names
}

// having returns a function that reports whether the machine of the node in a slot has all these device resources.
// Equal nodes share a machine, so few machines are looked at.
func (a *Attempt) having(devices []string) func(slot int) bool {
	seen := map[*topo.Machine]bool{}
	return func(slot int) bool {
		n, _ := a.Snap.At(slot)
		has, known := seen[n.Machine]
		if !known {
			has = !slices.ContainsFunc(devices, func(name string) bool {
				_, ok := n.Machine.Resource(name)
				return !ok
			})
			seen[n.Machine] = has
		}
		return has
	}
}

const (
	// fewNodes is the largest number of nodes that Few names. maxAsked bounds the work of Few: the judged nodes times
	// the pod's containers.
	fewNodes = 16
	maxAsked = 64 << 10
)

// Few does what Names does, for a pod of so many containers that its nodes are not judged in advance. It calls fits
// for one node after the other, and returns the names of up to fewNodes nodes that fit. It returns nil if it finds
// too few of them within maxAsked.
func (s *Selector) Few(ctx context.Context, a *Attempt, nodes []fwk.NodeInfo, containers int,
	fits func(info fwk.NodeInfo) bool) sets.Set[string] {
	if s == nil || fwk.Grouped(a.Pod) || len(nodes) <= fewNodes || !s.mayLeaveOut(a) {
		return nil
	}
	names, from := sets.New[string](), int(s.next.Load())
	for i := range nodes {
		at := (from + i) % len(nodes)
		if i*containers > maxAsked || len(names) == fewNodes {
			s.next.Store(int64(at))
			break
		}
		if info := nodes[at]; info.Node() != nil && fits(info) {
			names.Insert(info.Node().Name)
		}
	}
	if len(names) < sample.Proven || !s.proven(ctx, a, names, false) {
		return nil
	}
	return names
}
