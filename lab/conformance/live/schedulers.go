package live

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// Scheduler is the scheduler that is graded.
type Scheduler struct {
	// Name is how reports name the scheduler.
	Name string
	// SchedulerName is spec.schedulerName of the pods; empty means the default scheduler.
	SchedulerName string
	// Agents is true for a scheduler that reads the layouts of Tenon's agents. Otherwise each node has only a
	// NodeResourceTopology.
	Agents bool
	// Start starts the scheduler on a cluster. It is nil if somebody else starts it.
	Start func(ctx context.Context, c *lab.Cluster) (Running, error)
}

// Running is a running scheduler.
type Running interface {
	Done() <-chan struct{} // closed when it ended
	Err() error            // why it ended by itself
	Stop() error
}

// Names of the schedulers that [BuiltIn] returns.
const (
	KubeScheduler = "kube-scheduler"
	Packed        = "kube-scheduler-packed"
	Tenon         = "tenon"
)

// BuiltInNames returns the names of the schedulers that [BuiltIn] returns.
func BuiltInNames() []string { return []string{KubeScheduler, Packed, Tenon} }

// BuiltIn returns a scheduler that runs in this process: kube-scheduler with its defaults, kube-scheduler that prefers
// full nodes, or Tenon.
func BuiltIn(name string) (Scheduler, error) {
	i := slices.Index(BuiltInNames(), name)
	if i < 0 {
		return Scheduler{}, fmt.Errorf("scheduler %q is none of %s", name, strings.Join(BuiltInNames(), ", "))
	}
	profiles := []string{scheduler.Plain, scheduler.Packed, scheduler.Tenon}[i]
	return Scheduler{Name: name, Agents: name == Tenon, Start: func(_ context.Context, c *lab.Cluster) (Running, error) {
		access := c.KubeconfigPath
		if name == Tenon {
			access = c.SchedulerKubeconfig
		}
		return scheduler.Start(c.Dir, access, profiles, nil)
	}}, nil
}

// kubeconfigPlace stands for the path of the kubeconfig in a command.
const kubeconfigPlace = "{kubeconfig}"

// Foreign returns a scheduler that a shell command starts. {kubeconfig} in the command stands for the path of a
// kubeconfig file of an administrator. If the command is empty, somebody else starts the scheduler.
func Foreign(schedulerName, command string) Scheduler {
	out := Scheduler{Name: schedulerName, SchedulerName: schedulerName}
	if command != "" {
		out.Start = func(_ context.Context, c *lab.Cluster) (Running, error) {
			text := strings.ReplaceAll(command, kubeconfigPlace, c.KubeconfigPath)
			cmd := exec.Command("sh", "-c", "exec "+text)
			return program.Start("scheduler", filepath.Join(c.Dir, "scheduler.log"), cmd)
		}
	}
	return out
}
