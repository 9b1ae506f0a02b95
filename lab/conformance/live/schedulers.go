package live

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/volcano"
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
	// CRDs are installed in addition. Numatopology publishes Volcano's objects too; their definition is one of CRDs.
	CRDs         [][]byte
	Numatopology bool
	// Settle and Pause are the least that the scheduler needs in [Options], because it works periodically.
	Settle, Pause time.Duration
	// Groups is the API of gangs; nil means that of Kubernetes.
	Groups Groups
	// Start starts the scheduler on a cluster. It is nil if somebody else starts it.
	Start func(ctx context.Context, c *lab.Cluster) (Running, error)
}

// groups returns the API of gangs.
func (s Scheduler) groups() Groups {
	if s.Groups == nil {
		return podGroups{}
	}
	return s.Groups
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
	Match         = "NodeResourceTopologyMatch"
	Tenon         = "tenon"
	TenonStrict   = "tenon-strict"
	Volcano       = "volcano"
	VolcanoTenon  = "volcano-tenon"
)

// BuiltInNames returns the names of the schedulers that [BuiltIn] returns.
func BuiltInNames() []string {
	return []string{KubeScheduler, Packed, Match, Tenon, TenonStrict, Volcano, VolcanoTenon}
}

// Sources is where programs of other modules come from.
type Sources struct {
	// Volcano is a folder with Volcano's programs; if it is empty, they are built into the user's cache.
	Volcano string
	// Progress receives a line when something is built.
	Progress func(line string)
}

// BuiltIn returns one of the schedulers of BuiltInNames. Volcano's programs and NodeResourceTopologyMatch are built if
// necessary, which needs Go and a checkout of the repository; the others run in this process.
func BuiltIn(ctx context.Context, name string, from Sources) (Scheduler, error) {
	switch name {
	case KubeScheduler:
		return inProcess(name, scheduler.Plain), nil
	case Packed:
		return inProcess(name, scheduler.Packed), nil
	case Tenon:
		return inProcess(name, scheduler.Defaults), nil
	case TenonStrict:
		return inProcess(name, scheduler.Tenon), nil
	case Match:
		return matching(ctx, from)
	case Volcano:
		return volcanic(ctx, name, volcano.NumaAware, from)
	case VolcanoTenon:
		return volcanic(ctx, name, volcano.Tenon, from)
	}
	return Scheduler{}, fmt.Errorf("scheduler %q is none of %s", name, strings.Join(BuiltInNames(), ", "))
}

// inProcess returns a scheduler with these profiles.
func inProcess(name, profiles string) Scheduler {
	agents := scheduler.HasTenon(profiles)
	return Scheduler{Name: name, Agents: agents, Start: func(_ context.Context, c *lab.Cluster) (Running, error) {
		access := c.KubeconfigPath
		if agents {
			access = c.SchedulerKubeconfig
		}
		return scheduler.Start(c.Dir, access, profiles, nil)
	}}
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
