package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Pod is a pod of the node, from the API server.
type Pod struct {
	ID state.PodID
	// StateUID is the UID under which the kubelet keeps the pod. It is the pod's own UID, except for a static pod,
	// whose mirror in the API server has another UID. It is empty if it is not known; then only the service reports the
	// pod's holdings.
	StateUID string
	// Containers are the init containers in spec order, then the app containers in spec order.
	Containers []Container
	// Done is set if the pod's phase is Succeeded or Failed.
	Done bool
}

// Container is a container's name, and its kind: init container, sidecar or app container.
type Container struct {
	Name string
	Kind place.Kind
}

// Pods finds the pods of the node by namespace and name. The agent implements it with the pods of its informer.
type Pods interface {
	Pod(namespace, name string) (Pod, bool)
}

// Observation is the kubelet's state at one moment. CPU, Memory and Devices are nil if the file does not exist; then
// the service is the only source of these holdings.
type Observation struct {
	// Started is when the kubelet started; see [PodResources.Started].
	Started     time.Time
	Listed      []Listed
	Allocatable []Device
	CPU         *CPUState
	Memory      *MemoryState
	Devices     *DeviceState
	// Capacity is how many devices of each resource the Node has, including unhealthy ones. Usable is how many of them
	// are healthy. Both are nil if the Node is unknown.
	Capacity, Usable map[string]int64
	// Held has the holdings of pods that the API server no longer has although their containers still run, for example
	// after a pod was deleted by force. It is set only if the agent is the arbiter.
	Held []state.Entry
	// Known are devices that the kubelet listed as allocatable earlier.
	Known []Device
	// omitted is the result of Omitted, set while Entries runs.
	omitted map[string]string
}

// Observe asks the service and then reads the state files in root, the kubelet's root directory. A missing file is no
// error; an unreadable one is.
func Observe(ctx context.Context, p *PodResources, root fs.FS) (o Observation, err error) {
	o.Started = p.Started()
	if o.Listed, err = p.List(ctx); err != nil {
		return o, err
	}
	if o.Allocatable, err = p.Devices(ctx); err != nil {
		return o, err
	}
	if o.CPU, err = readState(root, CPUStateFile, ParseCPUState); err != nil {
		return o, err
	}
	if o.Memory, err = readState(root, MemoryStateFile, ParseMemoryState); err != nil {
		return o, err
	}
	o.Devices, err = ReadDeviceState(root)
	return o, err
}

// ReadDeviceState reads which devices containers have from root, the kubelet's root directory. The state is nil where
// the kubelet has written none.
func ReadDeviceState(root fs.FS) (*DeviceState, error) {
	return readState(root, DeviceStateFile, ParseDeviceState)
}

