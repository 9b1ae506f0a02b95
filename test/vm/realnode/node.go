// Package realnode is a node of a lab cluster on which containers really run: a virtual machine with the NUMA nodes of
// a described machine, and on it Linux, containerd, runc, an unmodified kubelet, and Tenon's agent. Tests compare
// predictions with what the kernel reports of the containers' processes.
//
// Third-party programs are built from source by separate modules below parts/, with pinned versions and checksums; no
// image is pulled. Invariant: when [Start] returns a node, it is ready and its agent has published its layout; after
// [Node.Stop] nothing of it is left. The package refuses machines that QEMU cannot make, API servers that are not on
// the loopback interface, and hosts that are not amd64.
package realnode

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/test/vm/guest"
)

// Config describes a node.
type Config struct {
	// Name is the name of the node, a DNS label.
	Name string
	// Machine is the hardware, and the configuration of its kubelet. Sockets and cores must be equal, with CPUs
	// numbered thread by thread. The kernel reserves some of the memory for itself.
	Machine machines.Machine
	Disk    *Disk
	// Kubelet is the access of the node's kubelet to the API server, with the address at which the host reaches it. The
	// guest gets another address.
	Kubelet *rest.Config
	// Agent makes the access of the node's agent. It is called when the Node is registered, so that a token can be
	// bound to it. If it is nil, no agent runs beside the kubelet; it may run as a pod.
	Agent func(ctx context.Context) (*rest.Config, error)
	// Admin is an access with which Start checks that the node is ready; the guest does not get it.
	Admin *rest.Config
	// Dir is where the console's log is written; if it is empty, the log is not kept.
	Dir string
	// Files are further files of the guest by absolute path.
	Files map[string]guest.File
	// SignedByCluster means that the kubelet requests the certificate of its own port from the cluster
	// (serverTLSBootstrap), and does not serve before the request was approved.
	SignedByCluster bool
	// Port is the port of the host's loopback interface at which the host reaches the kubelet (see [Egress]); 0 means
	// none.
	Port int
	// Progress, if not nil, receives a line for each step.
	Progress func(line string)
}

// startTimeout bounds a start; with two nodes at once on a busy computer of two cores it takes a minute.
const startTimeout = 6 * time.Minute

// kubeletPort is the usual port of a kubelet.
const kubeletPort = 10250

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Node is a running node.
type Node struct {
	Name  string
	guest *guest.Guest
	say   func(string)
}

