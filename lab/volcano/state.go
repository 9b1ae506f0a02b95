package volcano

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// JobLabel is the label by which Volcano names the job of a pod.
const JobLabel = "volcano.sh/job-name"

// State has the names of all jobs in the namespace default, each in one of the lists.
type State struct {
	Whole   []string // all tasks run
	Waiting []string // no task has a node
	Partial []string // some tasks have a node, and not all run
	Failed  []string // Volcano has given the job up
	// Moving means that the state will change by itself: a pod starts or ends, a job starts again, or the scheduler has
	// not decided about a job yet.
	Moving bool
}

// String counts the jobs.
func (s State) String() string {
	return fmt.Sprintf("%d run as a whole, %d wait, %d run in part, %d failed", len(s.Whole), len(s.Waiting),
		len(s.Partial), len(s.Failed))
}

// Refusal is a pod that a kubelet refused.
type Refusal struct{ Pod, Node, Reason, Message string }

// Observer reads the state of jobs, and records the pods that kubelets refuse.
type Observer struct {
	client  *clients
	mu      sync.Mutex
	refused map[types.UID]Refusal
}

// Observe starts to record which pods kubelets refuse, until the context ends. They must be recorded when they fail,
// because a job that starts again deletes them.
func Observe(ctx context.Context, o Options) (*Observer, error) {
	w := &Observer{refused: map[types.UID]Refusal{}}
	var err error
	if w.client, err = o.clients(); err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactoryWithOptions(w.client.Interface, 0,
		informers.WithNamespace(metav1.NamespaceDefault))
	pods := f.Core().V1().Pods().Informer()
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: w.record, DeleteFunc: w.record,
		UpdateFunc: func(_, o any) { w.record(o) }})
	if err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	f.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, fmt.Errorf("list pods: %w", context.Cause(ctx))
	}
	return w, nil
}

// record records a failed pod. It was refused, because no container of the lab fails.
func (w *Observer) record(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if p, ok := o.(*v1.Pod); ok && p.Status.Phase == v1.PodFailed {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused[p.UID] = Refusal{p.Name, p.Spec.NodeName, p.Status.Reason, p.Status.Message}
	}
}

// Refused returns the pods that kubelets have refused, by name.
func (w *Observer) Refused() []Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Refusal
	for _, r := range w.refused {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Refusal) int { return strings.Compare(a.Pod+a.Node, b.Pod+b.Node) })
	return out
}

// State returns the state of all jobs.
func (w *Observer) State(ctx context.Context) (s State, err error) {
	jobs, err := w.client.dynamic.Resource(Jobs).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list jobs: %w", err)
	}
	answered, err := w.answered(ctx)
	if err != nil {
		return s, err
	}
	list, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list pods: %w", err)
	}
	pods := map[string][]*v1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		pods[p.Labels[JobLabel]] = append(pods[p.Labels[JobLabel]], p)
	}
	for i := range jobs.Items {
		name := jobs.Items[i].GetName()
		s.add(&jobs.Items[i], pods[name], answered[name])
		delete(pods, name)
	}
	s.Moving = s.Moving || len(pods) > 0 // pods of deleted jobs
	return s, nil
}

// answered returns, by job name, whether the scheduler has reported that the job does not fit or has to wait for the
// queue.
func (w *Observer) answered(ctx context.Context) (map[string]bool, error) {
	groups, err := w.client.dynamic.Resource(PodGroups).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pod groups: %w", err)
	}
	out := map[string]bool{}
	for i := range groups.Items {
		g := &groups.Items[i]
		owner := metav1.GetControllerOf(g)
		if owner == nil {
			continue
		}
		phase, _, _ := unstructured.NestedString(g.Object, "status", "phase")
		conditions, _, _ := unstructured.NestedSlice(g.Object, "status", "conditions")
		out[owner.Name] = phase == "Pending" || slices.ContainsFunc(conditions, func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == "Unschedulable" && fields["status"] == "True"
		})
	}
	return out, nil
}

// add adds a job to the list that describes the state of its pods. answered is the job's entry in the result of
// Observer.answered.
func (s *State) add(job *unstructured.Unstructured, pods []*v1.Pod, answered bool) {
	bound, running, starts := 0, 0, false
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
			starts = true
		case p.Status.Phase == v1.PodRunning:
			bound, running = bound+1, running+1
		case p.Spec.NodeName != "":
			bound, starts = bound+1, true
		case !unschedulable(p):
			starts = true
		}
	}
	name, phase := job.GetName(), phase(job)
	switch {
	case phase == "Failed" || phase == "Aborted" || phase == "Terminated":
		s.Failed = append(s.Failed, name)
	case running > 0 && running == replicas(job):
		s.Whole = append(s.Whole, name)
	case bound == 0:
		s.Waiting = append(s.Waiting, name)
		s.Moving = s.Moving || !answered
	default:
		s.Partial = append(s.Partial, name)
		s.Moving = s.Moving || starts || phase != "Pending" && phase != "Running"
	}
}

func phase(job *unstructured.Unstructured) string {
	out, _, _ := unstructured.NestedString(job.Object, "status", "state", "phase")
	return out
}

// replicas returns how many tasks a job has.
func replicas(job *unstructured.Unstructured) (n int) {
	tasks, _, _ := unstructured.NestedSlice(job.Object, "spec", "tasks")
	for _, t := range tasks {
		if fields, ok := t.(map[string]any); ok {
			count, _, _ := unstructured.NestedInt64(fields, "replicas")
			n += int(count)
		}
	}
	return n
}

// unschedulable reports whether the scheduler has found no node for a pod.
func unschedulable(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(x v1.PodCondition) bool {
		return x.Type == v1.PodScheduled && x.Status == v1.ConditionFalse
	})
}

const (
	// quiet is how long nothing must change before jobs count as settled: ten sessions of the scheduler, which begins
	// one every 200 ms.
	quiet = 2 * time.Second
	// pollInterval is the interval at which Settle reads the jobs.
	pollInterval = 200 * time.Millisecond
)

// Settle waits until no job is moving and nothing has changed for the duration quiet, and returns the state.
func (w *Observer) Settle(ctx context.Context) (s State, err error) {
	var before State
	since := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if s, err = w.State(ctx); err != nil {
			return s, err
		}
		if !reflect.DeepEqual(s, before) {
			before, since = s, time.Now()
		}
		if !s.Moving && time.Since(since) > quiet {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, fmt.Errorf("wait until jobs have settled (%s): %w", s, context.Cause(ctx))
		}
	}
}

// Remove deletes jobs, and returns when their pods have gone.
func (w *Observer) Remove(ctx context.Context, jobs ...string) error {
	gone := map[string]bool{}
	for _, name := range jobs {
		gone[name] = true
		err := w.client.dynamic.Resource(Jobs).Namespace(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil {
			return fmt.Errorf("delete job %s: %w", name, err)
		}
	}
	return until(ctx, func() error { return nil }, func() error {
		list, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			if p := &list.Items[i]; gone[p.Labels[JobLabel]] {
				return fmt.Errorf("pod %s of a deleted job is still there", p.Name)
			}
		}
		return nil
	})
}
