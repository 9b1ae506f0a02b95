package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"

	"github.com/tenon-numa/tenon/node/sysfs"
)

// subcommand is an action other than running the agent. Use is its name, which is the first argument of the command
// line.
type subcommand struct {
	Use string
	run func(args []string, stdout, stderr io.Writer) error
}

func subcommands() []subcommand {
	return []subcommand{{Use: "snapshot", run: snapshot}}
}

// snapshot writes to stdout one text with the files of this host that discovery reads. It builds the whole text
// first, so that a failure writes nothing.
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
