// Package plugin is Tenon's plugin for the kube-scheduler framework, with one file per extension point. Each function
// translates its input, calls core, and translates the result back.
//
// Invariant: Filter and Score have no side effects, call no API and wait for no lock that is held during work. Reserve
// books exactly the verdict that was computed under the ledger's lock. Pods that no node's managers would align cost
// nothing and stay eligible for the framework's batching. The package does not guess: a pod whose demand it cannot
// parse is not scheduled.
package plugin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/candidates"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/preempt"
	"github.com/tenon-numa/tenon/scheduler/report"
	"github.com/tenon-numa/tenon/scheduler/waiting"
)

// Name is the plugin's own name in KubeSchedulerConfiguration.
const Name = config.Tenon

// Plugin is the plugin of one profile.
type Plugin struct {
	*Shared
	name     string // the profile's name for the plugin
	args     config.Args
	guard    guard.Guard    // made from args
	strategy score.Strategy // for pods that do not request one
	logger   klog.Logger
	handle   fwk.Handle // nil in tests that serve no API

	profile string // differs between the profiles of the scheduler

	nodes candidates.Latest
	// last is the state of the latest cycle; see current.
	last atomic.Pointer[current]
	// skipped is the latest cycle of a pod that PreFilter skipped.
	skipped atomic.Pointer[plainCycle]
	// candidates leaves nodes out of attempts; nil where the profile leaves none out.
	candidates *candidates.Selector
	// supposed is set while evictions for a group are tried; see supposition.
	supposed atomic.Pointer[supposition]
	// preemption is nil where the profile preempts without this plugin, or not at all.
	preemption *preempt.Preemption
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ScoreExtensions     = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.PreBindPlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.PostBindPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// Name returns the name under which the profile enables the plugin.
func (p *Plugin) Name() string { return p.name }

// podState is what a scheduling cycle has found out about its pod.
type podState struct {
	uid string
	pod *place.Pod
	// key is equal for pods that get equal verdicts. It is made of the shape and of the names that reasons contain.
	key    string
	shape  string // of the pod
	demand place.Demand
	snap   *ledger.Snapshot
	// nodes maps kube-scheduler's nodes to slots of snap. fits are the nodes of snap where the pod fits, or nil if they
	// were not computed. answers are the cached answers for pods of this kind.
	nodes   *candidates.Nodes
	fits    *ledger.Set
	answers *answers.Row
	// backoff holds nodes on which the pod's wait for its turn timed out; see booking.Backoff.
	backoff map[string]int
	// together is the node of the pods that this one has to be together with, or "".
	together string
	// wish is the scoring strategy that the pod requests, or nil; strategy is the strategy in use.
	wish     *score.Type
	strategy score.Strategy
	// overlay has hypothetical nodes, with pods added or removed (preemption, nominated pods).
	overlay overlay.Nodes
	// named are the nodes in PreFilter's result, or nil if it named none. If unnarrowed is true, PreFilter names none.
	named      sets.Set[string]
	unnarrowed bool
	supposed   *supposition // nil in cycles that may bind the pod
	bare       bool         // Reserve has found that the pod will hold nothing, so it has no turn
	report.Attempt
}

// elsewhere reports whether the pods that this one has to be together with are on another node.
func (s *podState) elsewhere(node string) bool { return s.together != "" && s.together != node }

const stateKey fwk.StateKey = "tenon.sh/" + Name

// Clone returns a copy whose overlay can be changed without changing the overlay of s.
func (s *podState) Clone() fwk.StateData {
	out := *s
	return &out
}

// current is the state of the latest cycle, with the CycleState that it belongs to. It saves a lookup in the
// CycleState for each of the cycle's many nodes. Clones of a cycle's state are not cached here.
type current struct {
	cs    fwk.CycleState
	state *podState
}

// state returns the plugin's state of a cycle; false if the plugin takes no part in the cycle.
func (p *Plugin) state(cs fwk.CycleState) (*podState, bool) {
	if c := p.last.Load(); c != nil && c.cs == cs {
		return c.state, true
	}
	return read(cs)
}

// read returns the plugin's state in a cycle's state; false if there is none.
func read(cs fwk.CycleState) (*podState, bool) {
	d, err := cs.Read(stateKey)
	if err != nil {
		return nil, false
	}
	s, ok := d.(*podState)
	return s, ok
}

// slot returns the slot of a node, or -1 if the ledger does not have the node. name must be the name of info's node.
func (s *podState) slot(info fwk.NodeInfo, name string) int { return s.nodes.Slot(s.snap, info, name) }

// node returns a node as this cycle sees it, hypothetical changes included; nil if the ledger does not have it.
func (s *podState) node(name string) *state.Node {
	if o, ok := s.overlay[name]; ok {
		return o.Full
	}
	return s.snap.Node(name)
}

// takes reports whether the pod fits on a node in any state, and gets there what its demand requires.
func (s *podState) takes(n *state.Node) bool { return n.Takes(s.pod, s.demand) }

// translate parses what a pod requests. If the request is invalid, it returns a status instead.
func translate(pod *v1.Pod) (*podState, *fwk.Status) {
	r, err := booking.Read(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return &podState{uid: r.UID, pod: r.Pod, key: r.Key, shape: r.Shape, demand: r.Demand, wish: r.Strategy}, nil
}

// maxIndexed bounds the containers of a pod that PreFilter judges on all nodes in advance. For a larger pod,
// kube-scheduler runs Filter on several CPUs at once, until enough nodes fit.
const maxIndexed = 16

// ask returns the pod's request in the form that package waiting compares.
func (s *podState) ask() waiting.Ask { return waiting.Ask{Key: s.key, Pod: s.pod, Demand: s.demand} }

// large reports whether judging the pod on one node takes long.
func (s *podState) large() bool { return len(s.pod.Containers) > maxIndexed }

// refusal returns the status of a verdict that refuses the pod.
func (p *Plugin) refusal(pod *place.Pod, v place.Verdict) *fwk.Status {
	reasons := make([]string, 0, len(v.Reasons))
	for _, r := range v.Reasons {
		reasons = append(reasons, p.text(pod, r))
	}
	if len(reasons) == 0 {
		reasons = append(reasons, string(v.Refusal))
	}
	return fwk.NewStatus(fwk.Unschedulable, reasons...)
}

// waitReady blocks until the ledger is filled, since a scheduler that has just started must not place pods by an
// empty ledger. It returns an error if the context ends first.
func (p *Plugin) waitReady(ctx context.Context) error {
	select {
	case <-p.Ready:
		return nil
	default:
	}
	select {
	case <-p.Ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for node layouts and pods: %w", context.Cause(ctx))
	}
}

func (p *Plugin) turnTimeout() time.Duration {
	return time.Duration(p.args.TurnTimeoutSeconds) * time.Second
}
