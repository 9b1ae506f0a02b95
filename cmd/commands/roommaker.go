package commands

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/room"
)

// MoveBounds are a program's own bounds on the pods that may move.
type MoveBounds struct {
	// Refuses returns why a pod may not move, as the rest of a sentence that begins with "it"; "" if it may.
	Refuses func(p *v1.Pod) string
	// PerNode and PerNamespace are how many pods of one node, and of one namespace, may move; nil: any number.
	PerNode, PerNamespace *int
}

// RoomMaker finds plans that move pods and carries them out, with the rights of one client configuration. It is for
// programs that decide by themselves for which pods they make room.
type RoomMaker struct {
	reader *kube.Reader
	room   *room.Cluster
	bounds MoveBounds
}

// NewRoomMaker returns a RoomMaker for the cluster in cfg.
func NewRoomMaker(cfg *rest.Config, b MoveBounds) (*RoomMaker, error) {
	reader, err := kube.NewReader(cfg)
	if err != nil {
		return nil, err
	}
	c, err := room.New(cfg)
	if err != nil {
		return nil, err
	}
	return &RoomMaker{reader: reader, room: c, bounds: b}, nil
}

// Look reads the cluster once, and returns a function that answers questions about what was read. It asks the bounds
// about each pod once.
func (m *RoomMaker) Look(ctx context.Context) (func(context.Context, cli.MoveQuestion) (cli.MoveAnswer, error), error) {
	s, problems, err := stage.Read(ctx, m.reader)
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	if s, err = s.WithBudgets(ctx, m.reader); err != nil {
		return nil, fmt.Errorf("read the disruption budgets: %w", err)
	}
	known := func(context.Context, cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
		return s, problems, "", nil
	}
	same := func(_ context.Context, _ cli.Kubeconfig, s cli.Stage) (cli.Stage, error) { return s, nil }
	b, refused := m.bounds, map[types.UID]string{}
	b.Refuses = func(p *v1.Pod) string {
		why, known := refused[p.UID]
		if !known {
			why = m.bounds.Refuses(p)
			refused[p.UID] = why
		}
		return why
	}
	return b.setup(known, same).PlanMoves, nil
}

// Sweep deletes what plans have left behind that were stopped, where it keeps nothing any more.
func (m *RoomMaker) Sweep(ctx context.Context) error { return m.room.Sweep(ctx) }

// Carry carries out a plan for a question, and returns when all its pods run; see [room.Cluster.Run]. It sets o.Again.
func (m *RoomMaker) Carry(ctx context.Context, q cli.MoveQuestion, p cli.MovePlan, o room.Options) error {
	s := m.bounds.setup(func(ctx context.Context, _ cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
		now, problems, err := stage.Read(ctx, m.reader)
		if err != nil {
			return nil, nil, "", err
		}
		return now, problems, "", nil
	}, budgetsBy(m.reader))
	o.Again = func(ctx context.Context, left []room.Move) (room.Plan, error) {
		p, err := s.PlanAgain(ctx, q, podsOn(left))
		return planOf(p), err
	}
	if err := m.room.Check(ctx, planOf(p), o); err != nil {
		return err
	}
	return m.room.Run(ctx, planOf(p), o)
}

// setup returns what plans moves within the bounds.
func (b MoveBounds) setup(
	cluster func(context.Context, cli.Kubeconfig) (cli.Stage, []document.Problem, string, error),
	budgets func(context.Context, cli.Kubeconfig, cli.Stage) (cli.Stage, error)) cli.Setup {
	moving := moving(budgets)
	moving.Movers = b.movers
	return cli.Setup{Stages: cli.Stages{Cluster: cluster, Moving: moving}}
}

// movers returns the pods that may move by the bounds of the question and by these.
func (b MoveBounds) movers(ctx context.Context, s cli.Stage, q defrag.Bounds, at time.Time) (defrag.Field, error) {
	out, err := movers(ctx, s, q, at)
	if err != nil {
		return out, err
	}
	pods := map[string]*v1.Pod{}
	for p := range kube.EachPod(s.(*stage.Stage).Pods()) { // movers has refused other stages
		pods[string(p.UID)] = p
	}
	all := out.Movers
	out.Movers = nil
	limits := limits{field: &out, of: map[string]int{}}
	for _, x := range all {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		p := pods[x.Pod.UID]
		if why := b.Refuses(p); why != "" {
			out.Fixed = append(out.Fixed, defrag.Fixed{Pod: x.Pod, Node: x.Node, Why: why})
			continue
		}
		limits.apply(&x, "node/"+p.Spec.NodeName, b.PerNode)
		limits.apply(&x, "namespace/"+p.Namespace, b.PerNamespace)
		out.Movers = append(out.Movers, x)
	}
	return out, nil
}

// limits adds a budget to a field for each node and namespace whose pods may move in a limited number.
type limits struct {
	field *defrag.Field
	of    map[string]int // index in field.Budgets
}

func (l *limits) apply(x *defrag.Mover, key string, most *int) {
	if most == nil {
		return
	}
	i, known := l.of[key]
	if !known {
		i = len(l.field.Budgets)
		l.of[key], l.field.Budgets = i, append(l.field.Budgets, *most)
	}
	x.Budgets = append(x.Budgets, i)
}
