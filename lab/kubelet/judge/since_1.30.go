//go:build !since1.34

package main

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// This file calls the managers of releases up to 1.33. Their functions take other arguments in other releases.

type machineInfo = cadvisorapi.MachineInfo

// newDeviceManager is the device manager's constructor for any path of its socket. The exported constructor serves
// only the one fixed path of a host.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, topology []cadvisorapi.Node,
	store topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newTopologyManager(info *machineInfo, s *settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(info.Topology, s.TopologyPolicy, s.TopologyScope, s.TopologyOptions)
}

func newDevices(socket string, info *machineInfo, t topologymanager.Manager) (*devicemanager.ManagerImpl, error) {
	return newDeviceManager(socket, info.Topology, t)
}

func newCPUManager(dir string, info *machineInfo, reserved cpuset.CPUSet, t topologymanager.Manager, s *settings) (
	cpumanager.Manager, error) {
	return cpumanager.NewManager(s.CPUPolicy, s.CPUOptions, never, info, reserved, s.NodeReservation, dir, t)
}

func newMemoryManager(dir string, info *machineInfo, reserved []config.MemoryReservation, t topologymanager.Manager,
	s *settings) (memorymanager.Manager, error) {
	return memorymanager.NewManager(s.MemoryPolicy, info, s.NodeReservation, reserved, dir, t)
}

func (m *managers) add(p topologymanager.HintProvider) { m.topology.AddHintProvider(p) }

func (m *managers) startCPU(s surroundings) error {
	return m.cpu.Start(s.pods, s.sources, noStatus{}, noRuntime{}, s.containers())
}

func (m *managers) startMemory(s surroundings) error {
	return m.memory.Start(s.pods, s.sources, noStatus{}, noRuntime{}, s.containers())
}

func (m *managers) startDevices(s surroundings) error {
	return m.device.Start(s.pods, s.sources, s.containers(), s.running)
}

func (m *managers) stop() error { return m.device.Stop() }

func (m *managers) decide(pod *v1.Pod) lifecycle.PodAdmitResult {
	return m.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func (m *managers) startContainer(pod *v1.Pod, c *v1.Container, id string) {
	m.cpu.AddContainer(pod, c, id)
	m.memory.AddContainer(pod, c, id)
	m.topology.AddContainer(pod, c, id)
}

// forget drops the topology manager's hints of a container. Otherwise they would remain if the container never ran.
// RemoveContainer finds them by the id that AddContainer records.
func (m *managers) forget(pod *v1.Pod, c *v1.Container, id string) {
	m.topology.AddContainer(pod, c, id)
	_ = m.topology.RemoveContainer(id) // fails only where AddContainer did nothing
}

// collect makes the managers free the holdings of pods that are no longer active, which they do whenever hints are
// requested. It requests hints for a pod without containers, because up to 1.31 the managers do not free the holdings
// of the pod for which hints were last requested.
func (m *managers) collect() {
	pod, container := &v1.Pod{}, &v1.Container{}
	m.cpu.GetTopologyHints(pod, container)
	m.memory.GetTopologyHints(pod, container)
	m.device.GetTopologyHints(pod, container)
}

func (m *managers) connected(name string, p plugin) error { return m.device.PluginConnected(name, p) }

func (m *managers) listed(name string, r *api.ListAndWatchResponse) {
	m.device.PluginListAndWatchReceiver(name, r)
}

func (m *managers) healthy() devicemanager.ResourceDeviceInstances {
	return m.device.GetAllocatableDevices()
}

func (m *managers) blocks(pod, container string) []memorystate.Block {
	return m.memory.GetMemory(pod, container)
}
