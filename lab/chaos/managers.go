package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// held is what a pod holds by the managers' own files or by the book: "container: cpus 1-2 memory ..." by
// container, in a form that can be compared.
type held map[string]string

// managers reads what the managers of a kubelet have in their files, by UID. It is a reading of its own,
// not the agent's.
func managers(dir string) (map[string]held, error) {
	var cpu struct {
		Entries map[string]map[string]string `json:"entries"`
	}
	var memory struct {
		Entries map[string]map[string][]struct {
			NUMAs []int  `json:"numaAffinity"`
			Type  string `json:"type"`
			Size  uint64 `json:"size"`
		} `json:"entries"`
	}
	var devices struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID, ContainerName, ResourceName string
				DeviceIDs                           map[string][]string
			}
		}
	}
	for name, into := range map[string]any{"cpu_manager_state": &cpu, "memory_manager_state": &memory,
		filepath.Join("device-plugins", "kubelet_internal_checkpoint"): &devices} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	parts := map[[2]string][]string{}
	for uid, containers := range cpu.Entries {
		for c, cpus := range containers {
			if set, err := idset.Parse[idset.CPU](cpus); err == nil && !set.Empty() {
				parts[[2]string{uid, c}] = append(parts[[2]string{uid, c}], "cpus "+set.String())
			}
		}
	}
	for uid, containers := range memory.Entries {
		for c, blocks := range containers {
			for _, b := range blocks {
				if b.Size > 0 {
					parts[[2]string{uid, c}] = append(parts[[2]string{uid, c}], fmt.Sprintf("%s %d on %v", b.Type, b.Size, b.NUMAs))
				}
			}
		}
	}
	for _, e := range devices.Data.PodDeviceEntries {
		var ids []string
		for _, some := range e.DeviceIDs {
			ids = append(ids, some...)
		}
		slices.Sort(ids)
		at := [2]string{e.PodUID, e.ContainerName}
		parts[at] = append(parts[at], e.ResourceName+" "+strings.Join(slices.Compact(ids), ","))
	}
	return join(parts), nil
}

// booked is what a pod holds by the book, in the same form.
func booked(m *topo.Machine, holdings []place.Holding) held {
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

func join(parts map[[2]string][]string) map[string]held {
	out := map[string]held{}
	for at, list := range parts {
		slices.Sort(list)
		if out[at[0]] == nil {
			out[at[0]] = held{}
		}
		out[at[0]][at[1]] = strings.Join(list, "; ")
	}
	return out
}
