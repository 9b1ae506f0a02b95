// Package plugin is TenonMakeRoom, a plugin for the descheduler that makes room for pods that wait: it finds the
// cheapest pods to move as "kubectl tenon defrag" does, and carries the plan out as "kubectl tenon defrag apply" does.
//
// Invariants: every eviction goes through the descheduler's evictor, so its limits, its dry run and its metrics count.
// A pod that the evictor's filters refuse is in no plan, and no plan needs more evictions than the policy allows. In a
// dry run nothing is written to the API server. The plugin carries out at most one plan each time that the descheduler
// calls it. It does not know how many evictions other plugins have used up of the policy's limits: a plan stops when
// the evictor refuses a pod.
package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	"sigs.k8s.io/descheduler/pkg/framework/types"

	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/room"
)

const (
	// maxAsked bounds the waiting pods for which a plan is looked for each time.
	maxAsked = 16
	// pause is how long no other plan is made for a pod whose plan was stopped: pods may have moved without any use.
	pause = 30 * time.Minute
)

// makeRoom is the plugin.
type makeRoom struct {
	args    *MakeRoomArgs
	handle  types.Handle
	maker   *commands.RoomMaker
	most    int  // pods that may move, by the arguments and the policy
	dryRun  bool // of the descheduler
	on      map[string]bool
	stopped map[apitypes.UID]time.Time // waiting pods whose plans were stopped, and when
	logged  map[apitypes.UID]string    // why there is no plan for waiting pods, as it was logged
	asked   map[apitypes.UID]bool      // waiting pods that the others come before the next time
	now     func() time.Time
}

var _ types.BalancePlugin = (*makeRoom)(nil)

