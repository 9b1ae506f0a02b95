package main

import (
	"bytes"
	"context"
	"flag"
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

const maxMachineBytes = 32 << 20

// machine is where the agent's machine comes from: a file with the text form or a snapshot, or else the
// host. It is read again whenever the agent asks; warnings are logged when they change.
type machine struct {
	file     string
	log      logr.Logger
	warnings []sysfs.Warning
}

func (m *machine) Machine(context.Context) (*topo.Machine, error) {
	found, err := m.find()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(found.Warnings, m.warnings) {
		m.warnings = found.Warnings
		for _, w := range found.Warnings {
			m.log.Info("the machine is odd", "oddity", w.Name, "file", "/"+w.File, "what", w.Text)
		}
	}
	return found.Machine, nil
}

func (m *machine) find() (*sysfs.Found, error) {
	found, _, err := m.read()
	return found, err
}

// read returns the machine and the tree that it was found in; there is none for the text form.
func (m *machine) read() (*sysfs.Found, fs.FS, error) {
	if m.file == "" {
		found, err := sysfs.Discover(sysfs.Host())
		return found, sysfs.Host(), err
	}
	data, err := m.contents()
	if err != nil {
		return nil, nil, err
	}
	found, err := sysfs.Read(data)
	if err != nil {
		return nil, nil, fmt.Errorf("machine file %s: %w", m.file, err)
	}
	if !sysfs.IsSnapshot(data) {
		return found, nil, nil
	}
	tree, err := sysfs.ReadSnapshot(bytes.NewReader(data))
	if err != nil {
		return nil, nil, fmt.Errorf("machine file %s: %w", m.file, err)
	}
	return found, tree, nil
}

func (m *machine) contents() ([]byte, error) {
	f, err := os.Open(m.file)
	if err != nil {
		return nil, fmt.Errorf("open machine file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMachineBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read machine file: %w", err)
	}
	if len(data) > maxMachineBytes {
		return nil, fmt.Errorf("machine file %s is larger than %d bytes", m.file, maxMachineBytes)
	}
	return data, nil
}

// Detail is the part of the machine on which nothing that fits depends: memory that is not for ordinary pods,
// PCI functions, and the PCI roots of devices.
func (m *machine) Detail(context.Context) (v1alpha1.Detail, error) {
	found, tree, err := m.read()
	if err != nil {
		return v1alpha1.Detail{}, err
	}
	d := v1alpha1.Detail{MemoryKinds: map[idset.NUMA]string{}}
	for id, kind := range found.Kinds {
		if kind != sysfs.OrdinaryMemory && kind != sysfs.NoMemory {
			d.MemoryKinds[id] = string(kind)
		}
	}
	if tree == nil {
		return d, nil
	}
	all, _, err := sysfs.PCI(tree, found.Machine)
	if err != nil {
		return d, err
	}
	d.Functions, d.Roots = functions(all), roots(all)
	return d, nil
}

// roots are those of functions that device plugins may hand out by their addresses, virtual ones too.
func roots(all []sysfs.Function) map[string]string {
	out := map[string]string{}
	for _, f := range all {
		if f.Kind != sysfs.Other && f.Root != "" {
			out[f.Address] = f.Root
		}
	}
	return out
}

// functions are those that pods may care about. Virtual functions are counted at their physical one, which
// they share address, numa and link with.
func functions(all []sysfs.Function) (out []v1alpha1.Function) {
	at := map[string]int{}
	for _, f := range all {
		if f.Kind == sysfs.Other || f.Physical != "" {
			continue
		}
		at[f.Address] = len(out)
		w := v1alpha1.Function{Address: f.Address, Class: string(f.Kind), ID: fmt.Sprintf("%04x:%04x", f.Vendor, f.Device), Driver: f.Driver}
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

// subcommand is what stands first on a command line that is not the agent's own.
type subcommand struct {
	Use string
	run func(args []string, stdout, stderr io.Writer) error
}

func subcommands() []subcommand {
	return []subcommand{{Use: "snapshot", run: snapshot}}
}

// snapshot writes what discovery reads of this host to stdout. The archive is whole before it is
// written, so that a failure leaves nothing.
func snapshot(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("tenon-agent snapshot", flag.ContinueOnError)
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var b bytes.Buffer
	if err := sysfs.Snapshot(sysfs.Host(), &b); err != nil {
		return err
	}
	if _, err := b.WriteTo(stdout); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}
