package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
	"github.com/tenon-numa/tenon/test/bench/upstream"
	"github.com/tenon-numa/tenon/test/bench/whole"
)

// prepare has the API server serve NodeLayouts if the job's nodes publish them. The scheduler makes no difference.
func (s *subject) prepare(t ktesting.TContext) error {
	if !s.job.NUMA {
		return nil
	}
	return (&control.Plane{Admin: t.RESTConfig()}).Define(t, crd.Layouts()...)
}

// imitate gives the created nodes the machines and pods of a synthetic cluster whose CPUs are half taken. A process
// imitates their kubelets and agents until the workload has ended.
func (s *subject) imitate(t ktesting.TContext, nodes int) error {
	c, err := synthetic.Make(synthetic.Size{Nodes: nodes, Full: 50}, 1)
	if err != nil {
		return err
	}
	if err := whole.Populate(t, t.RESTConfig(), c); err != nil {
		return err
	}
	i, err := whole.Imitate(t.RESTConfig(), filepath.Join(filepath.Dir(s.job.Counts), "nodes.log"))
	if err != nil {
		return err
	}
	t.TB().Cleanup(func() { // before upstream's code ends the API server
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t), time.Minute)
		defer cancel()
		err := i.Settle(ctx)
		if err == nil {
			err = s.count(ctx, t)
		}
		if err != nil {
			t.Errorf("count the pods that kubelets refused: %v", err)
		}
		if err := i.Stop(); err != nil {
			t.Errorf("end the imitated nodes: %v", err)
		}
	})
	return nil
}

// count writes how many pods of the workload the kubelets refused.
func (s *subject) count(ctx context.Context, t ktesting.TContext) error {
	pods, err := t.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var c upstream.Counts
	for i := range pods.Items {
		if pods.Items[i].Namespace == metav1.NamespaceDefault {
			continue // they ran before the workload
		}
		c.Pods++
		if pods.Items[i].Status.Phase == v1.PodFailed {
			c.Refused++
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(s.job.Counts, data, 0o600)
}
