// Package volcano runs Volcano's own programs on a lab cluster: scheduler, controllers and admission webhooks. The
// scheduler has all plugins of Volcano, and Tenon's plugin in addition. The controllers create the pods of jobs.
//
// The programs are of another module, because Volcano needs the libraries of an older Kubernetes. The package builds
// them with the go command and imports nothing of Volcano. Invariant: when [Start] returns, the API server calls the
// webhooks for jobs; when [Schedule] returns, the queue default is open. [Volcano.Stop] ends every program. The
// package does not start clusters: the cluster needs the definitions of [Programs.Definitions], and a controller
// manager that deletes pods of deleted jobs.
package volcano

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/lab/program"
)

// Plugins that align tasks to NUMA nodes, by their names in Volcano's configuration: Tenon's, and Volcano's own.
const (
	Tenon     = "tenon"
	NumaAware = "numa-aware"
)

// Resources of Volcano's jobs, and of its groups of pods.
var (
	Jobs      = schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"}
	PodGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
)

var queues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}

// namespace is the namespace of Volcano's programs.
const namespace = "volcano-system"

// Options are the programs, the cluster and the folder of a run.
type Options struct {
	Programs   Programs
	Kubeconfig string // of an administrator of the cluster
	Dir        string // for logs and keys; it exists
	// EvictSingle allows the scheduler to evict pods of gangs that need all of their pods, such as gangs of one pod, as
	// the configuration that Volcano installs does.
	EvictSingle bool
}

// Volcano are Volcano's programs on one cluster.
type Volcano struct {
	Options
	client  *clients
	running []*program.Running
	once    sync.Once
	ended   chan struct{} // closed when a program ended by itself
}

// Start starts the webhooks and the controllers. The context bounds the start only.
func Start(ctx context.Context, o Options) (*Volcano, error) {
	v := &Volcano{Options: o, ended: make(chan struct{})}
	if err := v.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Volcano: %w", err), v.Stop())
	}
	return v, nil
}

func (v *Volcano) start(ctx context.Context) error {
	var err error
	if v.client, err = v.clients(); err != nil {
		return err
	}
	home := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := v.client.CoreV1().Namespaces().Create(ctx, home, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	if err := v.startWebhooks(ctx); err != nil {
		return err
	}
	return v.run("controllers", controllers, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=1000")
}

// clients are clients of a cluster's API server.
type clients struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

// clients makes clients that do not limit their rate of requests.
func (o Options) clients() (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	out := &clients{}
	if out.Interface, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if out.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return out, nil
}

// run starts one of the programs, and makes Stop end it.
func (v *Volcano) run(name, file string, args ...string) error {
	r, err := v.launch(name, file, args...)
	if err == nil {
		v.add(r)
	}
	return err
}

// add makes Stop end the program, and closes v.ended if the program ends by itself.
func (v *Volcano) add(r *program.Running) {
	v.running = append(v.running, r)
	go func() {
		<-r.Done()
		if r.Err() != nil {
			v.once.Do(func() { close(v.ended) })
		}
	}()
}

// launch starts one of the programs with the access of the kubeconfig. Its log is volcano-NAME.log in Dir.
func (o Options) launch(name, file string, args ...string) (*program.Running, error) {
	args = append([]string{"--kubeconfig=" + o.Kubeconfig}, args...)
	cmd := exec.Command(filepath.Join(string(o.Programs), file), args...)
	cmd.Dir = o.Dir // the scheduler writes files into its working directory
	return program.Start("Volcano's "+name, filepath.Join(o.Dir, "volcano-"+name+".log"), cmd)
}

// Schedule starts the scheduler with a plugin, as the function Schedule does; Stop ends it too.
func (v *Volcano) Schedule(ctx context.Context, plugin string) error {
	s, err := Schedule(ctx, v.Options, plugin)
	if err != nil {
		return err
	}
	v.add(s.Running)
	return nil
}

// Err returns why programs ended by themselves, with the ends of their logs, or nil if none did.
func (v *Volcano) Err() error {
	var errs []error
	for _, r := range v.running {
		errs = append(errs, r.Err())
	}
	return errors.Join(errs...)
}

// Done returns a channel that is closed when a program has ended by itself. It is not closed by Stop.
func (v *Volcano) Done() <-chan struct{} { return v.ended }

// Stop ends all programs, the webhooks last, because the API server rejects jobs and queues without them.
func (v *Volcano) Stop() error {
	var errs []error
	for _, r := range slices.Backward(v.running) {
		errs = append(errs, r.Stop())
	}
	return errors.Join(errs...)
}

// poll is the interval at which until repeats its check.
const poll = 50 * time.Millisecond

// until calls check until it returns nil. It gives up when ctx ends or the function ended returns an error, and then
// returns that error together with the last error of check.
func until(ctx context.Context, ended, check func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, ended()
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
