package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// The state files, relative to the kubelet's root directory.
const (
	CPUStateFile    = "cpu_manager_state"
	MemoryStateFile = "memory_manager_state"
	DeviceStateFile = "device-plugins/kubelet_internal_checkpoint"
)

// CPUState is cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go).
type CPUState struct {
	Policy string
	Shared idset.Set[idset.CPU] // defaultCpuSet: the CPUs of all containers without exclusive CPUs
	// Containers are exclusive CPUs by pod UID and container.
	Containers map[string]map[string]idset.Set[idset.CPU]
	// Pods are exclusive CPUs of pods as a whole, by UID (version 3: pod-level resources).
	Pods map[string]idset.Set[idset.CPU]
	// ByContainerID are the entries of a version 1 file, which names no pods.
	ByContainerID map[string]idset.Set[idset.CPU]
}

// ParseCPUState reads cpu_manager_state of versions 1 to 4. It ignores the checksum, which depends on names in the
// kubelet's Go source. The kubelet replaces the file as a whole, so the file is never half written.
func ParseCPUState(data []byte) (*CPUState, error) {
	var in struct {
		PolicyName    string                     `json:"policyName"`
		DefaultCPUSet string                     `json:"defaultCpuSet"`
		Entries       map[string]json.RawMessage `json:"entries"`
		PodEntries    map[string]struct {
			CPUSet string `json:"cpuSet"`
		} `json:"podEntries"`
	}
	if err := readCheckpoint(data, &in); err != nil {
		return nil, fmt.Errorf("parse %s: %w", CPUStateFile, err)
	}
	out := &CPUState{Policy: in.PolicyName, Containers: map[string]map[string]idset.Set[idset.CPU]{},
		Pods: map[string]idset.Set[idset.CPU]{}, ByContainerID: map[string]idset.Set[idset.CPU]{}}
	var err error
	if out.Shared, err = idset.Parse[idset.CPU](in.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("%s: defaultCpuSet: %w", CPUStateFile, err)
	}
	count := len(in.PodEntries)
	for uid, raw := range in.Entries {
		n, err := out.entry(uid, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: entries: %q: %w", CPUStateFile, clip(uid), err)
		}
		if count += n; count > maxContainers {
			return nil, fmt.Errorf("%s: more than %d entries", CPUStateFile, maxContainers)
		}
	}
	for uid, e := range in.PodEntries {
		if out.Pods[uid], err = idset.Parse[idset.CPU](e.CPUSet); err != nil {
			return nil, fmt.Errorf("%s: podEntries: %q: %w", CPUStateFile, clip(uid), err)
		}
	}
	return out, nil
}

// readCheckpoint decodes the file of a CPU or memory manager into a struct. A kubelet of 1.37 writes the whole
// content as JSON text into the field data, and beside it the fields that older kubelets read. If the file has the
// field data, readCheckpoint decodes only that text.
func readCheckpoint(file []byte, into any) error {
	var wrapped struct {
		Data string `json:"data"`
	}
	if err := json.Unmarshal(file, &wrapped); err != nil {
		return err
	}
	if wrapped.Data != "" {
		file = []byte(wrapped.Data)
	}
	return json.Unmarshal(file, into)
}

// entry reads one value of the field entries: the CPUs of a pod's containers or, if the value is a string, of one
// container (version 1). It returns how many containers it has read.
func (s *CPUState) entry(key string, raw json.RawMessage) (int, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var set idset.Set[idset.CPU]
		if err := json.Unmarshal(raw, &set); err != nil {
			return 0, err
		}
		s.ByContainerID[key] = set
		return 1, nil
	}
	var byName map[string]idset.Set[idset.CPU]
	if err := json.Unmarshal(raw, &byName); err != nil {
		return 0, err
	}
	s.Containers[key] = byName
	return len(byName), nil
}

// MemoryBlock is memory of one kind on a set of NUMA nodes, by their ids. Bytes may be 0.
type MemoryBlock struct {
	Kind  string
	NUMAs idset.Set[idset.NUMA]
	Bytes int64
}

