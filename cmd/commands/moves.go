package commands

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/room"
)

// move returns what carries out plans that move pods, with the rights of a kubeconfig.
func move(k cli.Kubeconfig, o cli.MoveOptions) (cli.Mover, error) {
	if k.Bundle() != "" {
		return nil, errors.New("a bundle has no pods that could be moved")
	}
	cfg, _, err := k.Load()
	if err != nil {
		return nil, err
	}
	c, err := room.New(cfg)
	if err != nil {
		return nil, err
	}
	return mover{c, o}, nil
}

// mover implements [cli.Mover].
type mover struct {
	cluster *room.Cluster
	options cli.MoveOptions
}

func (m mover) Check(ctx context.Context, p cli.MovePlan) error {
	return m.cluster.Check(ctx, planOf(p), room.Options{Keep: m.options.Keep})
}

func (m mover) Run(ctx context.Context, p cli.MovePlan, again cli.Again, say func(string)) error {
	return m.cluster.Run(ctx, planOf(p), room.Options{Keep: m.options.Keep, AnswerWithin: m.options.AnswerWithin,
		EvictWithin: m.options.EvictWithin, RunWithin: m.options.RunWithin, Say: say,
		Again: func(ctx context.Context, left []room.Move) (room.Plan, error) {
			p, err := again(ctx, podsOn(left))
			return planOf(p), err
		}})
}

func podsOn(moves []room.Move) (out []cli.PodOn) {
	for _, x := range moves {
		out = append(out, cli.PodOn{Pod: document.Pod{Namespace: x.Namespace, Name: x.Name, UID: string(x.UID)},
			Node: x.From, To: x.To, Gang: x.Gang})
	}
	return out
}

func movesOf(pods []cli.PodOn) (out []room.Move) {
	for _, x := range pods {
		out = append(out, room.Move{NamespacedName: named(x), UID: types.UID(x.UID), From: x.Node, To: x.To,
			Gang: x.Gang})
	}
	return out
}

func planOf(p cli.MovePlan) room.Plan {
	out := room.Plan{Empty: p.Empty, Pinned: p.Pinned}
	for _, x := range p.Goals {
		out.Goals = append(out.Goals, room.Goal{NamespacedName: named(x), Node: x.Node})
	}
	out.Moves, out.Gone = movesOf(p.Moves), movesOf(p.Gone)
	return out
}

func named(x cli.PodOn) types.NamespacedName {
	return types.NamespacedName{Namespace: x.Namespace, Name: x.Name}
}
