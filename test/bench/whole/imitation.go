package whole

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Imitation is a process that imitates the kubelets and agents of a cluster that another benchmark has made.
type Imitation struct{ process *process }

// Populate gives the nodes of an API server what the nodes of a synthetic cluster with the same names have: it replaces
// their status, and creates layouts and pods. No pod has been admitted yet.
func Populate(ctx context.Context, cfg *rest.Config, c *synthetic.Cluster) error {
	k, err := typed(cfg)
	if err != nil {
		return err
	}
	layouts, err := client.New(cfg)
	if err != nil {
		return err
	}
	err = parallel(len(c.Nodes), func(i int) error {
		n, err := k.CoreV1().Nodes().Get(ctx, c.Nodes[i].Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read node %s: %w", c.Nodes[i].Name, err)
		}
		n.Status = *c.Nodes[i].Status.DeepCopy()
		if _, err := k.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("write status of node %s: %w", n.Name, err)
		}
		return createLayout(ctx, layouts, c, i)
	})
	if err != nil {
		return err
	}
	return create(ctx, k, "run", c.Pods)
}

// createLayout creates the layout of a node as it is without pods.
func createLayout(ctx context.Context, layouts *client.Client, c *synthetic.Cluster, i int) error {
	l := v1alpha1.FromCore(c.Nodes[i].Name, c.States[i].Machine, c.States[i].Rules, nil, nil)
	l.Labels = shardLabels(&c.Nodes[i].ObjectMeta)
	if _, err := layouts.Create(ctx, l, metav1.CreateOptions{FieldManager: client.FieldManager}); err != nil {
		return fmt.Errorf("create layout %s: %w", l.Name, err)
	}
	return nil
}

// Imitate starts the process, which writes its log into the file log. It returns when all bound pods are admitted or
// refused and all nodes have published. A program that uses it calls [MaybeChild] first of all.
func Imitate(cfg *rest.Config, log string) (*Imitation, error) {
	p, _, err := startNodes(nodesJob{Host: cfg.Host, Token: cfg.BearerToken, CA: cfg.CAData,
		ServerName: cfg.ServerName}, log)
	return &Imitation{p}, err
}

// Settle waits until every bound pod has its status and all nodes have published.
func (i *Imitation) Settle(ctx context.Context) error {
	var now nodesAnswer
	return i.process.ask(ctx, settleSignal, &now)
}

// Stop ends the process.
func (i *Imitation) Stop() error { return i.process.stop() }

// startNodes starts the process that imitates the nodes, and returns its first message.
func startNodes(job nodesJob, log string) (*process, nodesAnswer, error) {
	var ready nodesAnswer
	cmd, err := ownCommand(roleNodes)
	if err != nil {
		return nil, ready, err
	}
	p, err := startProcess("the nodes", cmd, job, log)
	if err != nil {
		return nil, ready, err
	}
	if err := p.receive(&ready); err != nil {
		return nil, ready, errors.Join(err, p.stop())
	}
	return p, ready, nil
}