func newPlugin(args runtime.Object, handle types.Handle, h Host) (*makeRoom, error) {
	a, ok := args.(*MakeRoomArgs)
	if !ok {
		return nil, fmt.Errorf("%s: the arguments are a %T", Name, args)
	}
	SetDefaults(a)
	if err := Validate(a); err != nil {
		return nil, err
	}
	cfg, err := h.Config()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	limits, err := h.Policy()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	p := &makeRoom{args: a, handle: handle, most: *a.Most, dryRun: reachesNothing(handle), now: time.Now,
		stopped: map[apitypes.UID]time.Time{}, logged: map[apitypes.UID]string{}, asked: map[apitypes.UID]bool{}}
	if total := bound(limits.MaxNoOfPodsToEvictTotal); total != nil {
		p.most = min(p.most, *total)
	}
	p.maker, err = commands.NewRoomMaker(cfg, commands.MoveBounds{Refuses: p.refuses,
		PerNode: bound(limits.MaxNoOfPodsToEvictPerNode), PerNamespace: bound(limits.MaxNoOfPodsToEvictPerNamespace)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return p, nil
}

// bound returns a limit of the policy as an int.
func bound(limit *uint) *int {
	if limit == nil {
		return nil
	}
	return new(int(min(*limit, cli.MaxMoves)))
}

// reachesNothing reports whether a handle's client reaches no API server: in a dry run the descheduler gives plugins a
// client that only simulates evictions.
func reachesNothing(h types.Handle) bool {
	c, ok := h.ClientSet().CoreV1().RESTClient().(*rest.RESTClient)
	return ok && c == nil
}

// Name implements [types.Plugin].
func (p *makeRoom) Name() string { return Name }

// Balance implements [types.BalancePlugin]: it makes room for the first waiting pod for which there is a plan, and
// returns when the pods of the plan run.
func (p *makeRoom) Balance(ctx context.Context, nodes []*v1.Node) *types.Status {
	p.on = map[string]bool{}
	for _, n := range nodes {
		p.on[n.Name] = true
	}
	if err := p.balance(ctx, klog.FromContext(ctx).WithValues("plugin", Name)); err != nil {
		return &types.Status{Err: err}
	}
	return nil
}

func (p *makeRoom) balance(ctx context.Context, log klog.Logger) error {
	waiting, err := p.waiting()
	if err != nil {
		return err
	}
	p.forget(waiting)
	waiting = slices.DeleteFunc(waiting, func(w *v1.Pod) bool {
		at, stopped := p.stopped[w.UID]
		return stopped && p.now().Sub(at) < pause
	})
	if len(waiting) == 0 {
		return nil
	}
	if p.most == 0 {
		p.once(log, waiting[0], "the policy allows no evictions")
		return nil
	}
	if !p.dryRun && p.args.Keep != KeepNever {
		if err := p.maker.Sweep(ctx); err != nil {
			return err
		}
	}
	ask, err := p.maker.Look(ctx)
	if err != nil {
		return err
	}
	w, q, plan, err := p.first(ctx, log, waiting, ask)
	if err != nil || w == nil {
		return err
	}
	return p.carryOut(ctx, log, w, q, *plan)
}

// first returns the first waiting pod for which there is a plan with moves, and the question and the plan; nil if there
// is none among the pods for which one is looked for this time. Of pods that are alike, the others are not tried after
// one without a plan. The next time, pods that were not tried come first.
func (p *makeRoom) first(ctx context.Context, log klog.Logger, waiting []*v1.Pod,
	ask func(context.Context, cli.MoveQuestion) (cli.MoveAnswer, error)) (of *v1.Pod, q cli.MoveQuestion,
	plan *cli.MovePlan, err error) {
	fresh := func(w *v1.Pod) int {
		if p.asked[w.UID] {
			return 1
		}
		return 0
	}
	waiting = slices.Clone(waiting)
	slices.SortStableFunc(waiting, func(a, b *v1.Pod) int { return fresh(a) - fresh(b) })
	var refused []*v1.Pod
	left := maxAsked
	for i, w := range waiting {
		if slices.ContainsFunc(refused, func(o *v1.Pod) bool { return alike(o, w) }) {
			continue
		}
		if left--; left < 0 {
			p.putOff(waiting[:i], waiting[i:])
			return nil, q, nil, nil
		}
		q = p.question(w)
		answer, err := ask(ctx, q)
		switch {
		case ctx.Err() != nil:
			return nil, q, nil, ctx.Err()
		case err != nil:
			p.once(log, w, err.Error())
			refused = append(refused, w)
		case answer.Plan == nil:
			p.once(log, w, answer.Why)
			refused = append(refused, w)
		case len(answer.Plan.Moves) == 0:
			p.once(log, w, "it has room without any moves; its scheduler has to take it")
		default:
			return w, q, answer.Plan, nil
		}
	}
	clear(p.asked) // all were tried
	return nil, q, nil, nil
}

// putOff has pods that were tried come after the rest the next time, unless all of the rest were tried before.
func (p *makeRoom) putOff(tried, rest []*v1.Pod) {
	if !slices.ContainsFunc(rest, func(w *v1.Pod) bool { return !p.asked[w.UID] }) {
		clear(p.asked)
		return
	}
	for _, w := range tried {
		p.asked[w.UID] = true
	}
}

// question returns the question which pods have to move for a pod that waits. No pod of a higher priority moves for it.
func (p *makeRoom) question(w *v1.Pod) cli.MoveQuestion {
	highest := priority(w)
	if p.args.MaxPriority != nil {
		highest = min(highest, *p.args.MaxPriority)
	}
	q := cli.MoveQuestion{For: []string{w.Namespace + "/" + w.Name}, MaxPriority: &highest,
		MinAge: p.args.MinAge.Duration, Most: p.most, LocalData: true} // data is the evictor's decision
	if p.args.Namespaces != nil {
		q.Namespaces = p.args.Namespaces.Include
	}
	return q
}

// refuses returns why the descheduler does not move a pod; "" if it does.
func (p *makeRoom) refuses(pod *v1.Pod) string {
	_, background := pod.Annotations[evictions.EvictionRequestAnnotationKey]
	switch {
	case !p.on[pod.Spec.NodeName]:
		return "is on a node that is not ready, or that the descheduler's nodeSelector does not select"
	case !selects(p.args.Namespaces, pod.Namespace):
		return "is of another namespace"
	case background:
		return "leaves its node in the background"
	case !p.handle.Evictor().Filter(pod):
		return "is refused by the descheduler's filters"
	case !p.handle.Evictor().PreEvictionFilter(pod):
		return "is refused by the descheduler's filters before evictions, such as nodeFit"
	}
	return ""
}

// carryOut carries a plan out for a pod that waits. In a dry run it only evicts, which the descheduler simulates.
func (p *makeRoom) carryOut(ctx context.Context, log klog.Logger, w *v1.Pod, q cli.MoveQuestion,
	plan cli.MovePlan) error {
	delete(p.logged, w.UID)
	log = log.WithValues("pod", klog.KObj(w))
	var moves []string
	for _, m := range plan.Moves {
		moves = append(moves, m.Namespace+"/"+m.Name)
	}
	log.Info("Pods make room for a pod that waits", "moves", moves, "on", plan.Goals[0].Node)
	if p.dryRun {
		return p.pretend(ctx, plan)
	}
	err := p.maker.Carry(ctx, q, plan, room.Options{Keep: p.args.Keep != KeepNever, Whole: p.args.Keep == KeepAlways,
		AnswerWithin: p.args.AnswerTimeout.Duration, EvictWithin: p.args.EvictTimeout.Duration,
		RunWithin: p.args.RunTimeout.Duration, Evict: p.evict, Say: func(line string) { log.Info(line) }})
	if err != nil {
		p.stopped[w.UID] = p.now()
		return fmt.Errorf("make room for pod %s: %w", klog.KObj(w), err)
	}
	log.Info("The pod that waited runs")
	return nil
}

// evict has the descheduler evict a pod.
func (p *makeRoom) evict(ctx context.Context, pod *v1.Pod) error {
	return p.handle.Evictor().Evict(ctx, pod, evictions.EvictOptions{StrategyName: Name})
}

// pretend has the descheduler simulate the evictions of a plan.
func (p *makeRoom) pretend(ctx context.Context, plan cli.MovePlan) error {
	for _, m := range plan.Moves {
		pod, err := p.handle.ClientSet().CoreV1().Pods(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read pod %s/%s: %w", m.Namespace, m.Name, err)
		}
		if err := p.evict(ctx, pod); err != nil {
			return fmt.Errorf("evict pod %s/%s: %w", m.Namespace, m.Name, err)
		}
	}
	return nil
}

// selects reports whether an argument selects a namespace.
func selects(n *api.Namespaces, namespace string) bool {
	return n == nil || !slices.Contains(n.Exclude, namespace) &&
		(len(n.Include) == 0 || slices.Contains(n.Include, namespace))
}
