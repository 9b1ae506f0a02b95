package scenario

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Play does the steps and returns the file with the outcomes that result.
func (f *File) Play() string {
	var out []string
	n := f.Begin()
	for i, line := range f.lines {
		out = append(out, line)
		if at, ok := f.steps[i]; ok {
			for _, l := range play(n, f.Steps[at]) {
				out = append(out, "> "+l)
			}
		}
	}
	return strings.Join(out, "\n")
}

// play does one step and returns the lines to show for it.
func play(n *Node, s Step) []string {
	switch s.Do {
	case Admit:
		u := n.Usage()
		v := place.Judge(u, &s.Pod, place.Place(u, &s.Pod), s.Demand)
		if v.Fits() {
			n.Hold(s.Name, v.Holdings)
		}
		return showVerdict(n.Machine, v)
	case Free:
		return showFree(n.Usage())
	case Restart:
		return showHazards(n.Usage().RestartHazards())
	default:
		n.Do(s)
		return nil
	}
}

func showHazards(hs []place.Hazard) (out []string) {
	for _, h := range hs {
		out = append(out, h.Text())
	}
	if len(out) == 0 {
		out = append(out, "no hazard is known")
	}
	return out
}

func showVerdict(m *topo.Machine, v place.Verdict) (out []string) {
	if !v.Fits() {
		out = append(out, "refused "+string(v.Refusal))
		for _, r := range v.Reasons {
			out = append(out, r.Text())
		}
		return out
	}
	for _, h := range v.Holdings {
		out = append(out, Show(m, h))
	}
	if len(out) == 0 {
		out = append(out, "admitted, holds nothing")
	}
	return out
}

// Show renders a holding in the form of a scenario.
func Show(m *topo.Machine, h place.Holding) string {
	s := h.Container + ":"
	if !h.CPUs.Empty() {
		s += " cpus " + h.CPUs.String()
	}
	for _, b := range h.Memory {
		s += " " + b.Kind + " " + topo.FormatBytes(b.Bytes) + "@" + numaIDs(m, b.NUMAs)
	}
	for _, d := range h.Devices {
		s += " " + d.Resource + " "
		switch {
		case d.Loose:
			s += fmt.Sprintf("any %d of %s", len(d.IDs), numaIDs(m, withDevices(m, d.Resource)))
		case d.Free:
			s += fmt.Sprintf("any %d@%s", len(d.IDs), numaIDs(m, d.NUMAs))
		default:
			s += strings.Join(d.IDs, ",") + "@" + numaIDs(m, d.NUMAs)
		}
	}
	return s
}

// withDevices returns the NUMA nodes that have devices of a resource.
func withDevices(m *topo.Machine, resource string) (mask topo.Mask) {
	r, _ := m.Resource(resource)
	for _, d := range r.Devices {
		mask |= d.NUMAs
	}
	return mask
}

func numaIDs(m *topo.Machine, mask topo.Mask) string {
	if mask == 0 {
		return "none"
	}
	return idset.Of(m.IDs(mask)...).String()
}

// showFree lists what each NUMA node has free. Devices of several NUMA nodes appear at each of them.
func showFree(u *place.Usage) (out []string) {
	for i, n := range u.Machine.NUMAs() {
		s := fmt.Sprintf("numa %d:", n.ID)
		if cpus := u.FreeCPUs().And(n.CPUs); !cpus.Empty() {
			s += fmt.Sprintf(" %d cpus %s", cpus.Len(), cpus)
		}
		for _, k := range u.Machine.Kinds() {
			if u.Allocatable(i, k) > 0 {
				s += " " + k + " " + topo.FormatBytes(u.FreeMemory(i, k))
			}
		}
		for _, r := range u.Machine.Resources() {
			count := 0
			for _, d := range u.FreeDevices(r.Name) {
				if d.NUMAs.Has(i) {
					count++
				}
			}
			if withDevices(u.Machine, r.Name).Has(i) {
				s += fmt.Sprintf(" %s %d", r.Name, count)
			}
		}
		out = append(out, s)
	}
	return out
}
