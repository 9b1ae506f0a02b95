package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// heldText has what each container of a pod holds, by container name, as text such as "cpus 1-2; memory 1073741824 on
// [0]". The same holdings give the same text, whether they are read from the managers' files or from the ledger.
type heldText map[string]string

// checkpoints are the state files of a kubelet's managers, in the managers' format.
type checkpoints struct {
	cpu struct {
		Entries map[string]map[string]string `json:"entries"`
	}
	memory struct {
		State map[idset.NUMA]struct {
			Cells  []idset.NUMA `json:"cells"`
			Memory map[string]struct {
				Free uint64 `json:"free"`
			} `json:"memoryMap"`
		} `json:"machineState"`
		Entries map[string]map[string][]memoryBlock `json:"entries"`
	}
	devices struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID, ContainerName, ResourceName string
				DeviceIDs                           map[string][]string
			}
		}
	}
}

type memoryBlock struct {
	NUMAs []idset.NUMA `json:"numaAffinity"`
	Type  string       `json:"type"`
	Size  uint64       `json:"size"`
}

// readCheckpoints decodes the managers' state files. file returns the content of the file with the given name, or
// nothing if it does not exist. readCheckpoints does not use the agent's parser, so that a mistake of that parser is
// not repeated here.
func readCheckpoints(file func(name string) ([]byte, error)) (*checkpoints, error) {
	out := &checkpoints{}
	into := []any{&out.cpu, &out.memory, &out.devices}
	for i, name := range kubelet.StateFiles() {
		text, err := file(name)
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, into[i])
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return out, nil
}

// managers reads what each pod holds in the state files of a kubelet's managers, by UID. dir is the kubelet's
// directory.
func managers(dir string) (map[string]heldText, error) {
	c, err := readCheckpoints(func(name string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return text, err
	})
	if err != nil {
		return nil, err
	}
	return c.heldTexts(), nil
}

// heldTexts returns what each pod holds, by UID.
func (c *checkpoints) heldTexts() map[string]heldText {
	parts := map[[2]string][]string{}
	for uid, containers := range c.cpu.Entries {
		for c, cpus := range containers {
			if set, err := idset.Parse[idset.CPU](cpus); err == nil && !set.Empty() {
				parts[[2]string{uid, c}] = append(parts[[2]string{uid, c}], "cpus "+set.String())
			}
		}
	}
	for uid, containers := range c.memory.Entries {
		for c, blocks := range containers {
			for _, b := range blocks {
				if b.Size > 0 {
					parts[[2]string{uid, c}] = append(parts[[2]string{uid, c}], fmt.Sprintf("%s %d on %v", b.Type, b.Size, b.NUMAs))
				}
			}
		}
	}
	for _, e := range c.devices.Data.PodDeviceEntries {
		var ids []string
		for _, onNUMA := range e.DeviceIDs {
			ids = append(ids, onNUMA...)
		}
		slices.Sort(ids)
		at := [2]string{e.PodUID, e.ContainerName}
		parts[at] = append(parts[at], e.ResourceName+" "+strings.Join(slices.Compact(ids), ","))
	}
	return join(parts)
}

// holdings returns the holdings of each pod, by UID and in the order of container names.
func (c *checkpoints) holdings(m *topo.Machine) (map[string][]place.Holding, error) {
	all := map[string]map[string]*place.Holding{}
	holding := func(uid, container string) *place.Holding {
		if all[uid] == nil {
			all[uid] = map[string]*place.Holding{}
		}
		if all[uid][container] == nil {
			all[uid][container] = &place.Holding{Container: container}
		}
		return all[uid][container]
	}
	for uid, containers := range c.cpu.Entries {
		for name, cpus := range containers {
			set, err := idset.Parse[idset.CPU](cpus)
			if err != nil {
				return nil, fmt.Errorf("CPUs of pod %s: %w", uid, err)
			}
			holding(uid, name).CPUs = set
		}
	}
	for uid, containers := range c.memory.Entries {
		for name, blocks := range containers {
			for _, b := range blocks {
				mask, err := m.MaskOf(b.NUMAs...)
				if err != nil {
					return nil, fmt.Errorf("memory of pod %s: %w", uid, err)
				}
				h := holding(uid, name)
				h.Memory = append(h.Memory, place.Block{Kind: b.Type, NUMAs: mask, Bytes: int64(b.Size)})
			}
		}
	}
	for _, e := range c.devices.Data.PodDeviceEntries {
		h := holding(e.PodUID, e.ContainerName)
		h.Devices = append(h.Devices, deviceBlock(m, e.ResourceName, e.DeviceIDs))
	}
	out := map[string][]place.Holding{}
	for uid, containers := range all {
		for _, name := range slices.Sorted(maps.Keys(containers)) {
			h := containers[name]
			slices.SortFunc(h.Devices, func(a, b place.DeviceBlock) int { return strings.Compare(a.Resource, b.Resource) })
			out[uid] = append(out[uid], *h)
		}
	}
	return out, nil
}

// deviceBlock returns the devices of one resource, with their NUMA nodes on the machine.
func deviceBlock(m *topo.Machine, resource string, byNUMA map[string][]string) place.DeviceBlock {
	out := place.DeviceBlock{Resource: resource}
	for _, ids := range byNUMA {
		out.IDs = append(out.IDs, ids...)
	}
	slices.Sort(out.IDs)
	out.IDs = slices.Compact(out.IDs)
	r, _ := m.Resource(resource)
	for _, d := range r.Devices {
		if slices.Contains(out.IDs, d.ID) {
			out.NUMAs |= d.NUMAs
		}
	}
	return out
}

// groups returns the memory manager's state of each NUMA node, by the NUMA node's position on the machine: the group
// of NUMA nodes that it belongs to, and the free amounts. It omits NUMA nodes that the machine does not have.
func (c *checkpoints) groups(m *topo.Machine) map[int]place.MemoryGroup {
	out := map[int]place.MemoryGroup{}
	for id, s := range c.memory.State {
		at, ok := m.Position(id)
		mask, err := m.MaskOf(s.Cells...)
		if !ok || err != nil {
			continue
		}
		g := place.MemoryGroup{NUMAs: mask}
		for kind, t := range s.Memory {
			g.Free = append(g.Free, place.Amount{Kind: kind, Bytes: int64(t.Free)})
		}
		out[at] = g
	}
	return out
}

// ledgerText returns what a pod holds according to the ledger, as the same text that heldText has for the managers'
// files.
func ledgerText(m *topo.Machine, holdings []place.Holding) heldText {
	parts := map[[2]string][]string{}
	for _, h := range holdings {
		at := [2]string{"", h.Container}
		if !h.CPUs.Empty() {
			parts[at] = append(parts[at], "cpus "+h.CPUs.String())
		}
		for _, b := range h.Memory {
			if b.Bytes > 0 {
				parts[at] = append(parts[at], fmt.Sprintf("%s %d on %v", b.Kind, b.Bytes, m.IDs(b.NUMAs)))
			}
		}
		for _, d := range h.Devices {
			parts[at] = append(parts[at], d.Resource+" "+strings.Join(slices.Sorted(slices.Values(d.IDs)), ","))
		}
	}
	return join(parts)[""]
}

// join joins the parts of each container, sorted, into one text. The keys of parts are pairs of UID and container;
// the keys of the result are UIDs.
func join(parts map[[2]string][]string) map[string]heldText {
	out := map[string]heldText{}
	for at, list := range parts {
		slices.Sort(list)
		if out[at[0]] == nil {
			out[at[0]] = heldText{}
		}
		out[at[0]][at[1]] = strings.Join(list, "; ")
	}
	return out
}
