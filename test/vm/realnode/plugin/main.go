// Command plugin has the device plugins of a real node: it announces the devices of a described machine to the kubelet.
//
//	plugin MACHINE SOCKET   the text form of a machine; the kubelet's registration socket
//
// The devices exist only in the description. It prints "registered" on its standard output, once. It refuses
// descriptions beyond 1 MiB.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/plugins"
)

const maxFile = 1 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want MACHINE SOCKET")
	}
	m, err := readMachine(args[0])
	if err != nil {
		return err
	}
	if err := plugins.Serve(ctx, args[1], m); err != nil {
		return err
	}
	fmt.Println("registered")
	<-ctx.Done()
	return nil
}

func readMachine(path string) (*topo.Machine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open machine file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read machine file: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("machine file %s is larger than %d bytes", path, maxFile)
	}
	m, err := topo.ParseMachine(string(data))
	if err != nil {
		return nil, fmt.Errorf("machine file %s: %w", path, err)
	}
	return m, nil
}
