package commands

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
	"github.com/tenon-numa/tenon/ops/doctor"
	"github.com/tenon-numa/tenon/ops/schedulers"
)

// Watch returns an identity that follows the cluster in cfg with the rights of cfg. It follows until ctx ends or the
// identity is closed. If cfg may not list the pods of all namespaces, Watch follows the given namespaces one by one.
// name is the identity's name in the console.
func Watch(ctx context.Context, cfg *rest.Config, name string, namespaces ...string) (*console.Identity, error) {
	reader, err := kube.NewReader(cfg)
	if err != nil {
		return nil, err
	}
	configured, err := schedulers.New(cfg, name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	seen, err := live.Start(ctx, cfg, live.Options{Namespaces: namespaces, Bounds: live.Standard()})
	if err != nil {
		stop()
		return nil, err
	}
	w := view.NewLive(seen, reader)
	return &console.Identity{Name: name, View: seen, Cluster: w, Misaligned: w.Misaligned,
		Claims: w.ClaimsOn, Kept: w.KeptOn,
		Stages: cli.Stages{Cluster: onStage(w), Vary: vary, Slots: &cli.Slots{}, Claims: claimsBy(reader),
			Moving: moving(budgetsBy(reader))},
		History:    reader.History,
		Schedulers: configured, Kubelets: kubelets{w, cfg},
		Doctor: func(ctx context.Context, o cli.DoctorOptions) (document.Diagnosis, error) {
			v, err := w.Whole(ctx)
			if err != nil {
				return document.Diagnosis{}, err
			}
			s, err := doctor.ReadAround(ctx, v, cfg, time.Now())
			if err != nil {
				return document.Diagnosis{}, err
			}
			return doctor.Examine(s, doctor.Options(o))
		},
		Affinity: func(ctx context.Context, node string) (document.Affinity, error) { return affinityOf(ctx, cfg, node) },
		Valid:    func() bool { return !seen.Rejected() }, Close: stop}, nil
}

// claimsBy returns a function for [cli.Stages] that finds claims of pods of files by a reader.
func claimsBy(r *kube.Reader) func(context.Context, cli.Kubeconfig, cli.Stage, cli.ClaimFiles) (cli.Stage, error) {
	return func(ctx context.Context, _ cli.Kubeconfig, s cli.Stage, f cli.ClaimFiles) (cli.Stage, error) {
		return s.(*stage.Stage).Finding(ctx, r, f.Namespace, f.Files), nil
	}
}

// budgetsBy returns a function for [cli.Moving] that reads disruption budgets by a reader.
func budgetsBy(r *kube.Reader) func(context.Context, cli.Kubeconfig, cli.Stage) (cli.Stage, error) {
	return func(ctx context.Context, _ cli.Kubeconfig, s cli.Stage) (cli.Stage, error) {
		known, ok := s.(*stage.Stage)
		if !ok {
			return nil, errNoStage
		}
		out, err := known.WithBudgets(ctx, r)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// onStage returns a function for [cli.Stages] that returns the present stage of a live view. The function ignores its
// kubeconfig.
func onStage(w *view.Live) func(context.Context, cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
	return func(ctx context.Context, _ cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
		s, problems, err := w.Stage(ctx)
		if err != nil {
			return nil, nil, "", err
		}
		return s, problems, "", nil
	}
}
