package volcano

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/rights"
)

// schedulerKubeconfig writes a kubeconfig for the scheduler, with exactly the rights of the chart's service account,
// and returns its path.
func (o Options) schedulerKubeconfig(ctx context.Context) (string, error) {
	administrator, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	if err := rights.Apply(ctx, administrator, deploy.VolcanoAccess()...); err != nil {
		return "", fmt.Errorf("give Volcano's scheduler its rights: %w", err)
	}
	access, err := rights.As(ctx, administrator, rights.Account{Namespace: deploy.Namespace, Name: deploy.Volcano})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Dir, "volcano-scheduler.kubeconfig")
	return path, rights.WriteKubeconfig(path, deploy.Volcano, access)
}
