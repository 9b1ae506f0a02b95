package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/plugins"
)

// never is a reconcile period for managers without a kubelet: the CPU manager's loop cannot be stopped, so it runs once
// and sleeps.
const never = 10000 * time.Hour

// maxSocketPath is Linux's limit for the path of a unix socket, in bytes.
const maxSocketPath = 107

// Managers are the kubelet's four resource managers, composed in the kubelet's order of hint
// providers: device, CPU, memory (cm/container_manager_linux.go, NewContainerManager).
type Managers struct {
	Topology topologymanager.Manager
	Device   *devicemanager.ManagerImpl
	CPU      cpumanager.Manager
	Memory   memorymanager.Manager

	machine     *topo.Machine
	info        *machineInfo
	allocatable *allocatable
	socket      string
}

// NewManagers makes and starts the managers of a machine under a configuration, with devices connected in memory. It
// applies defaults to a copy of the configuration. State files and sockets are kept in dir, which must exist, be empty,
// and be short (a socket's path has at most 107 bytes). A memory file system makes them fast.
//
// pods lists the active pods; goroutines of the managers call it, too. A pod must be listed while it is admitted, or
// its first container's share is freed while the second is served. A pod that is no longer listed is freed by
// [Managers.Collect], and at the latest by the next admission.
func NewManagers(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	pods func() []*v1.Pod) (*Managers, error) {
	internal, _, err := withDefaults(withoutHost(c))
	if err != nil {
		return nil, err
	}
	internal.CPUManagerReconcilePeriod.Duration = never
	out, err := compose(klog.FromContext(ctx), dir, m, MachineInfo("machine", m), internal)
	if err != nil {
		return nil, err
	}
	if err := out.start(ctx, surroundings{pods: pods, sources: ready{}, statuses: noStatus{}, runtime: noRuntime{},
		containers: containermap.NewContainerMap(), running: sets.New[string]()}); err != nil {
		return nil, err
	}
	if err := out.connect(ctx, m); err != nil {
		return nil, err
	}
	return out, nil
}

// connect registers a device plugin for every resource of the machine, with its devices.
func (m *Managers) connect(ctx context.Context, machine *topo.Machine) error {
	for _, r := range machine.Resources() {
		if err := m.connectPlugin(ctx, r.Name, plugin{name: r.Name}); err != nil {
			return fmt.Errorf("connect devices of %s: %w", r.Name, err)
		}
		m.updateDevices(r.Name, plugins.List(machine, r))
	}
	return nil
}

// compose makes the managers, connected to each other and not started. Their files are below dir.
func compose(logger klog.Logger, dir string, m *topo.Machine, info *machineInfo,
	c *config.KubeletConfiguration) (*Managers, error) {
	a, err := newAllocatable(c, info)
	if err != nil {
		return nil, err
	}
	out := &Managers{machine: m, info: info, allocatable: a, socket: filepath.Join(dir, "device-plugins", "kubelet.sock")}
	if len(out.socket) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, the most is %d: use a shorter directory", out.socket,
			len(out.socket), maxSocketPath)
	}
	if extra := a.cpus.Difference(cpusOf(m)); !extra.IsEmpty() {
		return nil, fmt.Errorf("reservedSystemCPUs: machine has no CPU %s", extra)
	}
	if out.Topology, err = newTopologyManager(logger, info, c); err != nil {
		return nil, fmt.Errorf("make topology manager: %w", err)
	}
	if out.Device, err = newDevices(logger, out.socket, info, out.Topology); err != nil {
		return nil, fmt.Errorf("make device manager: %w", err)
	}
	if out.CPU, err = newCPUManager(logger, info, c, a, dir, out.Topology); err != nil {
		return nil, fmt.Errorf("make CPU manager: %w", err)
	}
	if out.Memory, err = newMemoryManager(logger, info, c, a, dir, out.Topology); err != nil {
		return nil, fmt.Errorf("make memory manager: %w", err)
	}
	for _, p := range []topologymanager.HintProvider{out.Device, out.CPU, out.Memory} {
		addHintProvider(logger, out.Topology, p)
	}
	return out, nil
}

