package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// autoscaler is the module with the definition of ProvisioningRequests. Kueue requires it.
const autoscaler = "k8s.io/autoscaler/cluster-autoscaler/apis"

// ProvisioningRequests returns the definition of ProvisioningRequests, of Cluster Autoscaler's module. It downloads the
// module if that is not in the module cache.
func ProvisioningRequests(ctx context.Context) ([]byte, error) {
	t, err := newTools(func(string) {})
	if err != nil {
		return nil, err
	}
	out, err := t.golang(ctx, "mod", "download", "-json", autoscaler)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return nil, fmt.Errorf("find the files of module %s: %w", autoscaler, err)
	}
	data, err := os.ReadFile(filepath.Join(module.Dir, "config", "crd", "autoscaling.x-k8s.io_provisioningrequests.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the definition of ProvisioningRequests: %w", err)
	}
	return data, nil
}
