package place

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file renders values in one line, for logs and tests. The wording is not stable.

var (
	classNames = [...]string{"BestEffort", "Burstable", "Guaranteed"}
	kindNames  = [...]string{"app", "init", "sidecar"}
)

// String returns Kubernetes' name of the class.
func (q QoS) String() string { return nameOf("QoS class", classNames[:], int(q)) }

// String returns "app", "init" or "sidecar".
func (k Kind) String() string { return nameOf("container kind", kindNames[:], int(k)) }

// nameOf returns the name of a value, or the value itself where it has none.
func nameOf(what string, names []string, value int) string {
	if value < 0 || value >= len(names) {
		return fmt.Sprintf("%s %d", what, value)
	}
	return names[value]
}

// String renders the pod in one line: its class, and what each container asks for.
func (p *Pod) String() string {
	s := p.QoS.String()
	if p.PodLevel {
		s += " with pod-level resources"
	}
	for i, c := range p.Containers {
		s += [...]string{": ", "; "}[min(i, 1)] + c.String()
	}
	return s
}

// String renders the container in one line.
func (c Container) String() string {
	var parts []string
	if c.MilliCPU != 0 {
		parts = append(parts, strconv.FormatFloat(float64(c.MilliCPU)/1000, 'f', -1, 64)+" CPUs")
	}
	for _, a := range c.Memory {
		parts = append(parts, Quantity(a.Kind, a.Bytes))
	}
	for _, d := range c.Devices {
		parts = append(parts, Quantity(d.Resource, d.N))
	}
	return fmt.Sprintf("%s container %s: %s", c.Kind, c.Name, listed(parts))
}

// Text renders the holding in one line: the container, with its kind unless it is an app container, then CPUs, memory
// and devices with their NUMA nodes by id. If m is nil, it names NUMA nodes by position, such as "at NUMA position
// 0".
func (h Holding) Text(m *topo.Machine) string {
	var parts []string
	if !h.CPUs.Empty() {
		parts = append(parts, "CPUs "+h.CPUs.String())
	}
	for _, b := range h.Memory {
		parts = append(parts, Quantity(b.Kind, b.Bytes)+where(m, b.NUMAs))
	}
	for _, d := range h.Devices {
		s := Quantity(d.Resource, int64(len(d.IDs))) + " (" + strings.Join(d.IDs, ",")
		if d.Free {
			s += " or others"
		}
		parts = append(parts, s+")"+where(m, d.NUMAs))
	}
	name := h.Container
	if h.Kind != App {
		name = h.Kind.String() + " " + name
	}
	return name + ": " + listed(parts)
}

// String is Text without a machine.
func (h Holding) String() string { return h.Text(nil) }

// where renders the NUMA nodes of a mask, by position if m is nil.
func where(m *topo.Machine, mask topo.Mask) string {
	switch {
	case mask == 0:
		return ""
	case m == nil:
		return " at NUMA " + mask.String()
	case mask.Len() == 1:
		return " on NUMA node " + idset.Of(m.IDs(mask)...).String()
	}
	return " on NUMA nodes " + idset.Of(m.IDs(mask)...).String()
}

// Text renders the verdict in one line: what each container gets, or why the pod does not fit. If m is nil, it names
// NUMA nodes by position.
func (v Verdict) Text(m *topo.Machine) string {
	var parts []string
	if !v.Fits() {
		for _, r := range v.Reasons {
			parts = append(parts, r.Text())
		}
		return fmt.Sprintf("does not fit (%s): %s", v.Refusal, strings.Join(parts, "; "))
	}
	for _, h := range v.Holdings {
		parts = append(parts, h.Text(m))
	}
	if len(parts) == 0 {
		return "fits: nothing of the pod is aligned"
	}
	return "fits: " + strings.Join(parts, "; ")
}

// String is Text without a machine.
func (v Verdict) String() string { return v.Text(nil) }

func listed(parts []string) string {
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