// start starts the managers in the kubelet's order: CPU, memory, device.
func (m *Managers) start(ctx context.Context, s surroundings) error {
	if err := m.startCPU(ctx, s); err != nil {
		return fmt.Errorf("start CPU manager: %w", err)
	}
	if err := m.startMemory(ctx, s); err != nil {
		return fmt.Errorf("start memory manager: %w", err)
	}
	if err := m.startDevices(ctx, s); err != nil {
		return fmt.Errorf("start device manager: %w", err)
	}
	return nil
}

// Admit asks the managers to admit the pod, as the kubelet does. If they admit it, they have allocated its resources.
func (m *Managers) Admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	return m.decide(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod})
}

// Forget drops the topology manager's hints for a pod that is gone. Nothing else drops them if no container ran.
func (m *Managers) Forget(pod *v1.Pod) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			id := string(pod.UID) + "/" + list[i].Name
			m.hintsOf(pod, &list[i], id)
			_ = m.dropHints(id) // fails only if hintsOf did nothing
		}
	}
}

// Collect frees the resources of pods that are no longer active. The managers do so themselves only when the next pod
// is admitted.
func (m *Managers) Collect() {
	m.askForHints(&v1.Pod{}, &v1.Container{})
	m.freeDevices()
}

// Holding returns the managers' records of a container: exclusive CPUs, memory blocks in the managers' order, and
// devices by ascending resource and id. Kind is left at its zero value.
func (m *Managers) Holding(pod types.UID, container string) place.Holding {
	h := place.Holding{Container: container}
	var cpus []idset.CPU
	for _, id := range m.CPU.GetExclusiveCPUs(string(pod), container).List() {
		cpus = append(cpus, idset.CPU(id))
	}
	h.CPUs = idset.Of(cpus...)
	for _, b := range m.blocks(string(pod), container) {
		block := place.Block{Kind: string(b.Type), Bytes: int64(b.Size)}
		for _, id := range b.NUMAAffinity {
			block.NUMAs |= m.maskOf(idset.NUMA(id))
		}
		h.Memory = append(h.Memory, block)
	}
	for name, devices := range m.Device.GetDevices(string(pod), container) {
		d := place.DeviceBlock{Resource: name}
		for id, dev := range devices {
			d.IDs = append(d.IDs, id)
			for _, n := range dev.GetTopology().GetNodes() {
				d.NUMAs |= m.maskOf(idset.NUMA(n.GetID()))
			}
		}
		slices.Sort(d.IDs)
		h.Devices = append(h.Devices, d)
	}
	slices.SortFunc(h.Devices, func(a, b place.DeviceBlock) int { return strings.Compare(a.Resource, b.Resource) })
	return h
}

func (m *Managers) maskOf(id idset.NUMA) topo.Mask {
	mask, _ := m.machine.MaskOf(id) // the managers have only NUMA nodes of this machine
	return mask
}

// Stop closes the registration socket. State files stay in the directory.
func (m *Managers) Stop() error { return m.stopDevices() }

// surroundings has the parts of a kubelet that the managers call.
type surroundings struct {
	pods    func() []*v1.Pod
	sources interface {
		AddSource(string)
		AllReady() bool
	}
	statuses interface {
		GetPodStatus(types.UID) (v1.PodStatus, bool)
	}
	runtime interface {
		UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error
	}
	// containers are the containers that an earlier process of the kubelet started, and running the ids of the
	// containers that still run.
	containers containermap.ContainerMap
	running    sets.Set[string]
}

// Surroundings of managers without a kubelet: every source is ready, and no container runs.
type (
	ready     struct{}
	noStatus  struct{}
	noRuntime struct{}
)

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (noRuntime) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}
