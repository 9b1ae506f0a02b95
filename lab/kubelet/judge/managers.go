package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

// never is the period of the CPU manager's loop. judge.active ends the loop in its first run.
const never = 10000 * time.Hour

// managers are the kubelet's four resource managers. Their methods that differ between releases are in the files
// since_1.NN.go.
type managers struct {
	topology topologymanager.Manager
	device   *devicemanager.ManagerImpl
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
}

// compose makes the managers, as the kubelet does, and does not start them. Their files are below dir.
func (m *managers) compose(dir string, s *settings) error {
	info := &machineInfo{}
	if err := json.Unmarshal(s.Machine, info); err != nil {
		return fmt.Errorf("read machine: %w", err)
	}
	cpus, err := cpuset.Parse(s.ReservedCPUs)
	if err != nil {
		return fmt.Errorf("read reserved CPUs: %w", err)
	}
	if m.topology, err = newTopologyManager(info, s); err != nil {
		return fmt.Errorf("make topology manager: %w", err)
	}
	if m.device, err = newDevices(socketIn(dir), info, m.topology); err != nil {
		return fmt.Errorf("make device manager: %w", err)
	}
	if m.cpu, err = newCPUManager(dir, info, cpus, m.topology, s); err != nil {
		return fmt.Errorf("make CPU manager: %w", err)
	}
	var kept []config.MemoryReservation
	for _, r := range s.ReservedMemory {
		kept = append(kept, config.MemoryReservation{NumaNode: r.NUMA, Limits: r.Limits})
	}
	if m.memory, err = newMemoryManager(dir, info, kept, m.topology, s); err != nil {
		return fmt.Errorf("make memory manager: %w", err)
	}
	for _, p := range m.providers() {
		m.add(p)
	}
	return nil
}

// surroundings has the parts of a kubelet that the managers call.
type surroundings struct {
	pods    func() []*v1.Pod
	sources *readiness
	// before are the containers that an earlier process of the kubelet started, and running the ids of the containers
	// that still run.
	before  []found
	running sets.Set[string]
}

func (k found) id() string { return k.Pod + "/" + k.Name }

// containers returns a new map of the containers, because each manager changes its own.
func (s surroundings) containers() containermap.ContainerMap {
	out := containermap.NewContainerMap()
	for _, k := range s.before {
		out.Add(k.Pod, k.Name, k.id())
	}
	return out
}

// startAll starts the managers in the kubelet's order: CPU, memory, device.
func (m *managers) startAll(pods func() []*v1.Pod, sources *readiness, before []found) error {
	s := surroundings{pods, sources, before, sets.New[string]()}
	for _, k := range before {
		if k.Running {
			s.running.Insert(k.id())
		}
	}
	if err := m.startCPU(s); err != nil {
		return fmt.Errorf("start CPU manager: %w", err)
	}
	if err := m.startMemory(s); err != nil {
		return fmt.Errorf("start memory manager: %w", err)
	}
	if err := m.startDevices(s); err != nil {
		return fmt.Errorf("start device manager: %w", err)
	}
	return nil
}

// state returns what the managers have recorded, without containers that hold nothing.
func (j *judge) state() *state {
	out := &state{SharedCPUs: j.cpu.State().GetDefaultCPUSet().String(), FreeMemory: map[int]map[string]uint64{},
		Healthy: map[string][]string{}}
	for numa, n := range j.memory.State().GetMachineState() {
		out.FreeMemory[numa] = map[string]uint64{}
		for kind, table := range n.MemoryMap {
			out.FreeMemory[numa][string(kind)] = table.Free
		}
	}
	for name, devices := range j.healthy() {
		for id := range devices {
			out.Healthy[name] = append(out.Healthy[name], id)
		}
		slices.Sort(out.Healthy[name])
	}
	for _, pod := range j.pods {
		whole, ok := j.heldByPod(string(pod.UID))
		if ok {
			out.Held = append(out.Held, whole)
		}
		each(pod, func(c *v1.Container) {
			h := j.held(string(pod.UID), c.Name)
			if ok { // the CPUs and memory of its containers are a part of the pod's
				h.CPUs, h.Memory = "", nil
			}
			if h.CPUs != "" || len(h.Memory)+len(h.Devices) > 0 {
				out.Held = append(out.Held, h)
			}
		})
	}
	return out
}

// held returns what the managers have recorded for one container. A list of devices is sorted by id.
func (m *managers) held(pod, container string) held {
	h := held{Pod: pod, Container: container, CPUs: m.cpu.GetExclusiveCPUs(pod, container).String()}
	for _, b := range m.blocks(pod, container) {
		h.Memory = append(h.Memory, block{string(b.Type), b.NUMAAffinity, b.Size})
	}
	for name, devices := range m.device.GetDevices(pod, container) {
		if h.Devices == nil {
			h.Devices = map[string][]device{}
		}
		list := []device{}
		for id, dev := range devices {
			d := device{ID: id}
			for _, n := range dev.GetTopology().GetNodes() {
				d.NUMAs = append(d.NUMAs, n.GetID())
			}
			list = append(list, d)
		}
		slices.SortFunc(list, func(a, b device) int { return strings.Compare(a.ID, b.ID) })
		h.Devices[name] = list
	}
	return h
}

// What managers call if there is no kubelet: no status is known, and no container runs.
type (
	noStatus  struct{}
	noRuntime struct{}
)

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (noRuntime) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}
