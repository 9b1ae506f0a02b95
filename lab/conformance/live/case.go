package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/exporter"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/workload"
)

// played is the part of a cluster that belongs to one case.
type played struct {
	*cluster
	c *conformance.Case
	// machines are the nodes of the case as they are now, by full name.
	machines map[string]machines.Machine
	created  map[string]time.Time     // by pod
	bound    map[string]time.Duration // from creation to binding, by pod
	unseen   map[string]bool          // created pods that the watch has not delivered, by full name
}

// on returns the part of the cluster that belongs to a case.
func (c *cluster) on(one *conformance.Case) conformance.Cluster {
	return &played{cluster: c, c: one, machines: maps.Clone(c.machines), created: map[string]time.Time{},
		bound: map[string]time.Duration{}, unseen: map[string]bool{}}
}

// Do implements conformance.Cluster.
func (p *played) Do(ctx context.Context, a conformance.Action) error {
	for _, pod := range a.Create {
		if err := p.create(ctx, pod); err != nil {
			return err
		}
	}
	for _, name := range a.End {
		err := p.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, fullName(p.c, name), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // a scheduler may have evicted it
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	switch {
	case a.Restart != nil:
		return p.restart(ctx, *a.Restart)
	case a.Publish != nil:
		return p.publish(ctx, fullName(p.c, a.Publish.Node), a.Publish.What)
	}
	return nil
}

// foreign is the schedulerName of pods that are bound past the scheduler.
const foreign = "foreign-scheduler"

func (p *played) create(ctx context.Context, pod *v1.Pod) error {
	name := pod.Name
	pod = pod.DeepCopy()
	pod.Name, pod.Namespace = fullName(p.c, name), metav1.NamespaceDefault
	if pod.Spec.NodeName != "" {
		pod.Spec.NodeName, pod.Spec.SchedulerName = fullName(p.c, pod.Spec.NodeName), foreign
	} else {
		pod.Spec.SchedulerName = p.Scheduler.SchedulerName
		p.created[name] = time.Now()
	}
	pod.Spec.NodeSelector = map[string]string{Label: p.c.Name}
	group := ""
	if gang := pod.Labels[conformance.GangLabel]; gang != "" {
		group = fullName(p.c, gang)
	}
	p.Scheduler.groups().Join(pod, group)
	if _, err := p.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", name, err)
	}
	p.unseen[pod.Name] = true
	return nil
}

// restart restarts a kubelet, and waits until its node is ready and has all devices.
func (p *played) restart(ctx context.Context, as conformance.Node) error {
	m, err := p.c.MachineOf(as)
	if err != nil {
		return err
	}
	node := m.Name
	p.machines[node] = m
	before := time.Now().Add(-time.Second)
	if err := p.lab.RestartKubelet(ctx, node, m.YAML); err != nil {
		return err
	}
	if p.exporter != nil {
		p.exporter.Configure(node, m.Kubelet)
	}
	for {
		n, err := p.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get node %s: %w", node, err)
		}
		ready := slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && c.LastHeartbeatTime.After(before)
		})
		for _, r := range m.Topo.Resources() {
			have := n.Status.Allocatable[v1.ResourceName(r.Name)]
			ready = ready && have.Value() == int64(len(r.Devices))
		}
		if ready {
			return nil
		}
		if err := workload.Sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait for node %s: %w", node, err)
		}
	}
}

// publish changes what is published about a node. Tenon's scheduler reads the layouts of its agents. They end for
// "stop" and "nothing", and the layout is deleted for "nothing". They replace a wrong NodeResourceTopology themselves.
func (p *played) publish(ctx context.Context, node, what string) error {
	if p.exporter != nil {
		return p.exporter.Change(ctx, node, exporter.Mode(what))
	}
	switch what {
	case conformance.PublishStop:
		return p.lab.StopAgent(ctx, node)
	case conformance.PublishNothing:
		if err := p.lab.StopAgent(ctx, node); err != nil {
			return err
		}
		layouts, err := client.New(p.lab.RESTConfig())
		if err != nil {
			return err
		}
		topologies, err := nrt.NewClient(p.lab.RESTConfig())
		if err != nil {
			return err
		}
		return errors.Join(layouts.Delete(ctx, node, metav1.DeleteOptions{}),
			topologies.Delete(ctx, node, metav1.DeleteOptions{}))
	}
	return nil
}

