// Command tenon-agent publishes the NodeLayout of the node that it runs on. "tenon-agent snapshot" writes
// what it reads of the node's hardware as one text file, for a map or a report of a strange machine.
//
// It only reads its flags and wires the parts; it refuses arguments and flags that it does not know.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/node/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv("NODE_NAME"), os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "tenon-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, nodeName string, stdout, stderr io.Writer) error {
	for _, c := range subcommands() {
		if len(args) > 0 && args[0] == c.Use {
			return c.run(args[1:], stdout, stderr)
		}
	}
	var cfg agent.Config
	fs := flag.NewFlagSet("tenon-agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&cfg.NodeName, "node-name", nodeName, "name of the Node; also NODE_NAME")
	fs.StringVar(&cfg.KubeletConfig, "kubelet-config", "/var/lib/kubelet/config.yaml", "file of the KubeletConfiguration")
	fs.StringVar(&cfg.PodResourcesSocket, "podresources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock", "socket of the kubelet's podresources service")
	fs.StringVar(&cfg.StateDir, "state-dir", "/var/lib/kubelet", "root directory of the kubelet, with its state files")
	kubeconfig := fs.String("kubeconfig", "", "file to reach the API server with; in-cluster when empty")
	file := fs.String("machine", "", "file with the text form of the machine, or a snapshot; this host's /sys when empty")
	verbose := fs.Int("v", 0, "verbosity of the log")
	var show outlets
	show.flags(fs)
	fs.Usage = func() {
		fmt.Fprintln(stderr, "Usage:\n  tenon-agent [FLAGS]\n  tenon-agent snapshot    write this host's machine as one text file to stdout\n\nFlags:")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	if cfg.REST, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	if cfg.PodResourcesSocket, err = filepath.Abs(cfg.PodResourcesSocket); err != nil {
		return fmt.Errorf("podresources socket: %w", err)
	}
	cfg.Logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr), textlogger.Verbosity(*verbose)))
	klog.SetLogger(cfg.Logger)
	cfg.Machine = &machine{file: *file, log: cfg.Logger}
	cfg.Translate = kube.Pod
	if err := show.open(ctx, &cfg); err != nil {
		return err
	}
	return agent.Run(ctx, cfg)
}
