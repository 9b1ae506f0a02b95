// Package lab runs a Kubernetes cluster on one computer. The control plane is in this process. Child processes run a
// real kubelet, with Tenon's agent beside it, for every described machine.
//
// A cluster writes only below a directory of its own, and listens only on the loopback interface and on sockets in
// that directory. Agents and schedulers have exactly the rights that the manifests of package deploy grant.
// Invariant: when [Start] returns a cluster, every node is ready with its devices, layouts are published, and the
// policy for agents is in force. After [Cluster.Stop] no process, port or file of it is left. When the program dies,
// the children die with it. The package does not run containers. A container is an entry in a map, but the real
// managers assign its CPUs, memory and devices.
//
// A program that starts clusters calls [MaybeChild] first of all, in main or TestMain: the child is the same binary.
package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
)

// Config describes a cluster. The zero Config is a cluster with one node for each machine of the built-in catalogue.
type Config struct {
	// Nodes of the cluster; none means [DefaultNodes].
	Nodes []Node
	// Machines is searched for a machine before the built-in catalogue; it may be nil.
	Machines fs.FS
	// Dir is where the cluster's directory is made; empty means a memory file system if there is one. A long path
	// leaves little room for the names of nodes: a socket's path has at most 107 bytes.
	Dir string
	// Programs maps releases of Kubernetes to files: this program, built for that release. Nodes with a Release other
	// than this program's need them. Package lab/releases builds them.
	Programs map[string]string
	// Apart gives every node a process of its own, so that its kubelet can be restarted; containers outlive it.
	Apart bool
	// NoAgents leaves Tenon's agents out, so that no layouts are published.
	NoAgents bool
	// CRDs are installed besides NodeLayout and NodeResourceTopology.
	CRDs [][]byte
	// APIs are versions of Kubernetes' APIs that are served though they are off by default, such as
	// "scheduling.k8s.io/v1beta1".
	APIs []string
	// Numatopology makes agents publish Volcano's Numatopology too. CRDs must have its definition.
	Numatopology bool
	// Progress, if not nil, receives a line for each step.
	Progress func(line string)
}

// startTimeout bounds a start, which takes some ten seconds on a busy computer of two cores.
const startTimeout = 3 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	// Nodes are the nodes, as given or by default.
	Nodes []Node
	// Dir is the cluster's directory. It has control-plane.log, and the logs of the processes of nodes: with
	// [Config.Apart] one kubelet-NODE.log for each, otherwise kubelets.log, and kubelets-RELEASE.log for nodes that
	// name a release.
	Dir string
	// KubeconfigPath is a kubeconfig file of a cluster administrator, for kubectl.
	KubeconfigPath string
	// SchedulerKubeconfig is a kubeconfig file with the rights of deploy/scheduler, for a scheduler.
	SchedulerKubeconfig string

	cfg       Config
	described map[string]machines.Machine
	plane     *control.Plane
	processes *processes
	log       *os.File
	stop      sync.Once
	stopErr   error
}

