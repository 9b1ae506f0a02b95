// Package preempt evicts pods to make room for a pod. It does so by kube-scheduler's DefaultPreemption, but chooses
// other victims on a node, and waits for reports. kube-scheduler's code decides which pods may preempt, chooses the
// node, evicts, and keeps the pod out of the queue meanwhile.
//
// Invariant: core/evict chooses the victims on a node among pods of lower priority. Without the victims, the ledger
// and all filters accept the pod. No pod is evicted from a node whose holdings are not known, nor from a node where
// the next report may show room, or where a pod that is being deleted makes room. The records about pods are bounded.
// The package chooses no victims on nodes that the plugin does not judge, or for pods that the plugin skips; there
// DefaultPreemption chooses.
package preempt

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Attempt is one attempt to schedule a pod, with its view of the nodes.
type Attempt struct {
	Pod    *place.Pod
	Demand place.Demand
	// Node returns a node in this attempt, including hypothetical changes, or nil if the plugin does not judge the
	// node.
	Node func(name string) *state.Node
	// Log logs a line about the pod.
	Log func(msg string, pairs ...any)
}

// Plugin is what the package needs of the scheduler plugin that preempts.
type Plugin interface {
	// Attempt returns the attempt of a cycle, or false if the plugin takes no part in it.
	Attempt(cs fwk.CycleState) (Attempt, bool)
	// Reasons returns the texts of a verdict that refuses a pod.
	Reasons(pod *place.Pod, v place.Verdict) []string
	// CutShort counts a search for victims that has ended before all sets were tried.
	CutShort()
}

// Texts are phrases of statuses that differ between profiles.
type Texts struct {
	// NoVictims means that no pod of a node has a lower priority.
	NoVictims string
	// Waits, if not empty, is added to the status of a pod that waits instead of evicting other pods.
	Waits string
}

// Config configures a Preemption.
type Config struct {
	// Name is the plugin's name in its profile.
	Name   string
	Args   *schedapi.DefaultPreemptionArgs
	Handle fwk.Handle
	Logger klog.Logger
	// Recorder records an event on each victim. It must accept any text.
	Recorder events.EventRecorder
	Texts    Texts
	// KeepVictims leaves everything to DefaultPreemption: no pod is evicted for alignment.
	KeepVictims bool
}

// Preemption is the preemption of one profile. Its methods may be called by any goroutine.
type Preemption struct {
	Config
	plugin Plugin
	// upstream is kube-scheduler's own preemption, which calls chooser for victims.
	upstream *defaultpreemption.DefaultPreemption
	now      func() time.Time
	later    func(time.Duration, func())
	plans    *plans
	waits    *waits
}

// New returns the preemption of a profile.
func New(ctx context.Context, p Plugin, c Config) (*Preemption, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	d, err := defaultpreemption.New(ctx, c.Args, c.Handle, features)
	if err != nil {
		return nil, fmt.Errorf("set up preemption of profile %q: %w", fwk.ProfileName(c.Handle), err)
	}
	pre := &Preemption{Config: c, plugin: p, upstream: d, plans: &plans{}, waits: &waits{}, now: time.Now,
		later: func(after time.Duration, do func()) { time.AfterFunc(after, do) }}
	if !c.KeepVictims {
		d.Evaluator.Interface = chooser{d, pre}
		pre.wrapEviction()
	}
	return pre, nil
}

// PreEnqueue keeps a pod out of the queue while its victims are being evicted.
func (pre *Preemption) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	return pre.upstream.PreEnqueue(ctx, pod)
}

// PostFilter evicts pods so that the pod fits. It evicts none if waiting may be enough.
func (pre *Preemption) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (
	*fwk.PostFilterResult, *fwk.Status) {
	a, ok := pre.plugin.Attempt(cs)
	if !ok || pre.KeepVictims {
		return pre.upstream.PostFilter(ctx, cs, pod, m)
	}
	uid := string(pod.UID)
	pre.plans.begin(uid)
	node, why, err := pre.reasonToWait(ctx, cs, a, pod, m)
	switch {
	case err != nil:
		return nil, fwk.AsStatus(err)
	case why != "":
		a.Log("Evicts no pod", "reason", why)
		return node, pre.waiting(node != nil, why)
	}
	result, status := pre.upstream.PostFilter(ctx, cs, pod, m)
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil {
		if doubts := pre.plans.doubted(uid); len(doubts) > 0 {
			pre.retry(pod, pre.waits.note(uid, doubts, pre.now()))
		} else {
			pre.waits.forget(uid)
		}
		return result, status
	}
	pre.waits.forget(uid)
	plan, planned := pre.plans.of(uid, result.NominatedNodeName)
	if !planned {
		return result, status
	}
	a.Log("Evicts", "node", plan.node, "victims", plan.text())
	return result, fwk.NewStatus(fwk.Success, "preemption: evicts "+plan.text())
}

// waiting returns the status of a pod that waits and evicts no pod, with the given reason. If the pod is nominated to
// a node meanwhile, the status is Success.
func (pre *Preemption) waiting(nominated bool, why string) *fwk.Status {
	text := "preemption: evicts no pod: " + why
	if nominated {
		return fwk.NewStatus(fwk.Success, text)
	}
	if pre.Texts.Waits != "" {
		text += ". " + pre.Texts.Waits
	}
	return fwk.NewStatus(fwk.Unschedulable, text)
}

// Evicts reports whether victims of the pod are being evicted. kube-scheduler keeps the pod out of its queue
// meanwhile, so waking the pod has no effect. When the last victim is gone, the node changes once more, and the pod
// can be woken then.
func (pre *Preemption) Evicts(pod *v1.Pod) bool {
	return pre != nil && pre.evicting(pod.UID)
}

// Awaits reports whether the pod waits for a report of the node, where it does not fit at present. The report decides
// whether the pod has to preempt, and which pods it evicts.
func (pre *Preemption) Awaits(pod *v1.Pod, node string) bool {
	return pre != nil && pre.waits.waitsFor(string(pod.UID), node)
}

// Victims returns the UIDs of the pods that the last attempt of the given pod evicts from a node.
func (pre *Preemption) Victims(pod *v1.Pod, node string) (out []string) {
	if pre == nil {
		return nil
	}
	plan, _ := pre.plans.of(string(pod.UID), node)
	for _, v := range plan.victims {
		out = append(out, string(v.uid))
	}
	return out
}