// Unsettled returns how the state files contradict themselves; "" if they do not. The kubelet rewrites a file for
// every step of an admission. In between, CPUs are neither shared nor held, or both, and some assigned memory belongs
// to no container. Some contradictions are permanent: memory that was not returned, or a CPU that was given to two
// pods on a machine with unequal cores. Unsettled does not compare memory if some pod has memory as a whole.
func (o Observation) Unsettled(m *topo.Machine, r place.CPURules) string {
	if why := o.CPU.contradiction(m, r); why != "" {
		return why
	}
	if o.Memory == nil || len(o.Memory.Pods) > 0 {
		return ""
	}
	held := map[string]uint64{}
	for _, byName := range o.Memory.Containers {
		for _, blocks := range byName {
			for _, b := range blocks {
				held[b.Kind] += uint64(b.Bytes)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(o.Memory.Reserved)) {
		if n := o.Memory.Reserved[kind]; held[kind] != n {
			return fmt.Sprintf("%d bytes of %s are assigned, containers have %d", n, kind, held[kind])
		}
	}
	return ""
}

// Contradicts returns an error if a state file has another policy than the rules. The rules are then out of date, or
// will be: a kubelet that restarts with another policy writes its files before it serves its new configuration.
func (o Observation) Contradicts(r place.Rules) error {
	if s := o.CPU; s != nil && s.Policy != "" && (s.Policy == "static") != r.CPU.Static {
		return fmt.Errorf("%s has policy %q, the kubelet's configuration has another", CPUStateFile, s.Policy)
	}
	if s := o.Memory; s != nil && s.Policy != "" && (s.Policy == "Static") != r.Memory.Static {
		return fmt.Errorf("%s has policy %q, the kubelet's configuration has another", MemoryStateFile, s.Policy)
	}
	return nil
}

func readState[T any](root fs.FS, file string, parse func([]byte) (*T, error)) (*T, error) {
	data, err := read(root, file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubelet state: %w", err)
	}
	return parse(data)
}

// Entries returns the holdings of every active pod, in the order of the service's list. A pod that holds nothing has
// no entry. If the data of a pod contradicts the machine, the error names the pod, and the other entries are still
// valid. CPUs that are offline are left out of the pod's entry. A pod whose memory is on NUMA nodes that the machine
// lacks has no entry.
func (o Observation) Entries(m *topo.Machine, pods Pods) ([]state.Entry, error) {
	var out []state.Entry
	var faults []error
	seen := map[string]bool{}
	o.omitted = o.Omitted(m)
	for _, l := range o.Listed {
		pod, ok := pods.Pod(l.Namespace, l.Name)
		if !ok || pod.Done || seen[pod.ID.UID] {
			continue
		}
		seen[pod.ID.UID] = true
		e := state.Entry{Pod: pod.ID, Source: state.Observed}
		var err error
		if e.Holdings, err = o.podHoldings(m, l, pod); err != nil {
			faults = append(faults, fmt.Errorf("pod %s: %w", pod.ID, err))
		}
		if len(e.Holdings) > 0 {
			out = append(out, e)
		}
	}
	return out, errors.Join(faults...)
}

// podHoldings returns what a pod holds as a whole, if it does, and then what its containers hold, in the order of the
// pod. If CPUs are offline, it returns an error beside the remaining holdings.
func (o Observation) podHoldings(m *topo.Machine, l Listed, pod Pod) (out []place.Holding, err error) {
	add := func(h place.Holding) {
		if !h.Empty() {
			out = append(out, h)
		}
	}
	// A pod with resources as a whole shares them among its containers, so the containers' holdings are part of the
	// pod's. They are left out below, because they would count twice.
	whole := place.Holding{}
	if whole.CPUs = l.Whole.CPUs; o.CPU != nil && pod.StateUID != "" {
		whole.CPUs = o.CPU.Pods[pod.StateUID]
	}
	memory := l.Whole.Memory
	if o.Memory != nil && pod.StateUID != "" {
		memory = o.Memory.Pods[pod.StateUID]
	}
	whole.Memory, err = blocks(m, memory)
	if err != nil {
		return nil, err
	}
	var offline error
	whole.CPUs, offline = online(m, whole.CPUs)
	add(whole)
	for _, c := range pod.Containers {
		at := slices.IndexFunc(l.Containers, func(x ListedContainer) bool { return x.Name == c.Name })
		listed := ListedContainer{Name: c.Name}
		if at >= 0 {
			listed = l.Containers[at]
		}
		h, err := o.containerHolding(m, listed, pod.StateUID)
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", c.Name, err)
		}
		h.Kind = c.Kind
		var gone error
		if h.CPUs, gone = online(m, h.CPUs); gone != nil {
			offline = fmt.Errorf("container %q: %w", c.Name, gone)
		}
		if !whole.CPUs.Empty() {
			h.CPUs = idset.Set[idset.CPU]{}
		}
		if len(whole.Memory) > 0 {
			h.Memory = nil
		}
		add(h)
	}
	return out, offline
}

// containerHolding joins the service's and the files' data about one container; uid is the pod's StateUID. CPUs and
// memory come from the files, which are complete, if there are files. Devices come from both sources: the file lacks
// devices that are not written yet, and the service omits init containers.
func (o Observation) containerHolding(m *topo.Machine, l ListedContainer, uid string) (h place.Holding, err error) {
	h.Container = l.Name
	h.CPUs = l.CPUs
	if o.CPU != nil && uid != "" {
		h.CPUs = o.CPU.Containers[uid][l.Name]
	}
	memory := l.Memory
	if o.Memory != nil && uid != "" {
		memory = o.Memory.Containers[uid][l.Name]
	}
	if h.Memory, err = blocks(m, memory); err != nil {
		return h, err
	}
	devices := slices.Clone(l.Devices)
	if o.Devices != nil {
		devices = append(devices, o.Devices.Containers[uid][l.Name]...)
	}
	if devices, err = mergeDevices(devices); err != nil {
		return h, err
	}
	for _, d := range devices {
		if o.omitted[d.Resource] != "" {
			continue
		}
		if n := len(h.Devices); n == 0 || h.Devices[n-1].Resource != d.Resource {
			h.Devices = append(h.Devices, place.DeviceBlock{Resource: d.Resource})
		}
		b := &h.Devices[len(h.Devices)-1]
		b.IDs = append(b.IDs, d.ID)
	}
	for i := range h.Devices {
		h.Devices[i].NUMAs = v1alpha1.DeviceNUMAs(m, h.Devices[i].Resource, h.Devices[i].IDs)
	}
	return h, nil
}

// online returns the given CPUs without CPUs that the machine lacks. The latter went offline after the kubelet
// started; the error names one of them.
func online(m *topo.Machine, cpus idset.Set[idset.CPU]) (idset.Set[idset.CPU], error) {
	if extra := cpus.Minus(m.CPUs()); !extra.Empty() {
		return cpus.And(m.CPUs()), fmt.Errorf("machine has no cpu %d", extra.Min())
	}
	return cpus, nil
}

// blocks returns memory blocks with masks of the machine's NUMA nodes. A block without a NUMA node, or with one that
// the machine lacks, is an error.
func blocks(m *topo.Machine, in []MemoryBlock) (out []place.Block, err error) {
	for _, b := range in {
		mask, err := m.MaskOf(b.NUMAs.List()...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Kind, err)
		}
		if mask == 0 {
			return nil, fmt.Errorf("%s: block has no NUMA node", b.Kind)
		}
		out = append(out, place.Block{Kind: b.Kind, NUMAs: mask, Bytes: b.Bytes})
	}
	return out, nil
}