// MemoryState is memory_manager_state (pkg/kubelet/cm/memorymanager/state).
type MemoryState struct {
	Policy string
	// Cells are the memory manager's groups of NUMA nodes, by NUMA node.
	Cells map[idset.NUMA]idset.Set[idset.NUMA]
	// Reserved is the assigned amount of all NUMA nodes together, in bytes by kind.
	Reserved map[string]uint64
	// Free is the unassigned amount of every NUMA node, in bytes by kind.
	Free map[idset.NUMA]map[string]uint64
	// Used is the amount of every NUMA node that is assigned to containers, in bytes by kind.
	Used map[idset.NUMA]map[string]uint64
	// Containers are blocks by pod UID and container.
	Containers map[string]map[string][]MemoryBlock
	// Pods are blocks of pods as a whole, by UID (version 2: pod-level resources).
	Pods map[string][]MemoryBlock
}

type blockJSON struct {
	NUMAAffinity []int  `json:"numaAffinity"`
	Type         string `json:"type"`
	Size         uint64 `json:"size"`
}

// ParseMemoryState reads memory_manager_state of versions 1 to 3.
func ParseMemoryState(data []byte) (*MemoryState, error) {
	var in struct {
		PolicyName   string `json:"policyName"`
		MachineState map[string]*struct {
			Cells     []int `json:"cells"`
			MemoryMap map[string]*struct {
				Reserved uint64 `json:"reserved"`
				Free     uint64 `json:"free"`
			} `json:"memoryMap"`
		} `json:"machineState"`
		Entries    map[string]map[string][]blockJSON `json:"entries"`
		PodEntries map[string]struct {
			MemoryBlocks []blockJSON `json:"memoryBlocks"`
		} `json:"podEntries"`
	}
	if err := readCheckpoint(data, &in); err != nil {
		return nil, fmt.Errorf("parse %s: %w", MemoryStateFile, err)
	}
	out := &MemoryState{Policy: in.PolicyName, Cells: map[idset.NUMA]idset.Set[idset.NUMA]{},
		Reserved: map[string]uint64{},
		Free:     map[idset.NUMA]map[string]uint64{}, Used: map[idset.NUMA]map[string]uint64{},
		Containers: map[string]map[string][]MemoryBlock{}, Pods: map[string][]MemoryBlock{}}
	for key, n := range in.MachineState {
		id, err := strconv.Atoi(key)
		if err != nil || !idset.Valid(id) || n == nil {
			return nil, fmt.Errorf("%s: machineState: %q is not a NUMA node", MemoryStateFile, clip(key))
		}
		if out.Cells[idset.NUMA(id)], err = ids[idset.NUMA](n.Cells); err != nil {
			return nil, fmt.Errorf("%s: cells of NUMA node %d: %w", MemoryStateFile, id, err)
		}
		if err := within("memory kinds", len(n.MemoryMap), maxBlocks); err != nil {
			return nil, fmt.Errorf("%s: NUMA node %d: %w", MemoryStateFile, id, err)
		}
		free, used := map[string]uint64{}, map[string]uint64{}
		for kind, table := range n.MemoryMap {
			if table != nil {
				out.Reserved[kind] += table.Reserved
				free[kind], used[kind] = table.Free, table.Reserved
			}
		}
		out.Free[idset.NUMA(id)], out.Used[idset.NUMA(id)] = free, used
	}
	count := 0
	for uid, byName := range in.Entries {
		if count += len(byName); count > maxContainers {
			return nil, fmt.Errorf("%s: more than %d entries", MemoryStateFile, maxContainers)
		}
		if _, whole := in.PodEntries[uid]; whole {
			// The containers' blocks are parts of the pod's blocks. The part that containers share wraps below 0 if a
			// container has a kind of memory that the pod does not request (memorymanager/policy_static.go, AllocatePod).
			continue
		}
		out.Containers[uid] = map[string][]MemoryBlock{}
		for container, blocks := range byName {
			var err error
			if out.Containers[uid][container], err = readBlocks(blocks); err != nil {
				return nil, fmt.Errorf("%s: pod %q container %q: %w", MemoryStateFile, clip(uid), clip(container), err)
			}
		}
	}
	for uid, e := range in.PodEntries {
		var err error
		if out.Pods[uid], err = readBlocks(e.MemoryBlocks); err != nil {
			return nil, fmt.Errorf("%s: pod %q: %w", MemoryStateFile, clip(uid), err)
		}
	}
	return out, nil
}

