package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-logr/logr"

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
	if m.file == "" {
		return sysfs.Discover(sysfs.Host())
	}
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
	found, err := sysfs.Read(data)
	if err != nil {
		return nil, fmt.Errorf("machine file %s: %w", m.file, err)
	}
	return found, nil
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
	fs := flag.NewFlagSet("tenon-agent snapshot", flag.ContinueOnError)
	fs.SetOutput(stderr)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
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