// Start starts a cluster. The context bounds the start only; the cluster runs until Stop. Logs of
// Kubernetes' libraries in this process go to the cluster's directory from here on.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	c := &Cluster{Nodes: cfg.Nodes, cfg: cfg, processes: newProcesses()}
	if len(c.Nodes) == 0 {
		c.Nodes = DefaultNodes()
	}
	if err := c.start(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start lab cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, cfg Config) error {
	say := cfg.Progress
	if say == nil {
		say = func(string) {}
	}
	var err error
	if c.described, err = load(c.Nodes, cfg.Machines); err != nil {
		return err
	}
	if c.Dir, err = makeDir(cfg.Dir); err != nil {
		return err
	}
	if err := c.redirectLogs(); err != nil {
		return err
	}
	began := time.Now()
	home := filepath.Join(c.Dir, "control")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	c.plane, err = control.Start(ctx, control.Options{
		Dir: home, Nodes: names(c.Nodes), APIs: cfg.APIs,
		CRDs:      slices.Concat(crd.Layouts(), [][]byte{crd.NodeAffinity(), crd.NodeResourceTopology()}, cfg.CRDs),
		Manifests: cfg.manifests(),
	})
	if err != nil {
		return err
	}
	c.KubeconfigPath = c.plane.Kubeconfig
	if err := c.giveAccess(ctx); err != nil {
		return err
	}
	say(fmt.Sprintf("control plane ready at %s (%s)", c.plane.Admin.Host, elapsed(began)))
	if err := c.startNodes(); err != nil {
		return err
	}
	if err := c.awaitNodes(ctx, c.described, cfg.NoAgents, say); err != nil {
		return err
	}
	if err := c.awaitPolicy(ctx); err != nil {
		return err
	}
	ready := fmt.Sprintf("%d nodes ready", len(c.Nodes))
	if len(c.Nodes) == 1 {
		ready = "1 node ready"
	}
	say(fmt.Sprintf("%s (%s)", ready, elapsed(began)))
	return nil
}

func elapsed(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

// RESTConfig returns the access of a cluster administrator, as a copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.plane.Admin) }

// NodeDir returns the root directory of a node's kubelet: state files, configuration and sockets.
func (c *Cluster) NodeDir(name string) string { return filepath.Join(c.Dir, "n", name) }

// Done returns a channel that is closed by Stop, or when a process of nodes ends by itself. In the second case Err
// returns the reason.
func (c *Cluster) Done() <-chan struct{} { return c.processes.ended }

// Err returns why processes of nodes ended by themselves, or nil if none did. [Cluster.RestartKubelet] replaces such
// a process, and Err then omits it.
func (c *Cluster) Err() error { return c.processes.failure() }

// Stop ends the cluster and removes its directory. Further calls only return the result of the first.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		var errs []error
		errs = append(errs, c.processes.stop())
		if c.plane != nil {
			errs = append(errs, c.plane.Stop())
		}
		if c.log != nil {
			klog.SetOutput(io.Discard)
			errs = append(errs, c.log.Close())
		}
		if c.Dir != "" {
			errs = append(errs, os.RemoveAll(c.Dir))
		}
		if err := errors.Join(errs...); err != nil {
			c.stopErr = fmt.Errorf("stop lab cluster: %w", err)
		}
	})
	return c.stopErr
}

// redirectLogs sends the log of Kubernetes' libraries, which is global to the process, to a file.
func (c *Cluster) redirectLogs() error {
	f, err := os.Create(filepath.Join(c.Dir, "control-plane.log"))
	if err != nil {
		return err
	}
	c.log = f
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("redirect logs: %w", err)
		}
	}
	klog.SetOutput(f)
	return nil
}

// memoryDir is a memory file system on most Linux systems. The kubelets' managers write their state at each
// admission, and a disk would make that slow.
const memoryDir = "/dev/shm"

// makeDir makes the cluster's directory below base. If base is empty, it makes it in memory, or in the system's
// directory for temporary files if there is no memory file system.
func makeDir(base string) (string, error) {
	if base != "" {
		return os.MkdirTemp(base, "tenon-")
	}
	if dir, err := os.MkdirTemp(memoryDir, "tenon-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "tenon-")
}

// load returns the machine of every node, by node name. It searches own first, which may be nil, and then the
// built-in catalogue.
func load(nodes []Node, own fs.FS) (map[string]machines.Machine, error) {
	out := map[string]machines.Machine{}
	for _, n := range nodes {
		if err := n.check(); err != nil {
			return nil, err
		}
		if _, ok := out[n.Name]; ok {
			return nil, fmt.Errorf("node %s is named twice", n.Name)
		}
		m, err := find(own, n.Machine)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		out[n.Name] = m
	}
	return out, nil
}

func find(own fs.FS, name string) (machines.Machine, error) {
	if own != nil {
		if m, err := machines.Read(own, name); !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	}
	return machines.Load(name)
}
