//go:build upto1.34

package kubelet

import (
	"context"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/util"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
)

// This file has the calls in which a lab kubelet of 1.34 differs from other releases.

type (
	machineInfo = cadvisorapi.MachineInfo
	numaInfo    = cadvisorapi.Node
	pagesInfo   = cadvisorapi.HugePagesInfo
	coreInfo    = cadvisorapi.Core
	cacheInfo   = cadvisorapi.Cache
	versionInfo = cadvisorapi.VersionInfo
	fsInfo      = cadvisorapiv2.FsInfo
)

func (h *hardware) MachineInfo() (*machineInfo, error) { return h.info, nil }

func newLatencyTracker() util.NodeStartupLatencyTracker {
	return util.NewNodeStartupLatencyTracker()
}

// newDeviceManager is the device manager's constructor for any path of its socket. The exported constructor serves
// only the one fixed path of a host, /var/lib/kubelet/device-plugins.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, topology []cadvisorapi.Node, store topologymanager.Store) (
	*devicemanager.ManagerImpl, error)

func newDevices(_ klog.Logger, socket string, info *machineInfo, t topologymanager.Manager) (
	*devicemanager.ManagerImpl, error) {
	return newDeviceManager(socket, info.Topology, t)
}

func newTopologyManager(_ klog.Logger, info *machineInfo, c *config.KubeletConfiguration) (topologymanager.Manager,
	error) {
	return topologymanager.NewManager(info.Topology, c.TopologyManagerPolicy, c.TopologyManagerScope,
		c.TopologyManagerPolicyOptions)
}

func newCPUManager(_ klog.Logger, info *machineInfo, c *config.KubeletConfiguration, a *allocatable, dir string,
	t topologymanager.Manager) (cpumanager.Manager, error) {
	return cpumanager.NewManager(c.CPUManagerPolicy, c.CPUManagerPolicyOptions,
		c.CPUManagerReconcilePeriod.Duration, info, a.cpus, a.reservation(), dir, t)
}

func newMemoryManager(logger klog.Logger, info *machineInfo, c *config.KubeletConfiguration, a *allocatable,
	dir string, t topologymanager.Manager) (memorymanager.Manager, error) {
	ctx := klog.NewContext(context.Background(), logger)
	return memorymanager.NewManager(ctx, c.MemoryManagerPolicy, info, a.reservation(), c.ReservedMemory, dir, t)
}

func addHintProvider(_ klog.Logger, t topologymanager.Manager, p topologymanager.HintProvider) {
	t.AddHintProvider(p)
}

func (m *Managers) startCPU(_ context.Context, s surroundings) error {
	return m.CPU.Start(s.pods, s.sources, s.statuses, s.runtime, s.containers.Clone())
}

func (m *Managers) startMemory(ctx context.Context, s surroundings) error {
	return m.Memory.Start(ctx, s.pods, s.sources, s.statuses, s.runtime, s.containers.Clone())
}

func (m *Managers) startDevices(_ context.Context, s surroundings) error {
	return m.Device.Start(s.pods, s.sources, s.containers.Clone(), s.running)
}

func (m *Managers) stopDevices() error { return m.Device.Stop() }

func (m *Managers) decide(_ context.Context, a *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return m.Topology.Admit(a)
}

// Admit implements lifecycle.PodAdmitHandler.
func (j *journal) Admit(a *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return j.admit(context.Background(), a)
}

// startContainer notifies the managers that a container starts (cm/internal_container_lifecycle_linux.go,
// PreStartContainer).
func (m *Managers) startContainer(pod *v1.Pod, c *v1.Container, id string) {
	m.CPU.AddContainer(pod, c, id)
	m.Memory.AddContainer(context.Background(), pod, c, id)
	m.hintsOf(pod, c, id)
}

// hintsOf makes the topology manager keep a container's hints until dropHints is called with the same id.
func (m *Managers) hintsOf(pod *v1.Pod, c *v1.Container, id string) {
	m.Topology.AddContainer(pod, c, id)
}

