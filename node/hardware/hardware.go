// Package hardware reads the hardware of one node: its machine, and the detail that a NodeLayout shows beside it.
//
// Invariant: one call of [Source.ReadMachine] reads every file of /sys and /proc, or the machine file, once. The only
// state between calls is the anomalies that were logged last. The package refuses machine files above a fixed size, and
// describes no devices, which the kubelet reports.
package hardware

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// maxFileBytes bounds a machine file.
const maxFileBytes = 32 << 20

// Source reads the hardware from a machine file or from a tree of /sys and /proc. It is for one goroutine.
type Source struct {
	// File has the text form of a machine, or a snapshot. If it is empty, Root is read instead.
	File string
	// Root has the paths "sys/..." and "proc/..."; nil means this host.
	Root fs.FS
	// Log receives the anomalies of the hardware whenever they change.
	Log logr.Logger

	logged []sysfs.Warning
}

// ReadMachine reads the machine and its detail: memory that is not for ordinary pods, PCI functions, and the PCI roots
// of devices. The machine is nil if it cannot be read. If both a machine and an error are returned, the detail could
// not be read.
func (s *Source) ReadMachine(context.Context) (*topo.Machine, v1alpha1.Detail, error) {
	found, survey, err := s.read()
	if err != nil {
		return nil, v1alpha1.Detail{}, err
	}
	s.logAnomalies(found.Warnings)
	d := v1alpha1.Detail{MemoryKinds: map[idset.NUMA]string{}, Oddities: oddities(found.Warnings)}
	for id, kind := range found.Kinds {
		if kind != sysfs.OrdinaryMemory && kind != sysfs.NoMemory {
			d.MemoryKinds[id] = string(kind)
		}
	}
	if survey == nil {
		return found.Machine, d, nil
	}
	all, _, err := survey.Functions(found.Machine)
	if err != nil {
		return found.Machine, d, err
	}
	d.Functions, d.Roots = functions(all), roots(all)
	return found.Machine, d, nil
}

// read returns the machine and the survey that found it. The survey is nil for the text form of a machine.
func (s *Source) read() (*sysfs.Found, *sysfs.Survey, error) {
	if s.File == "" {
		root := s.Root
		if root == nil {
			root = sysfs.Host()
		}
		survey := sysfs.NewSurvey(root)
		found, err := survey.Machine()
		return found, survey, err
	}
	found, survey, err := s.readFile()
	if err != nil {
		return nil, nil, fmt.Errorf("machine file %s: %w", s.File, err)
	}
	return found, survey, nil
}

func (s *Source) readFile() (*sysfs.Found, *sysfs.Survey, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return nil, nil, fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read: %w", err)
	}
	if len(data) > maxFileBytes {
		return nil, nil, fmt.Errorf("more than %d bytes", maxFileBytes)
	}
	if !sysfs.IsSnapshot(data) {
		found, err := sysfs.Read(data)
		return found, nil, err
	}
	tree, err := sysfs.ReadSnapshot(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	survey := sysfs.NewSurvey(tree)
	found, err := survey.Machine()
	return found, survey, err
}

// logAnomalies logs all anomalies if they differ from those that were logged last.
func (s *Source) logAnomalies(all []sysfs.Warning) {
	if slices.Equal(all, s.logged) {
		return
	}
	s.logged = all
	for _, w := range all {
		s.Log.Info("hardware anomaly", "code", w.Name, "file", "/"+w.File, "message", w.Text)
	}
}

// oddities returns the anomalies that a layout lists. It leaves out files that are missing, unreadable or malformed,
// missing data about caches, special memory, and L3 groups that the kubelet divides differently.
func oddities(all []sysfs.Warning) (out []v1alpha1.Oddity) {
	for _, w := range all {
		switch w.Name {
		case sysfs.Missing, sysfs.NoCache, sysfs.Unreadable, sysfs.Malformed, sysfs.SpecialMemory, sysfs.KubeletL3:
		default:
			out = append(out, v1alpha1.Oddity{Code: string(w.Name), Message: "/" + w.File + ": " + w.Text})
		}
	}
	return out
}

// roots returns the PCI roots of functions by the address of the function. It includes virtual functions, because
// device plugins may use the address of any of them as a device's id.
func roots(all []sysfs.Function) map[string]string {
	out := map[string]string{}
	for _, f := range all {
		if f.Kind != sysfs.Other && f.Root != "" {
			out[f.Address] = f.Root
		}
	}
	return out
}

// functions returns the functions that may matter to pods. Virtual functions are only counted at their physical
// function, which is on the same NUMA node. VirtualDriver is their driver; it is empty if two of them have different
// drivers.
func functions(all []sysfs.Function) (out []v1alpha1.Function) {
	at := map[string]int{}
	for _, f := range all {
		if f.Kind == sysfs.Other || f.Physical != "" {
			continue
		}
		at[f.Address] = len(out)
		w := v1alpha1.Function{Address: f.Address, Class: string(f.Kind),
			ID: fmt.Sprintf("%04x:%04x", f.Vendor, f.Device), Driver: f.Driver}
		if f.NUMA != sysfs.Nowhere {
			w.NUMAs = v1alpha1.IDList(idset.Of(f.NUMA).String())
		}
		out = append(out, w)
	}
	for _, f := range all {
		i, ok := at[f.Physical]
		if f.Physical == "" || !ok {
			continue
		}
		if out[i].Virtual == 0 {
			out[i].VirtualDriver = f.Driver
		} else if out[i].VirtualDriver != f.Driver {
			out[i].VirtualDriver = ""
		}
		out[i].Virtual++
	}
	return out
}
