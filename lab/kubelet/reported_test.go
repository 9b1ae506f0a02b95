package kubelet

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"

	"github.com/tenon-numa/tenon/core/topo"
)

// NewReportedManagers is [NewManagers] for a machine without devices that cadvisor reports: the managers get the
// report, and m only names their holdings.
func NewReportedManagers(ctx context.Context, dir string, m *topo.Machine, report *cadvisorapi.MachineInfo,
	c *configv1beta1.KubeletConfiguration, pods func() []*v1.Pod) (*Managers, error) {
	internal, _, err := withDefaults(withoutHost(c))
	if err != nil {
		return nil, err
	}
	internal.CPUManagerReconcilePeriod.Duration = never
	out, err := compose(klog.FromContext(ctx), dir, m, report, internal)
	if err != nil {
		return nil, err
	}
	return out, out.start(ctx, surroundings{pods: pods, sources: ready{}, statuses: noStatus{}, runtime: noRuntime{},
		containers: containermap.NewContainerMap(), running: sets.New[string]()})
}
