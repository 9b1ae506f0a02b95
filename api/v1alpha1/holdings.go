package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file checks the holdings in layouts and decisions, and converts them to core values.

func kindNames() [3]string {
	return [3]string{place.App: "app", place.Init: "init", place.Sidecar: "sidecar"}
}

// parseKind reads a container's kind; the absent kind is app.
func parseKind(s string) (place.Kind, error) {
	if s == "" {
		return place.App, nil
	}
	names := kindNames()
	if i := slices.Index(names[:], s); i >= 0 {
		return place.Kind(i), nil
	}
	return 0, unknown("kind", s)
}

// entries converts the holdings of pods, in their order. The error is about the first pod whose data is wrong, or
// about a bound.
func entries(in []PodHoldings, by Sharing, m *topo.Machine) ([]state.Entry, error) {
	if err := within("pods", len(in), 0, MaxPods); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(in))
	var all tally
	out := make([]state.Entry, 0, len(in))
	for _, p := range in {
		id := state.PodID{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
		if err := checkPod(id); err != nil {
			return nil, err
		}
		if seen[p.UID] {
			return nil, fmt.Errorf("pod %s: uid %s is named twice", id, p.UID)
		}
		seen[p.UID] = true
		if err := all.addContainers(len(p.Containers)); err != nil {
			return nil, err
		}
		e := state.Entry{Pod: id, Source: state.Observed}
		for _, c := range p.Containers {
			h, err := c.core(m)
			if err != nil {
				return nil, fmt.Errorf("pod %s: container %q: %w", id, clip(c.Name), err)
			}
			if err := all.addCPUs(h.CPUs); err != nil {
				return nil, err
			}
			e.Holdings = append(e.Holdings, h)
		}
		if by.ID != nil {
			e.Pod = by.ID(id)
		}
		out = append(out, e)
	}
	return out, nil
}

// tally counts what the holdings of one node have together, against the bounds.
type tally struct{ containers, bytes int }

// addContainers counts more containers. The error names the bound.
func (t *tally) addContainers(n int) error {
	if t.containers += n; t.containers > MaxContainers {
		return fmt.Errorf("more than %d containers", MaxContainers)
	}
	return nil
}

// addCPUs counts the memory of one more set of CPUs. The error names the bound.
func (t *tally) addCPUs(set idset.Set[idset.CPU]) error {
	if t.bytes += (int(set.Max()) + 63) / 64 * 8; t.bytes > MaxCPUSets {
		return fmt.Errorf("CPUs of containers: the sets take more than %d bytes: too many containers with high ids",
			MaxCPUSets)
	}
	return nil
}

func checkPod(id state.PodID) error {
	for _, f := range []struct {
		field, value string
		limit        int
		form         form
	}{{"namespace", id.Namespace, maxLabel, label}, {"name", id.Name, topo.MaxName, dotted},
		{"uid", id.UID, topo.MaxName, word}} {
		if err := checkText(f.field, f.value, 1, f.limit, f.form); err != nil {
			return fmt.Errorf("pod %q: %w", clip(id.String()), err)
		}
	}
	return nil
}

func (c *ContainerHolding) core(m *topo.Machine) (h place.Holding, err error) {
	if err := checkText("name", c.Name, 0, maxLabel, label); err != nil {
		return h, err
	}
	h.Container = c.Name
	if h.Kind, err = parseKind(c.Kind); err != nil {
		return h, err
	}
	if h.CPUs, err = cpusOf(m, c.CPUs); err != nil {
		return h, fmt.Errorf("cpus: %w", err)
	}
	if err := within("memory blocks", len(c.Memory), 0, MaxBlocks); err != nil {
		return h, err
	}
	for _, b := range c.Memory {
		if err := checkKind(b.Kind); err != nil {
			return h, fmt.Errorf("memory: %w", err)
		}
		mask, err := maskOf(m, b.NUMAs)
		if err != nil {
			return h, fmt.Errorf("memory: %w", err)
		}
		if err := bytesWithin(b.Kind, b.Bytes, MaxBytes); err != nil {
			return h, fmt.Errorf("memory: %w", err)
		}
		if b.Kind == topo.Memory {
			b.Kind = topo.Memory // a text that is shared
		}
		h.Memory = append(h.Memory, place.Block{Kind: b.Kind, NUMAs: mask, Bytes: b.Bytes})
	}
	if h.Devices, err = heldDevices(m, c.Devices); err != nil {
		return h, fmt.Errorf("devices: %w", err)
	}
	return h, nil
}

// heldDevices returns held devices in ascending order of resource, each with sorted ids. A device need not be in the
// machine: its plugin may be gone.
func heldDevices(m *topo.Machine, in []HeldDevices) (out []place.DeviceBlock, err error) {
	if err := within("resources", len(in), 0, MaxHeld); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, d := range in {
		if err := checkText("resource", d.Resource, 1, topo.MaxName, graphic); err != nil {
			return nil, err
		}
		if seen[d.Resource] {
			return nil, fmt.Errorf("resource %q is named twice", d.Resource)
		}
		seen[d.Resource] = true
		if err := within("ids", len(d.IDs), 1, MaxBlocks); err != nil {
			return nil, fmt.Errorf("resource %q: %w", d.Resource, err)
		}
		ids := slices.Clone(d.IDs)
		slices.Sort(ids)
		for i, id := range ids {
			if err := checkText("device", id, 1, topo.MaxName, graphic); err != nil {
				return nil, fmt.Errorf("resource %q: %w", d.Resource, err)
			}
			if i > 0 && ids[i-1] == id {
				return nil, fmt.Errorf("resource %q: device %q is named twice", d.Resource, clip(id))
			}
		}
		out = append(out, place.DeviceBlock{Resource: d.Resource, IDs: ids, NUMAs: DeviceNUMAs(m, d.Resource, ids)})
	}
	slices.SortFunc(out, func(a, b place.DeviceBlock) int { return strings.Compare(a.Resource, b.Resource) })
	return out, nil
}

// DeviceNUMAs returns the NUMA nodes that the given devices of a resource are near. A device that the machine lacks,
// because its plugin is gone, adds none.
func DeviceNUMAs(m *topo.Machine, resource string, ids []string) (mask topo.Mask) {
	r, _ := m.Resource(resource)
	for _, id := range ids {
		if i, ok := slices.BinarySearchFunc(r.Devices, id, func(d topo.Device, id string) int {
			return strings.Compare(d.ID, id)
		}); ok {
			mask |= r.Devices[i].NUMAs
		}
	}
	return mask
}

// numaList returns the ids of the NUMA nodes of a mask.
func numaList(m *topo.Machine, mask topo.Mask) IDList {
	return IDList(idset.Of(m.IDs(mask)...).String())
}
