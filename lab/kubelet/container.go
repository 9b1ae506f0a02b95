package kubelet

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/server/healthz"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginwatcher "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/resourceupdates"
	sources "k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"

	"github.com/tenon-numa/tenon/lab/plugins"
)

// containerManager is a container manager for the kubelet, with the real resource managers and without cgroups. An
// embedded stub of Kubernetes implements the methods that need a host.
type containerManager struct {
	cm.ContainerManager
	*Managers
	config  cm.NodeConfig
	journal *journal // nil: admissions are not recorded
}

func newContainerManager(m *Managers, config cm.NodeConfig, j *journal) *containerManager {
	return &containerManager{ContainerManager: cm.NewStubContainerManager(), Managers: m, config: config, journal: j}
}

func (c *containerManager) Start(ctx context.Context, _ *v1.Node, pods cm.ActivePodsFunc, _ cm.GetNodeFunc,
	ready sources.SourcesReady, statuses status.PodStatusProvider, runtime internalapi.RuntimeService, _ bool) error {
	found, running, err := containersOf(ctx, runtime)
	if err != nil {
		return err
	}
	around := surroundings{pods: pods, sources: ready, statuses: statuses, runtime: runtime,
		containers: found, running: running}
	if c.journal != nil {
		c.journal.setSurroundings(around)
	}
	if err := c.start(ctx, around); err != nil {
		return err
	}
	// Plugins come last: when the device manager starts, it marks every plugin of its checkpoint as gone.
	return plugins.Serve(ctx, c.socket, c.machine)
}

func (c *containerManager) GetNodeConfig() cm.NodeConfig { return c.config }

func (c *containerManager) GetNodeAllocatableReservation() v1.ResourceList {
	return c.allocatable.reservation()
}

func (c *containerManager) GetNodeAllocatableAbsolute() v1.ResourceList {
	return c.allocatable.absolute()
}

func (c *containerManager) UpdatePluginResources(n *framework.NodeInfo, a *lifecycle.PodAdmitAttributes) error {
	return c.Device.UpdatePluginResources(n, a)
}

func (c *containerManager) GetPluginRegistrationHandlers() map[string]cache.PluginHandler {
	return map[string]cache.PluginHandler{pluginwatcher.DevicePlugin: c.Device.GetWatcherHandler()}
}

// admitHandler returns the handler that admits or refuses pods: the journal if decisions are recorded, otherwise the
// topology manager.
func (c *containerManager) admitHandler() lifecycle.PodAdmitHandler {
	if c.journal != nil {
		return c.journal
	}
	return c.Topology
}

func (c *containerManager) hasExclusiveCPUs(p *v1.Pod, k *v1.Container) bool {
	return !c.CPU.GetExclusiveCPUs(string(p.UID), k.Name).IsEmpty()
}

func (c *containerManager) podHasExclusiveCPUs(p *v1.Pod) bool {
	has := func(k v1.Container) bool { return c.hasExclusiveCPUs(p, &k) }
	return slices.ContainsFunc(p.Spec.InitContainers, has) || slices.ContainsFunc(p.Spec.Containers, has)
}

func runOptions(d *devicemanager.DeviceRunContainerOptions) *kubecontainer.RunContainerOptions {
	if d == nil {
		return &kubecontainer.RunContainerOptions{}
	}
	return &kubecontainer.RunContainerOptions{
		Devices: d.Devices, Mounts: d.Mounts, Envs: d.Envs, Annotations: d.Annotations, CDIDevices: d.CDIDevices,
	}
}

func (c *containerManager) GetHealthCheckers() []healthz.HealthChecker {
	return []healthz.HealthChecker{c.Device.GetHealthChecker()}
}

func (c *containerManager) ShouldResetExtendedResourceCapacity() bool {
	return c.Device.ShouldResetExtendedResourceCapacity()
}

func (c *containerManager) Updates() <-chan resourceupdates.Update { return c.Device.Updates() }

// The podresources API calls the following methods, and the methods in the file of the release.

func (c *containerManager) GetAllocatableCPUs() []int64 { return ids(c.CPU.GetAllocatableCPUs()) }

func ids(s cpuset.CPUSet) []int64 {
	out := make([]int64, 0, s.Size())
	for _, id := range s.List() {
		out = append(out, int64(id))
	}
	return out
}

func memory(blocks []state.Block) []*podresources.ContainerMemory {
	var out []*podresources.ContainerMemory
	for _, b := range blocks {
		m := &podresources.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: &podresources.TopologyInfo{}}
		for _, n := range b.NUMAAffinity {
			m.Topology.Nodes = append(m.Topology.Nodes, &podresources.NUMANode{ID: int64(n)})
		}
		out = append(out, m)
	}
	return out
}

func (c *containerManager) GetDevices(pod, container string) []*podresources.ContainerDevices {
	return devices(c.Device.GetDevices(pod, container))
}

// devices returns one entry per device and NUMA node, as the kubelet does, in a stable order.
func devices(in devicemanager.ResourceDeviceInstances) []*podresources.ContainerDevices {
	var out []*podresources.ContainerDevices
	for resource, instances := range in {
		for id, dev := range instances {
			entry := podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}}
			if dev.GetTopology() == nil {
				out = append(out, &entry)
			}
			for _, n := range dev.GetTopology().GetNodes() {
				e := podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{id},
					Topology: &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: n.GetID()}}}}
				out = append(out, &e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *podresources.ContainerDevices) int {
		return cmp.Or(strings.Compare(a.ResourceName, b.ResourceName), strings.Compare(a.DeviceIds[0], b.DeviceIds[0]))
	})
	return out
}

// containerLifecycle writes the managers' decisions into each container, as the kubelet's own does.
type containerLifecycle struct{ c *containerManager }

func (l containerLifecycle) create(p *v1.Pod, k *v1.Container, config *runtimeapi.ContainerConfig) {
	if s := l.c.CPU.GetCPUAffinity(string(p.UID), k.Name); !s.IsEmpty() {
		config.Linux.Resources.CpusetCpus = s.String()
	}
	var mems []string
	for _, n := range sets.List(l.c.memoryNUMANodes(p, k)) {
		mems = append(mems, strconv.Itoa(n))
	}
	if len(mems) > 0 {
		config.Linux.Resources.CpusetMems = strings.Join(mems, ",")
	}
	if config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	if finishes(p, k) {
		config.Annotations[finishesAnnotation] = "true"
	}
	if p.Annotations[KilledAnnotation] != "" {
		config.Annotations[KilledAnnotation] = "true"
	}
}
