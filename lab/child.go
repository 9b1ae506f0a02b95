package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/numatopo"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/arbiter"
	nodekubelet "github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/nri"
	"github.com/tenon-numa/tenon/node/nrt"
)

// This file runs in the child process: it reads the job, and runs agents beside the kubelets. childnodes.go starts
// the kubelets and carries out orders.

// NodeInfo has what a program on a node, such as an agent, needs.
type NodeInfo struct {
	Name               string
	Machine            agent.MachineReader
	KubeletConfigPath  string // the effective KubeletConfiguration
	PodResourcesSocket string
	StateDir           string // directory of the CPU and memory managers' checkpoints
	// PinConfig is the path of the agent's rules, and NRI the path of the runtime's socket. They are set on nodes where
	// the agent pins containers, and empty on others.
	PinConfig, NRI string
	// Numatopology is true if the agent publishes Volcano's Numatopology too.
	Numatopology bool
}

// MaybeChild returns at once in a program that a person started. In a child process that [Start] started it runs the
// nodes and does not return.
func MaybeChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := runNodes(os.Stdin, os.NewFile(answersFD, "answers")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// answersFD is the descriptor on which the child answers orders.
const answersFD = 3

// runNodes reads the job, starts the nodes, and carries out orders until it is ordered to end. It returns an error if
// a node does not start. If the parent has died, it removes the cluster's directory, because no other process would.
func runNodes(in io.Reader, answers io.Writer) error {
	var j job
	dec := json.NewDecoder(in)
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newChildNodes(ctx, j)
	failed := make(chan error, 1)
	go func() {
		if err := s.start(); err != nil {
			failed <- err
		}
	}()
	stopped := make(chan bool, 1)
	go func() { stopped <- s.carryOut(dec, json.NewEncoder(answers)) }()
	select {
	case err := <-failed:
		return err
	case stop := <-stopped:
		if stop {
			return nil
		}
	case <-died:
	}
	return removeDir(j.Dir)
}

// removeDir removes a directory in which kubelets still write. It tries several times, because a kubelet may add a
// file while the directory is being removed.
func removeDir(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

// hardware is the machine that an agent reads. Nothing has to be discovered, and the machine may change at any time.
type hardware struct{ machine atomic.Pointer[topo.Machine] }

func (h *hardware) ReadMachine(context.Context) (*topo.Machine, v1alpha1.Detail, error) {
	return h.machine.Load(), v1alpha1.Detail{}, nil
}

// change replaces the machine by the described one without some CPUs, and with more or fewer hugepages of every size
// on every NUMA node.
func (h *hardware) change(description string, offline idset.Set[idset.CPU], pages int64) error {
	text, err := topo.ParseText(strings.NewReader(description))
	if err != nil {
		return err
	}
	spec := text.Spec
	for i := range spec.Cores {
		spec.Cores[i].CPUs = spec.Cores[i].CPUs.Minus(offline)
	}
	spec.Cores = slices.DeleteFunc(spec.Cores, func(c topo.CoreSpec) bool { return c.CPUs.Empty() })
	for _, n := range spec.NUMAs {
		for i := range n.Hugepages {
			n.Hugepages[i].Count = max(0, n.Hugepages[i].Count+pages)
		}
	}
	m, err := topo.New(spec)
	if err != nil {
		return err
	}
	h.machine.Store(m)
	return nil
}

// effectiveFiles reads a kubelet's configuration file and reports it as the configuration in effect, as /configz
// would. It may do so, because a kubelet of the lab has neither a server nor flags, and its file does not change
// while its process lives.
type effectiveFiles struct{ nodekubelet.Files }

func (r effectiveFiles) Configuration(ctx context.Context) (nodekubelet.Configuration, error) {
	c, err := r.Files.Configuration(ctx)
	c.Effective = err == nil
	return c, err
}

// ShardLabel is the label that agents copy from their Node to the objects that they publish.
const ShardLabel = "tenon.sh/shard"

// agentPause is how long an ended agent stays down before it is started again, as a DaemonSet would.
const agentPause = 250 * time.Millisecond

// runAgent runs the agent of a node until the context ends, and sends its reports through p. It starts the agent
// again when the agent ends, for example because the API server ended while the agent started.
func runAgent(ctx context.Context, administrator *rest.Config, n NodeInfo, p *reportDelay) {
	logger := klog.FromContext(ctx).WithName("agent").WithValues("node", n.Name)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := agentOnce(ctx, logger, administrator, n, p)
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Agent ended")
		}
	}, agentPause)
}

// agentOnce runs the agent of a node until it ends or the context ends. It first waits until the node is registered.
func agentOnce(ctx context.Context, logger klog.Logger, administrator *rest.Config, n NodeInfo, p *reportDelay) error {
	if err := awaitNode(ctx, administrator, n.Name); err != nil {
		return err
	}
	own, err := agentConfig(ctx, administrator, n.Name)
	if err != nil {
		return err
	}
	own.Wrap(p.wrap)
	labels := []string{ShardLabel}
	published, err := publisher(own, labels, n.Numatopology, logger)
	if err != nil {
		return err
	}
	cfg := agent.Config{
		Translate: pod.ToPlace, Publisher: published, Labels: labels,
		NodeName: n.Name, Machine: n.Machine, Rules: effectiveFiles{nodekubelet.Files{File: n.KubeletConfigPath}},
		PodResourcesSocket: n.PodResourcesSocket, StateDir: n.StateDir, REST: own, Logger: logger,
	}
	if n.PinConfig != "" {
		a, err := arbiter.New(arbiter.Config{NodeName: n.Name, REST: own, Socket: n.NRI,
			State: filepath.Join(n.StateDir, "pins.json"), Failure: nri.Ignore, PodResourcesSocket: n.PodResourcesSocket,
			StateDir: n.StateDir, Translate: pod.ToPlace, Logger: logger})
		if err != nil {
			return err
		}
		cfg.Arbiter, cfg.PinConfig = a, n.PinConfig
		cfg.Rules = arbiter.Source{Kubelet: cfg.Rules, Pins: nodekubelet.Files{File: n.PinConfig}}
	}
	return agent.Run(ctx, cfg)
}

// gpus is the resource whose devices are in Numatopologies.
const gpus = "nvidia.com/gpu"

// publisher returns what publishes a node's objects besides its layout: a NodeResourceTopology, and a Numatopology
// too if numatopology is true.
func publisher(own *rest.Config, labels []string, numatopology bool, logger klog.Logger) (agent.Publisher, error) {
	zones, err := nrt.NewPublisher(own, labels, logger)
	if err != nil || !numatopology {
		return zones, err
	}
	second, err := numatopo.NewPublisher(own, gpus, logger)
	return &agent.Both{Publisher: zones, Second: second}, err
}

// awaitNode waits until the node is registered, because a token cannot be bound to it earlier.
func awaitNode(ctx context.Context, administrator *rest.Config, name string) error {
	k, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := k.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
}