// Start boots a node and returns when it is ready and, if it has an agent, its layout is published. The context bounds
// the start only; the node runs until Stop.
func Start(ctx context.Context, c Config) (_ *Node, err error) {
	if err := checkHost(); err != nil {
		return nil, fmt.Errorf("start node %s: %w", c.Name, err)
	}
	if !validName.MatchString(c.Name) {
		return nil, fmt.Errorf("start node: name %q is not a DNS label", c.Name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	n := &Node{Name: c.Name, say: progress(c)}
	if err := n.boot(ctx, c); err != nil {
		return nil, fmt.Errorf("start node %s: %w", c.Name, err)
	}
	if err := n.startPrograms(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("start node %s: %w", c.Name, err), n.Stop())
	}
	return n, nil
}

// progress prefixes lines with the node's name and the time since the start.
func progress(c Config) func(string) {
	began := time.Now()
	return func(line string) {
		if c.Progress != nil {
			c.Progress(fmt.Sprintf("node %s: %s (%s)", c.Name, line, time.Since(began).Round(100*time.Millisecond)))
		}
	}
}

func (n *Node) boot(ctx context.Context, c Config) error {
	args, cmdline, err := qemuArgs(c.Machine.Topo)
	if err != nil {
		return fmt.Errorf("machine %s: %w", c.Machine.Name, err)
	}
	files, err := configFiles(c)
	if err != nil {
		return err
	}
	if c.Disk.systemd {
		// Linux is loaded at a random address at each boot. NUMA nodes may then have other amounts of memory than before,
		// and a static memory manager refuses to start.
		cmdline += " nokaslr"
	}
	system := guest.Config{Arch: arch, Args: args, Append: cmdline, Files: files,
		Modules: []string{"veth", "overlay", "tcp_diag"}, Disk: c.Disk.path, Network: true, Reboots: true, Dir: c.Dir}
	if c.Port != 0 {
		system.Port, system.HostPort = kubeletPort, c.Port
	}
	n.guest, err = guest.Boot(ctx, system)
	if err != nil {
		return err
	}
	n.say("Linux runs")
	return nil
}

// startPrograms starts the programs of a node on its guest, one after the other. It returns when the node is ready
// and, if it has an agent, its layout is published.
func (n *Node) startPrograms(ctx context.Context, c Config) error {
	for _, step := range []struct{ name, done string }{
		{"system", "file systems mounted"}, {"service", "the API server's service reached"},
		{"containerd", "containerd runs"}, {"image", "image imported"},
		{"kubelet", "kubelet runs"}, {"plugin", "device plugins registered"},
	} {
		if err := n.step(ctx, step.name); err != nil {
			return err
		}
		n.say(step.done)
	}
	if err := n.awaitNode(ctx, c.Admin, isRegistered); err != nil {
		return errors.Join(fmt.Errorf("wait until it is registered: %w", err), n.explain("kubelet"))
	}
	if c.Agent != nil {
		if err := n.startAgent(ctx, c); err != nil {
			return fmt.Errorf("start its agent: %w", err)
		}
	}
	readyWithDevices := func(n *v1.Node) bool { return isReady(n) && hasDevices(n, c.Machine.Topo) }
	if err := n.awaitNode(ctx, c.Admin, readyWithDevices); err != nil {
		return errors.Join(fmt.Errorf("wait until it is ready: %w", err), n.explain("kubelet"))
	}
	n.say("ready")
	if c.Agent == nil {
		return nil
	}
	if err := n.awaitLayout(ctx, c.Admin); err != nil {
		return errors.Join(fmt.Errorf("wait for its layout: %w", err), n.explain("agent"))
	}
	n.say("layout published")
	return nil
}

// step runs one step of root/usr/local/sbin/node.
func (n *Node) step(ctx context.Context, name string) error {
	if _, err := n.guest.Run(ctx, "/usr/local/sbin/node "+name); err != nil {
		return fmt.Errorf("step %s: %w", name, err)
	}
	return nil
}

func (n *Node) startAgent(ctx context.Context, c Config) error {
	access, err := c.Agent(ctx)
	if err != nil {
		return err
	}
	file, err := kubeconfig(access)
	if err != nil {
		return err
	}
	const write = "umask 077; base64 -d >/etc/kubernetes/agent.conf <<END\n%s\nEND\n"
	if _, err := n.guest.Run(ctx, fmt.Sprintf(write, base64.StdEncoding.EncodeToString(file))); err != nil {
		return err
	}
	return n.step(ctx, "agent")
}

// explain returns the end of a program's log as an error.
func (n *Node) explain(program string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := n.Log(ctx, program, 30)
	if err != nil {
		return err
	}
	return fmt.Errorf("log of %s:\n%s", program, out)
}

// Log returns the last lines of a program's log. The program is "kubelet", "containerd", "plugin" or "agent".
func (n *Node) Log(ctx context.Context, program string, lines int) (string, error) {
	const read = "tail -n %d /var/log/%s.log 2>/dev/null || journalctl --no-pager -n %[1]d -u %[2]s -u tenon-%[2]s"
	return n.guest.Run(ctx, fmt.Sprintf(read, lines, program))
}

// Run runs a shell script on the node, as [guest.Guest.Run] does.
func (n *Node) Run(ctx context.Context, script string) (string, error) {
	return n.guest.Run(ctx, "export PATH=/usr/local/bin:/bin:/sbin HOME=/root\n"+script)
}

// RestartKubelet ends the kubelet and starts it again, with its old state. Containers continue to run. Device plugins
// are not registered again.
func (n *Node) RestartKubelet(ctx context.Context) error {
	if err := n.step(ctx, "stop kubelet"); err != nil {
		return fmt.Errorf("restart kubelet of node %s: %w", n.Name, err)
	}
	if err := n.step(ctx, "kubelet"); err != nil {
		return fmt.Errorf("restart kubelet of node %s: %w", n.Name, err)
	}
	n.say("kubelet restarted")
	return nil
}

// StopProgram ends a program of the node: "agent", "containerd" or "kubelet". Processes that it started continue to
// run.
func (n *Node) StopProgram(ctx context.Context, program string) error {
	if err := n.step(ctx, "stop "+program); err != nil {
		return fmt.Errorf("stop %s of node %s: %w", program, n.Name, err)
	}
	n.say(program + " stopped")
	return nil
}

// StartProgram starts a program that was stopped, or a driver for claims, which no other step starts: "driver" or
// "dracpu".
func (n *Node) StartProgram(ctx context.Context, program string) error {
	if err := n.step(ctx, program); err != nil {
		return fmt.Errorf("start %s of node %s: %w", program, n.Name, err)
	}
	n.say(program + " started")
	return nil
}

// Reboot boots the node again, as if its power had failed after all files were written, and starts its programs.
// Containers start anew.
func (n *Node) Reboot(ctx context.Context) error {
	if err := n.guest.Reboot(ctx); err != nil {
		return fmt.Errorf("reboot node %s: %w", n.Name, err)
	}
	for _, step := range []string{"system", "service", "containerd", "kubelet", "plugin", "agent"} {
		if err := n.step(ctx, step); err != nil {
			return fmt.Errorf("reboot node %s: %w", n.Name, err)
		}
	}
	n.say("rebooted")
	return nil
}

// Cut boots a node with systemd as after a power cut, and returns when its shell answers; systemd starts the programs.
func (n *Node) Cut(ctx context.Context) error {
	if err := n.guest.Cut(ctx); err != nil {
		return fmt.Errorf("cut the power of node %s: %w", n.Name, err)
	}
	n.say("power cut")
	return nil
}

// Booted waits for a node with systemd that boots again by itself, and returns when its shell answers.
func (n *Node) Booted(ctx context.Context) error {
	if err := n.guest.Booted(ctx); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.say("booted again")
	return nil
}

// Stop ends the node at once; data that it has not sent to the API server is lost. A second call does nothing.
func (n *Node) Stop() error { return n.guest.Close() }

// awaitNode waits until the API server has the node's object and the given function accepts it.
func (n *Node) awaitNode(ctx context.Context, admin *rest.Config, accept func(*v1.Node) bool) error {
	k, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	nodes := k.CoreV1().Nodes()
	return n.await(ctx, &v1.Node{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			return nodes.List(ctx, n.selectNode(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return nodes.Watch(ctx, n.selectNode(o))
		},
	}, func(e watch.Event) (bool, error) {
		node, ok := e.Object.(*v1.Node)
		return ok && accept(node), nil
	})
}

func isRegistered(*v1.Node) bool { return true }

func isReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// hasDevices reports whether a node's capacity has all devices of its machine, which means that the kubelet has them
// from the device plugins.
func hasDevices(n *v1.Node, m *topo.Machine) bool {
	for _, r := range m.Resources() {
		if have := n.Status.Capacity[v1.ResourceName(r.Name)]; have.Value() != int64(len(r.Devices)) {
			return false
		}
	}
	return true
}

func (n *Node) awaitLayout(ctx context.Context, admin *rest.Config) error {
	layouts, err := client.New(admin)
	if err != nil {
		return err
	}
	return n.await(ctx, &v1alpha1.NodeLayout{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			return layouts.List(ctx, n.selectNode(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return layouts.Watch(ctx, n.selectNode(o))
		},
	}, func(e watch.Event) (bool, error) {
		_, ok := e.Object.(*v1alpha1.NodeLayout)
		return ok, nil
	})
}

// selectNode narrows a list or watch to the object with the node's name.
func (n *Node) selectNode(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", n.Name).String()
	return o
}

// await waits for an event for which done returns true. It returns an error if the context or the guest ends first.
func (n *Node) await(ctx context.Context, object apiruntime.Object, lw *cache.ListWatch,
	done func(watch.Event) (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-n.guest.Done():
			cancel(errors.New("the guest died"))
		case <-ctx.Done():
		}
	}()
	if _, err := watchtools.UntilWithSync(ctx, lw, object, nil, done); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}
