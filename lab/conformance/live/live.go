// Package live plays conformance cases on a lab cluster: a real API server, and a real kubelet for each node. Several
// cases share a cluster. Labels of nodes and selectors of pods keep them apart.
//
// Invariant: what package judge gets was read from the API server and from the state files of the kubelets' managers.
// The package waits until nothing has changed for a time that the caller sets, and refuses to judge a cluster that
// never comes to rest.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/exporter"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Label is the label of nodes, and the node selector of pods, that has the name of their case.
const Label = "conformance.tenon.sh/case"

// Options of a run.
type Options struct {
	Scheduler Scheduler
	// Dir is where the clusters' directories are made; see lab.Config.
	Dir string
	// Settle is how long nothing must change before a pod counts as waiting. An avoidable wait counts if it lasts four
	// times as long.
	Settle time.Duration
	// Pause is how long nothing must change if no pod waits. Exporters, agents and schedulers take in what has changed
	// meanwhile.
	Pause time.Duration
	// Nodes is how many nodes a cluster has at most. If there are more, several clusters run one after the other.
	Nodes int
	// Parallel is how many cases run at once.
	Parallel int
	// Compare measures the time to bind beside kube-scheduler with its defaults.
	Compare bool
	// Progress receives a line for each step.
	Progress func(line string)
	// Done, if not nil, receives each result. Calls come one at a time.
	Done func(r *conformance.Result)
}

// Defaults of options.
const (
	DefaultSettle   = 5 * time.Second
	DefaultPause    = time.Second
	DefaultNodes    = 40
	DefaultParallel = 10
	// restTimeout bounds how long a cluster may take to come to rest.
	restTimeout = 90 * time.Second
	// patience is how many times more the cluster must settle before an avoidable wait counts.
	patience = 3
)

// Found is what a run found.
type Found struct {
	Results []*conformance.Result // in the order of the cases
	// Alone and Plain are the times to bind equal pods, under the scheduler and under kube-scheduler with its defaults.
	Alone, Plain []time.Duration
}

// Run plays the cases.
func Run(ctx context.Context, cases []*conformance.Case, o Options) (*Found, error) {
	if o.Scheduler.Start == nil {
		o.Nodes = 1 << 10 // one cluster, for which somebody starts a scheduler
	}
	out := &Found{}
	for len(cases) > 0 {
		n, nodes := 1, len(cases[0].Nodes)
		for n < len(cases) && nodes+len(cases[n].Nodes) <= o.Nodes {
			nodes += len(cases[n].Nodes)
			n++
		}
		if err := out.add(ctx, cases[:n], o); err != nil {
			return nil, err
		}
		cases = cases[n:]
	}
	return out, nil
}

// cluster is a lab cluster with the nodes of several cases.
type cluster struct {
	Options
	lab      *lab.Cluster
	client   Clients
	pods     *workload.Watch
	exporter *exporter.Exporter // nil if Tenon's agents run
	machines map[string]machines.Machine
	devices  map[string][]judge.Device // for claims, by node
	manager  *program.Running          // nil without devices for claims
	judgeDir string
}

// add plays cases on one new cluster.
func (f *Found) add(ctx context.Context, cases []*conformance.Case, o Options) (err error) {
	c, err := start(ctx, cases, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var running Running
	if o.Scheduler.Start == nil {
		o.Progress(fmt.Sprintf("start the scheduler %s now: export KUBECONFIG=%s", o.Scheduler.SchedulerName,
			c.lab.KubeconfigPath))
	} else if running, err = o.Scheduler.Start(ctx, c.lab); err != nil {
		return fmt.Errorf("start scheduler %s: %w", o.Scheduler.Name, err)
	}
	if running != nil {
		defer func() { err = errors.Join(err, running.Stop()) }()
	}
	if err := c.awaitScheduler(ctx, running, cases[0]); err != nil {
		return err
	}
	f.Results = append(f.Results, c.playAll(ctx, cases)...)
	select {
	case <-c.lab.Done():
		return fmt.Errorf("the lab ended: %w", c.lab.Err())
	default:
	}
	if running != nil && running.Err() != nil {
		return running.Err()
	}
	if c.Compare && f.Alone == nil && ctx.Err() == nil {
		if err := c.compare(ctx, f); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// playAll plays the cases, several at once.
func (c *cluster) playAll(ctx context.Context, cases []*conformance.Case) []*conformance.Result {
	out := make([]*conformance.Result, len(cases))
	slots := make(chan struct{}, max(1, c.Parallel))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, one := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			runner := conformance.Runner{Judge: judge.Judge{Dir: c.judgeDir}, Patience: patience}
			out[i] = runner.Run(ctx, one, c.on(one))
			mu.Lock()
			defer mu.Unlock()
			if c.Done != nil {
				c.Done(out[i])
			}
		})
	}
	wg.Wait()
	return out
}

// start starts a cluster with the nodes of the cases, and what is published about them.
func start(ctx context.Context, cases []*conformance.Case, o Options) (c *cluster, err error) {
	c = &cluster{Options: o, machines: map[string]machines.Machine{}}
	own, err := os.MkdirTemp(o.Dir, "conformance-")
	if err != nil {
		return nil, fmt.Errorf("directory of machines: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	cfg := lab.Config{Dir: o.Dir, Machines: os.DirFS(own), NoAgents: !o.Scheduler.Agents, CRDs: o.Scheduler.CRDs,
		APIs: lab.GangAPIs, Progress: func(string) {}}
	for _, one := range cases {
		for _, n := range one.Nodes {
			m, err := one.MachineOf(n)
			if err != nil {
				return nil, err
			}
			c.machines[m.Name] = m
			err = errors.Join(os.WriteFile(filepath.Join(own, m.Name+".txt"), []byte(m.Text), 0o600),
				os.WriteFile(filepath.Join(own, m.Name+".yaml"), []byte(m.YAML), 0o600))
			if err != nil {
				return nil, fmt.Errorf("write machine of node %s: %w", m.Name, err)
			}
			cfg.Nodes = append(cfg.Nodes, lab.Node{Name: m.Name, Machine: m.Name, Apart: restarts(one, n.Name)})
		}
	}
	o.Progress(fmt.Sprintf("starting a cluster of %d nodes for %d cases", len(cfg.Nodes), len(cases)))
	if c.lab, err = lab.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, cases); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare cluster: %w", err), c.stop())
	}
	return c, nil
}