// Settled implements conformance.Cluster. Nothing has changed for the times that the options set. A kubelet that has
// not decided, or a pod that is being deleted, counts as a change.
func (p *played) Settled(ctx context.Context) (conformance.State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restTimeout+4*(p.Settle+p.Pause),
		errors.New("the cluster does not come to rest"))
	defer cancel()
	for {
		pods, err := p.pods.Quiet(ctx, p.look)
		if err != nil {
			return conformance.State{}, fmt.Errorf("case %s: %w", p.c.Name, err)
		}
		waited, err := p.awaitReleased(ctx, p.own(pods))
		if err != nil {
			return conformance.State{}, fmt.Errorf("case %s: %w", p.c.Name, err)
		}
		if !waited {
			return p.state(ctx, p.own(pods))
		}
	}
}

// look returns what counts as a change if it differs, and how long nothing must change.
func (p *played) look(pods []*v1.Pod) (string, time.Duration) {
	now, waits, busy := p.sum(p.own(pods))
	switch {
	case busy:
		return now, -1
	case waits:
		return now, max(p.Pause, p.Settle)
	}
	return now, p.Pause
}

// own returns the pods of the case.
func (p *played) own(pods []*v1.Pod) (out []*v1.Pod) {
	for _, pod := range pods {
		if pod.Spec.NodeSelector[Label] == p.c.Name && strings.HasPrefix(pod.Name, p.c.Name+"-") {
			out = append(out, pod)
		}
	}
	return out
}

// sum returns what counts as a change if it differs, whether a pod waits for the scheduler, and whether somebody else
// has work to do. It records when pods were bound.
func (p *played) sum(pods []*v1.Pod) (text string, waits, busy bool) {
	var b strings.Builder
	for _, pod := range pods {
		delete(p.unseen, pod.Name)
		name := strings.TrimPrefix(pod.Name, p.c.Name+"-")
		created, ours := p.created[name]
		if _, known := p.bound[name]; pod.Spec.NodeName != "" && ours && !known {
			p.bound[name] = time.Since(created)
		}
		waits = waits || pod.Spec.NodeName == ""
		undecided := pod.Spec.NodeName != "" && pod.Status.Phase == v1.PodPending
		busy = busy || undecided || pod.DeletionTimestamp != nil
		fmt.Fprintf(&b, "%s %s %s %t; ", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil)
	}
	// The watch delivers a created pod soon, unless somebody has deleted it before.
	return b.String(), waits || len(p.unseen) > 0, busy
}

// state returns the nodes and pods of the case, with the names that they have in the case.
func (p *played) state(ctx context.Context, pods []*v1.Pod) (conformance.State, error) {
	out := conformance.State{BindTimes: p.bound}
	short := func(s string) string { return strings.TrimPrefix(s, p.c.Name+"-") }
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Name, pod.Spec.NodeName = short(pod.Name), short(pod.Spec.NodeName)
		out.Pods = append(out.Pods, pod)
	}
	for _, n := range p.c.Nodes {
		name := fullName(p.c, n.Name)
		object, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return out, fmt.Errorf("get node %s: %w", name, err)
		}
		object.Name = n.Name
		states, err := kubelet.ReadStates(p.lab.NodeDir(name))
		if err != nil {
			return out, fmt.Errorf("node %s: %w", name, err)
		}
		one := &judge.Node{Object: object, Machine: p.machines[name].Topo, Config: p.machines[name].Kubelet, States: states}
		for _, pod := range out.Pods {
			if pod.Spec.NodeName == n.Name && pod.Status.Phase == v1.PodRunning {
				one.Pods = append(one.Pods, pod)
			}
		}
		out.Nodes = append(out.Nodes, one)
	}
	return out, p.addClaimed(ctx, &out)
}
