// Command tenon-agent publishes the NodeLayout of the node that it runs on. "tenon-agent snapshot" writes one text
// file with the files that describe the node's hardware, for a map or a bug report.
//
// This package only parses flags and connects other packages; it refuses unknown arguments and flags. The agent
// writes nothing on the node, unless --pin-config makes it pin containers: then it connects to the container runtime
// (--nri-socket) and keeps a file (--pin-state). It reads these files of the node, as root where only root may read
// them:
//
//	/sys, /proc                                   hardware; a container shows its host's
//	/var/lib/kubelet/cpu_manager_state            with memory_manager_state beside it
//	/var/lib/kubelet/device-plugins               kubelet_internal_checkpoint
//	/var/lib/kubelet/pod-resources                kubelet.sock, which it connects to
//	/var/lib/kubelet/config.yaml                  --kubelet-config, and the directory of --kubelet-config-dir
//	/var/lib/kubelet/pki/kubelet.crt              only where --kubelet-ca-file names it
//
// The kubelet replaces the files by renaming, so a container needs their directory, not the
// files themselves: /var/lib/kubelet, read-only. The agent makes these requests to the API server:
//
//	nodes                                         get, list, watch, its own
//	pods                                          list, watch, on its own node
//	nodelayouts.tenon.sh, layoutbases.tenon.sh    get, list, watch, create, patch, its own
//	noderesourcetopologies.topology.node.k8s.io   the same, with --node-resource-topology
//	numatopologies.nodeinfo.volcano.sh            the same, only with --numatopology
//	nodes/proxy                                   get, only with --kubelet-config-source=api-server
//	events                                        create, only with --pin-config
//	nodeaffinities.tenon.sh                       get, create, patch, its own, only with --affinity
//	tokenreviews, subjectaccessreviews            create, unless --metrics-authorization=false
//
// With --kubelet-config-source=auto or kubelet it also asks the kubelet itself for its configuration. The kubelet asks
// the API server whether the agent has the right to get nodes/configz.
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
	"runtime/debug"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/internal/version"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/hardware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	endAfter(ctx, stop, os.Exit)
	if os.Getenv("GOGC") == "" {
		// Memory on a node is for its pods, and the agent computes for milliseconds at a time only.
		debug.SetGCPercent(50)
	}
	err := run(ctx, os.Args[1:], env{os.Getenv("NODE_NAME"), os.Getenv("NODE_IP")}, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "tenon-agent:", err)
		os.Exit(1)
	}
}

// endAfter makes signals end the process even if the agent does not stop by itself: some system calls cannot be
// interrupted, for example on a file system whose server is gone. The first signal ends the process after stopTime.
// The second one ends it at once, because stop restores the default effect of signals.
func endAfter(ctx context.Context, stop func(), exit func(code int)) {
	context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(stopTime, func() {
			fmt.Fprintf(os.Stderr, "tenon-agent: still running %s after the signal to stop; exiting\n", stopTime)
			exit(1)
		})
	})
}

// stopTime is how long the agent may take to stop. It is less than the grace period of its pod in deploy/agent.
const stopTime = 7 * time.Second

// env is the node's name and address according to the environment.
type env struct{ name, ip string }

// run runs a subcommand, or the agent until ctx ends.
func run(ctx context.Context, args []string, node env, stdout, stderr io.Writer) error {
	for _, c := range subcommands() {
		if len(args) > 0 && args[0] == c.Use {
			return c.run(args[1:], stdout, stderr)
		}
	}
	var cfg agent.Config
	fs := flag.NewFlagSet("tenon-agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&cfg.NodeName, "node-name", node.name, "name of the Node; also NODE_NAME")
	fs.StringVar(&cfg.KubeletConfig, "kubelet-config", "/var/lib/kubelet/config.yaml",
		"file of the KubeletConfiguration; none when empty")
	fs.StringVar(&cfg.KubeletConfigDir, "kubelet-config-dir", "",
		"directory of its drop-in files, as the kubelet's --config-dir; none when empty")
	fs.StringVar(&cfg.PodResourcesSocket, "podresources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock",
		"socket of the kubelet's podresources service")
	fs.StringVar(&cfg.StateDir, "state-dir", "/var/lib/kubelet", "root directory of the kubelet, with its state files")
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig file for the API server; in-cluster when empty")
	file := fs.String("machine", "", "file with the text form of the machine, or a snapshot; this host's /sys when empty")
	force := fs.Bool("machine-force", false,
		"publish --machine even where /sys or Node.status.capacity contradicts it; for tests")
	verbose := fs.Int("v", 0, "verbosity of the log")
	show := fs.Bool("version", false, "print the version and exit")
	var timing pace
	timing.flags(fs)
	var source configSource
	source.flags(fs, node.ip)
	var out outlets
	out.flags(fs)
	var pin pins
	pin.flags(fs)
	var moving affinities
	moving.flags(fs)
	fs.Usage = func() {
		fmt.Fprintln(stderr, "Usage:\n  tenon-agent [FLAGS]\n"+
			"  tenon-agent snapshot    write this host's machine as one text file to stdout\n\nFlags:")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *show {
		_, err := fmt.Fprintln(stdout, version.Line("tenon-agent"))
		return err
	}
	err := timing.open(&cfg)
	if err != nil {
		return err
	}
	if cfg.REST, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	if cfg.PodResourcesSocket, err = filepath.Abs(cfg.PodResourcesSocket); err != nil {
		return fmt.Errorf("podresources socket: %w", err)
	}
	cfg.Logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr), textlogger.Verbosity(*verbose)))
	klog.SetLogger(cfg.Logger)
	cfg.Logger.Info("Starting tenon-agent", "version", version.Text())
	machine := &hardware.Source{File: *file, Log: cfg.Logger}
	if !*force {
		if err := machine.Verify(); err != nil {
			return fmt.Errorf("%w (for tests, --machine-force publishes it all the same)", err)
		}
	}
	cfg.Machine, cfg.CheckCapacity = machine, *file != "" && !*force
	cfg.Translate = pod.ToPlace
	if err := source.open(&cfg); err != nil {
		return err
	}
	moves, err := moving.open(&cfg, &pin, &out)
	if err != nil {
		return err
	}
	if err := pin.open(&cfg, out.tree, moves); err != nil {
		return err
	}
	if err := out.open(ctx, &cfg); err != nil {
		return err
	}
	return agent.Run(ctx, cfg)
}
