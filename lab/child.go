package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/agent"
)

// NodeInfo is what somebody who works on a node, such as an agent, has to know of it.
type NodeInfo struct {
	Name               string
	Machine            *topo.Machine
	KubeletConfigPath  string // the effective KubeletConfiguration
	PodResourcesSocket string
	StateDir           string // of the CPU and memory managers' checkpoints
}

// MaybeChild does nothing in a program that a person started. In the child that [Start] made of the
// same binary it runs the nodes and does not return.
func MaybeChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := runNodes(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runNodes reads the job, starts the nodes, and returns when it is told to end. Where the parent died
// without a word, there is nobody else left to remove the cluster's directory.
func runNodes(in io.Reader) error {
	var j job
	dec := json.NewDecoder(in)
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		if err := startNodes(ctx, j); err != nil {
			failed <- err
		}
	}()
	last := make(chan string, 1)
	go func() {
		words, _ := io.ReadAll(io.MultiReader(dec.Buffered(), in)) // an error ends the input as well
		last <- string(bytes.TrimSpace(words))
	}()
	select {
	case err := <-failed:
		return err
	case word := <-last:
		if word == stopWord {
			return nil
		}
	case <-died:
	}
	return removeDir(j.Dir)
}

// removeDir removes a directory in which kubelets still write: what they add meanwhile needs another try.
func removeDir(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

func startNodes(ctx context.Context, j job) error {
	described := make([]machines.Machine, len(j.Nodes))
	configs := make([]*configv1beta1.KubeletConfiguration, len(j.Nodes))
	for i, n := range j.Nodes {
		m, err := machines.Parse(n.Machine, n.Text, n.YAML)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		described[i], configs[i] = m, m.Kubelet
	}
	if err := kubelet.PrepareProcess(configs...); err != nil {
		return err
	}
	for i, n := range j.Nodes {
		k, err := kubelet.Start(ctx, kubelet.Options{
			Node: n.Name, Machine: described[i].Topo, Config: configs[i], Client: n.Access.config(), Root: n.Root,
			Labels: map[string]string{"kubernetes.io/hostname": n.Name, "lab.tenon.sh/machine": n.Machine},
		})
		if err != nil {
			return err
		}
		if j.Agents {
			go runAgent(ctx, j.Admin.config(), NodeInfo{
				Name: n.Name, Machine: described[i].Topo, KubeletConfigPath: k.ConfigPath,
				PodResourcesSocket: k.PodResourcesSocket, StateDir: k.Root,
			})
		}
	}
	return nil
}

// hardware is a machine that needs no discovery.
type hardware struct{ machine *topo.Machine }

func (h hardware) Machine(context.Context) (*topo.Machine, error) { return h.machine, nil }

func runAgent(ctx context.Context, administrator *rest.Config, n NodeInfo) {
	logger := klog.FromContext(ctx).WithName("agent").WithValues("node", n.Name)
	if err := awaitNode(ctx, administrator, n.Name); err != nil {
		logger.Error(err, "Agent not started")
		return
	}
	own, err := agentConfig(ctx, administrator, n.Name)
	if err != nil {
		logger.Error(err, "Agent not started")
		return
	}
	zones, err := nrt.NewPublisher(own, logger)
	if err != nil {
		logger.Error(err, "Agent not started")
		return
	}
	err = agent.Run(ctx, agent.Config{
		Translate: kube.Pod, Publisher: zones,
		NodeName: n.Name, Machine: hardware{n.Machine}, KubeletConfig: n.KubeletConfigPath,
		PodResourcesSocket: n.PodResourcesSocket, StateDir: n.StateDir, REST: own, Logger: logger,
	})
	if err != nil && ctx.Err() == nil {
		logger.Error(err, "Agent ended")
	}
}

// awaitNode returns when the node is registered: a token cannot be bound to it earlier.
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