func (m *Managers) dropHints(id string) error { return m.Topology.RemoveContainer(id) }

// askForHints makes the CPU and memory managers free the holdings of pods that are not active, which they do whenever
// hints are requested.
func (m *Managers) askForHints(pod *v1.Pod, c *v1.Container) {
	m.CPU.GetTopologyHints(pod, c)
	m.Memory.GetTopologyHints(pod, c)
}

func (m *Managers) freeDevices() { m.Device.UpdateAllocatedDevices() }

func (m *Managers) connectPlugin(_ context.Context, resource string, p plugin) error {
	return m.Device.PluginConnected(resource, p)
}

func (m *Managers) updateDevices(resource string, r *deviceplugin.ListAndWatchResponse) {
	m.Device.PluginListAndWatchReceiver(resource, r)
}

func (m *Managers) allocatableDevices() devicemanager.ResourceDeviceInstances {
	return m.Device.GetAllocatableDevices()
}

func (m *Managers) blocks(pod, container string) []state.Block {
	return m.Memory.GetMemory(context.Background(), pod, container)
}

func (m *Managers) memoryNUMANodes(pod *v1.Pod, c *v1.Container) sets.Set[int] {
	return m.Memory.GetMemoryNUMANodes(context.Background(), pod, c)
}

func (c *containerManager) GetCapacity(bool) v1.ResourceList { return c.allocatable.capacity }

func (c *containerManager) GetAllocateResourcesPodAdmitHandler() lifecycle.PodAdmitHandler {
	return c.admitHandler()
}

func (c *containerManager) GetDevicePluginResourceCapacity() (v1.ResourceList, v1.ResourceList, []string) {
	return c.Device.GetCapacity()
}

func (c *containerManager) UpdateAllocatedDevices() { c.freeDevices() }

func (c *containerManager) UpdateAllocatedResourcesStatus(p *v1.Pod, s *v1.PodStatus) {
	c.Device.UpdateAllocatedResourcesStatus(p, s)
}

func (c *containerManager) GetResources(ctx context.Context, p *v1.Pod, k *v1.Container) (
	*kubecontainer.RunContainerOptions, error) {
	d, err := c.Device.GetDeviceRunContainerOptions(p, k)
	return runOptions(d), err
}

func (c *containerManager) ContainerHasExclusiveCPUs(p *v1.Pod, k *v1.Container) bool {
	return c.hasExclusiveCPUs(p, k)
}

func (c *containerManager) PodHasExclusiveCPUs(p *v1.Pod) bool { return c.podHasExclusiveCPUs(p) }

func (c *containerManager) GetCPUs(pod, container string) []int64 {
	return ids(c.CPU.GetExclusiveCPUs(pod, container))
}

func (c *containerManager) GetMemory(pod, container string) []*podresources.ContainerMemory {
	return memory(c.blocks(pod, container))
}

func (c *containerManager) GetAllocatableMemory() []*podresources.ContainerMemory {
	return memory(c.Memory.GetAllocatableMemory(context.Background()))
}

func (c *containerManager) GetAllocatableDevices() []*podresources.ContainerDevices {
	return devices(c.allocatableDevices())
}

func (c *containerManager) InternalContainerLifecycle() cm.InternalContainerLifecycle {
	return containerLifecycle{c}
}

func (l containerLifecycle) PreCreateContainer(p *v1.Pod, k *v1.Container,
	config *runtimeapi.ContainerConfig) error {
	l.create(p, k, config)
	return nil
}

func (l containerLifecycle) PreStartContainer(p *v1.Pod, k *v1.Container, id string) error {
	l.c.startContainer(p, k, id)
	return nil
}

func (l containerLifecycle) PostStopContainer(id string) error { return l.c.dropHints(id) }

func (prober) UpdatePodStatus(_ *v1.Pod, s *v1.PodStatus) { setProbeResults(s) }