// restarts reports whether a case restarts a node.
func restarts(c *conformance.Case, node string) bool {
	for _, s := range c.Steps {
		if s.Restart != nil && s.Restart.Node == node {
			return true
		}
	}
	return false
}

// prepare labels the nodes, creates the priority classes, and begins to publish and to follow pods.
func (c *cluster) prepare(ctx context.Context, cases []*conformance.Case) (err error) {
	c.judgeDir = filepath.Join(c.lab.Dir, "j")
	if err := os.Mkdir(c.judgeDir, 0o700); err != nil {
		return err
	}
	if c.client, err = clientsOf(c.lab); err != nil {
		return err
	}
	if err := c.createGroups(ctx, cases); err != nil {
		return err
	}
	for _, one := range cases {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, Label, one.Name)
		for _, n := range one.Nodes {
			_, err := c.client.CoreV1().Nodes().Patch(ctx, fullName(one, n.Name), types.MergePatchType, patch,
				metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("label node %s: %w", n.Name, err)
			}
		}
	}
	for name, value := range conformance.PriorityClasses() {
		_, err := c.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create priority class %s: %w", name, err)
		}
	}
	if c.pods, err = workload.Follow(ctx, c.client); err != nil {
		return err
	}
	if err := c.publishDevices(ctx, cases); err != nil {
		return err
	}
	if err := c.addResidents(ctx); err != nil || c.Scheduler.Agents {
		return err
	}
	var nodes []exporter.Node
	for _, n := range c.lab.Nodes {
		m := c.machines[n.Name]
		nodes = append(nodes, exporter.Node{Name: n.Name, Machine: m.Topo, Kubelet: m.Kubelet,
			Socket: filepath.Join(c.lab.NodeDir(n.Name), "pod-resources", "kubelet.sock")})
	}
	kinds := exporter.Kinds{NodeResourceTopology: true, Numatopology: c.Scheduler.Numatopology}
	c.exporter, err = exporter.Start(ctx, c.lab.RESTConfig(), kinds, nodes)
	return err
}

// addResidents gives every node a foreign pod that requests nothing, as real nodes have some. Schedulers may rely on
// that: NodeResourceTopologyMatch does not read the data of a node without pods again.
func (c *cluster) addResidents(ctx context.Context) error {
	for _, n := range c.lab.Nodes {
		p := newPod("resident-"+n.Name, foreign)
		p.Namespace, p.Spec.NodeName = metav1.NamespaceSystem, n.Name
		if err := workload.Create(ctx, c.client, p); err != nil {
			return err
		}
	}
	_, err := c.pods.Until(ctx, func(pods []*v1.Pod) bool {
		running := 0
		for _, p := range pods {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == len(c.lab.Nodes)
	})
	return err
}

// newPod returns a pod without requests.
func newPod(name, schedulerName string) *v1.Pod {
	p := workload.Pod(name, v1.Container{Name: "c", Image: "lab.invalid/app:1"})
	p.Spec.SchedulerName = schedulerName
	return p
}

// fullName returns the name of a node or pod on the cluster.
func fullName(c *conformance.Case, name string) string { return c.Name + "-" + name }

// awaitScheduler waits until the scheduler has bound a pod without requests, so that the time of its start does not
// count.
func (c *cluster) awaitScheduler(ctx context.Context, running Running, one *conformance.Case) error {
	ctx, cancel := context.WithTimeoutCause(ctx, schedulerTimeout, errors.New("the scheduler binds no pod"))
	defer cancel()
	p := newPod("first", c.Scheduler.SchedulerName)
	p.Spec.NodeSelector = map[string]string{Label: one.Name}
	if err := workload.Create(ctx, c.client, p); err != nil {
		return err
	}
	ended := make(<-chan struct{})
	if running != nil {
		ended = running.Done()
	}
	for {
		pods, changed := c.pods.Pods()
		for _, p := range pods {
			if p.Name == "first" && p.Status.Phase == v1.PodRunning {
				return c.clear(ctx)
			}
		}
		select {
		case <-changed:
		case <-ended:
			return fmt.Errorf("the scheduler ended: %w", running.Err())
		case <-ctx.Done():
			return fmt.Errorf("wait for the scheduler: %w", context.Cause(ctx))
		}
	}
}

// clear deletes the pods of cases, and waits until they are gone.
func (c *cluster) clear(ctx context.Context) error {
	err := c.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	_, err = c.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Namespace == metav1.NamespaceDefault })
	})
	return err
}

// schedulerTimeout bounds how long a scheduler may take to start. People who start it by hand need time too.
const schedulerTimeout = 5 * time.Minute

func (c *cluster) stop() error {
	var errs []error
	if c.exporter != nil {
		errs = append(errs, c.exporter.Stop())
	}
	if c.pods != nil {
		c.pods.Stop()
	}
	if c.manager != nil {
		errs = append(errs, c.manager.Stop())
	}
	return errors.Join(append(errs, c.lab.Stop())...)
}
