package v1alpha1

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// Values of Rules.From.
const (
	FromKubelet = "kubelet"
	FromFiles   = "files"
)

// Detail has a node's data about its hardware that the kubelet does not use: no placement depends on it.
//
// +kubebuilder:object:generate=false
type Detail struct {
	// MemoryKinds are the NUMA nodes whose memory is not ordinary, with the values of NUMA.MemoryKind.
	MemoryKinds map[idset.NUMA]string
	// Functions may be more than a layout can hold.
	Functions []Function
	// Roots are the PCI roots of devices whose ids are addresses of PCI functions, by id.
	Roots map[string]string
	// Oddities may be more than a layout can hold, and their messages longer.
	Oddities []Oddity
}

// Describe writes the detail into a layout. Functions keep their order; functions beyond MaxFunctions are only counted,
// and oddities beyond MaxOddities are left out. A text that does not have the layout's form is omitted, since nothing
// depends on it.
func (l *NodeLayout) Describe(d Detail) {
	for i := range l.Machine.NUMAs {
		l.Machine.NUMAs[i].MemoryKind = d.MemoryKinds[idset.NUMA(l.Machine.NUMAs[i].ID)]
	}
	n := min(len(d.Functions), MaxFunctions)
	l.Machine.Functions = slices.Clone(d.Functions[:n])
	for i := range l.Machine.Functions {
		f := &l.Machine.Functions[i]
		for _, text := range []*string{&f.ID, &f.Driver, &f.VirtualDriver} {
			if checkText("", *text, 0, maxFunctionText, word) != nil {
				*text = ""
			}
		}
	}
	l.Machine.FunctionsOmitted = int32(len(d.Functions) - n)
	l.Machine.Oddities = nil
	for _, o := range d.Oddities[:min(len(d.Oddities), MaxOddities)] {
		text := visible(o.Message)
		l.Machine.Oddities = append(l.Machine.Oddities, Oddity{o.Code, text[:min(len(text), MaxMessage)]})
	}
	for i := range l.Machine.Devices {
		l.Machine.Devices[i].Groups = rooted(l.Machine.Devices[i].Groups, d.Roots)
	}
}

// rooted splits each group into groups whose devices have one PCI root. roots has the root by a device's id in lower
// case. In each group, devices keep their order.
func rooted(in []DeviceGroup, roots map[string]string) (out []DeviceGroup) {
	for _, g := range in {
		at := map[string]int{}
		for _, id := range g.IDs {
			root := cmp.Or(g.Root, roots[strings.ToLower(id)])
			i, ok := at[root]
			if !ok {
				i = len(out)
				at[root] = i
				out = append(out, DeviceGroup{NUMAs: g.NUMAs, NUMAList: g.NUMAList, Root: root, Unhealthy: g.Unhealthy})
			}
			out[i].IDs = append(out[i].IDs, id)
		}
	}
	return out
}

// Before reports whether agent a must stand by while b writes the layout: the claim of a is older, or it is equally
// old and a has the smaller id.
func (a Agent) Before(b Agent) bool {
	return cmp.Or(a.Since.Time.Compare(b.Since.Time), cmp.Compare(a.ID, b.ID)) < 0
}

func checkFunctions(in []Function) error {
	if err := within("functions", len(in), 0, MaxFunctions); err != nil {
		return err
	}
	for i, f := range in {
		if _, err := idset.Parse[idset.NUMA](string(f.NUMAs)); err != nil {
			return fmt.Errorf("functions[%d]: numas: %w", i, err)
		}
		for _, t := range []struct{ field, value string }{{"address", f.Address}, {"class", f.Class}, {"id", f.ID},
			{"driver", f.Driver}, {"virtualDriver", f.VirtualDriver}} {
			if err := checkText(t.field, t.value, 0, maxFunctionText, word); err != nil {
				return fmt.Errorf("functions[%d]: %w", i, err)
			}
		}
	}
	return nil
}

const maxFunctionText = 64

func checkOddities(in []Oddity) error {
	if err := within("oddities", len(in), 0, MaxOddities); err != nil {
		return err
	}
	for i, o := range in {
		if err := checkPattern("code", o.Code, maxWord, codeForm); err != nil {
			return fmt.Errorf("oddities[%d]: %w", i, err)
		}
		if err := checkPattern("message", o.Message, MaxMessage, messageForm); err != nil {
			return fmt.Errorf("oddities[%d]: %w", i, err)
		}
	}
	return nil
}
