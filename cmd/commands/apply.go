package commands

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/apply"
	"github.com/tenon-numa/tenon/ops/rollout"
)

// restoreMargin is the time between the end of the verification and the restore: a node restores its old
// configuration if the change is not kept within VerifyWithin plus restoreMargin.
const restoreMargin = time.Minute

// applyKubelets returns an applier that changes kubelets in the cluster of a kubeconfig, by pods in the kubeconfig's
// namespace.
func applyKubelets(k cli.Kubeconfig, o cli.KubeletApplyOptions) (cli.KubeletApplier, error) {
	if k.Bundle() != "" {
		return nil, errors.New("a bundle has no kubelets that could be changed")
	}
	cfg, namespace, err := k.Load()
	if err != nil {
		return nil, err
	}
	return applying(cfg, namespace, o)
}

// applying returns an applier that changes kubelets with the rights of cfg, by pods in a namespace.
func applying(cfg *rest.Config, namespace string, o cli.KubeletApplyOptions) (cli.KubeletApplier, error) {
	pods, err := apply.NewPods(cfg, apply.PodOptions{Namespace: namespace, Image: o.Image, Stop: o.Stop, Start: o.Start,
		ConfigDir: o.ConfigDir, Config: o.Config, Root: o.Root, KeepWithin: o.VerifyWithin + restoreMargin})
	if err != nil {
		return nil, err
	}
	c, err := apply.New(cfg, pods, pods.Configz)
	if err != nil {
		return nil, err
	}
	return Applier(c, o), nil
}

// changerNamespace is the default namespace of the pods that change kubelets when a console applies a plan.
const changerNamespace = "kube-system"

// kubelets implements [console.Kubelets] with a live view and the rights of cfg.
type kubelets struct {
	cluster *view.Live
	cfg     *rest.Config
}

func (k kubelets) Plan(ctx context.Context, v whatif.Variation) (document.KubeletPlan, error) {
	now, err := k.cluster.Whole(ctx)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	scene, err := rollout.ReadAround(ctx, now, k.cfg)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	return scene.Plan(v)
}

func (k kubelets) Apply(namespace string, o cli.KubeletApplyOptions) (cli.KubeletApplier, string, error) {
	namespace = cmp.Or(namespace, changerNamespace)
	a, err := applying(k.cfg, namespace, o)
	return a, namespace, err
}

// Applier returns an applier that changes kubelets through c, with the options of the command.
func Applier(c *apply.Cluster, o cli.KubeletApplyOptions) cli.KubeletApplier { return applier{c, o} }

type applier struct {
	*apply.Cluster
	options cli.KubeletApplyOptions
}

// applyOptions returns the options of the command as options of package apply.
func (a applier) applyOptions(say func(node string, r apply.Record)) apply.Options {
	o := a.options
	return apply.Options{MaxUnavailable: o.MaxUnavailable, Force: o.Force, LoseEmptyDir: o.LoseEmptyDir,
		EvictWithin: o.EvictWithin, VerifyWithin: o.VerifyWithin, Say: say}
}

// Pending implements [cli.KubeletApplier].
func (a applier) Pending(ctx context.Context, p document.KubeletPlan) ([]document.KubeletPlanNode, error) {
	return a.Cluster.Pending(ctx, p, a.applyOptions(nil))
}

// Run implements [cli.KubeletApplier]. It calls say from one goroutine at a time.
func (a applier) Run(ctx context.Context, nodes []document.KubeletPlanNode,
	say func(document.KubeletStep)) error {
	var mu sync.Mutex
	return a.Cluster.Run(ctx, nodes, a.applyOptions(func(node string, r apply.Record) {
		mu.Lock()
		defer mu.Unlock()
		say(document.KubeletStep{Node: node, Step: string(r.Step), Why: r.Reason()})
	}))
}