func readBlocks(in []blockJSON) (out []MemoryBlock, err error) {
	if err := within("blocks", len(in), maxBlocks); err != nil {
		return nil, err
	}
	for _, b := range in {
		block, err := memoryBlock(b.Type, b.Size)
		if err != nil {
			return nil, err
		}
		if block.NUMAs, err = ids[idset.NUMA](b.NUMAAffinity); err != nil {
			return nil, fmt.Errorf("numaAffinity: %w", err)
		}
		out = append(out, block)
	}
	return out, nil
}

func memoryBlock(kind string, size uint64) (MemoryBlock, error) {
	k, err := memoryKind(kind)
	if err != nil {
		return MemoryBlock{}, err
	}
	if size > maxBytes {
		return MemoryBlock{}, fmt.Errorf("%s: size %d is above %d bytes", k, size, int64(maxBytes))
	}
	return MemoryBlock{Kind: k, Bytes: int64(size)}, nil
}

// Device is one device of a resource, with the ids of its NUMA nodes; none if it has no affinity.
type Device struct {
	Resource string
	ID       string
	NUMAs    idset.Set[idset.NUMA]
	// List is the kind of the list of NUMA nodes that the device plugin announced, as the PodResources service shows it.
	// It is UsualList if the device is known only from a state file.
	List topo.NUMAList
}

// DeviceState is kubelet_internal_checkpoint (pkg/kubelet/cm/devicemanager/checkpoint).
type DeviceState struct {
	// Containers are devices by pod UID and container, ascending by resource and id.
	Containers map[string]map[string][]Device
	// Registered are the ids of the healthy devices that plugins have announced, ascending, by resource.
	Registered map[string][]string
}

// ParseDeviceState reads kubelet_internal_checkpoint.
func ParseDeviceState(data []byte) (*DeviceState, error) {
	var in struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID, ContainerName, ResourceName string
				// The keys are NUMA nodes; -1 is for devices without affinity.
				DeviceIDs map[string][]string
			}
			RegisteredDevices map[string][]string
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("parse %s: %w", DeviceStateFile, err)
	}
	if err := within("entries", len(in.Data.PodDeviceEntries), maxContainers); err != nil {
		return nil, fmt.Errorf("%s: %w", DeviceStateFile, err)
	}
	out := &DeviceState{Containers: map[string]map[string][]Device{}, Registered: in.Data.RegisteredDevices}
	for _, ids := range out.Registered {
		slices.Sort(ids)
	}
	for _, e := range in.Data.PodDeviceEntries {
		var list []Device
		for key, devs := range e.DeviceIDs {
			numas, err := deviceNUMA(key)
			if err != nil {
				return nil, fmt.Errorf("%s: pod %q %s: %w", DeviceStateFile, clip(e.PodUID), clip(e.ResourceName), err)
			}
			for _, id := range devs {
				list = append(list, Device{Resource: e.ResourceName, ID: id, NUMAs: numas})
			}
		}
		if out.Containers[e.PodUID] == nil {
			out.Containers[e.PodUID] = map[string][]Device{}
		}
		merged, err := mergeDevices(append(out.Containers[e.PodUID][e.ContainerName], list...))
		if err != nil {
			return nil, fmt.Errorf("%s: pod %q container %q: %w", DeviceStateFile, clip(e.PodUID), clip(e.ContainerName), err)
		}
		out.Containers[e.PodUID][e.ContainerName] = merged
	}
	return out, nil
}

func deviceNUMA(key string) (idset.Set[idset.NUMA], error) {
	n, err := strconv.Atoi(key)
	if err != nil {
		return idset.Set[idset.NUMA]{}, fmt.Errorf("DeviceIDs: %q is not a NUMA node", clip(key))
	}
	if n < 0 || n > idset.Max { // plugins announce any number; the device then has no affinity
		return idset.Set[idset.NUMA]{}, nil
	}
	return idset.Of(idset.NUMA(n)), nil
}
