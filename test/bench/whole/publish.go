package whole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// statusWrite is a kubelet's status of a pod: that it runs, or why it was refused.
type statusWrite struct {
	namespace, name string
	uid             types.UID
	refused         place.RefusalReason // "" if it runs
}

// patch returns the status as a strategic merge patch, as the kubelet writes it.
func (w statusWrite) patch(now metav1.Time) ([]byte, error) {
	status := v1.PodStatus{Phase: v1.PodRunning, StartTime: &now, Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: now}}}
	if w.refused != "" {
		status = v1.PodStatus{Phase: v1.PodFailed, StartTime: &now, Reason: string(w.refused),
			Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.uid}, "status": status})
}

// writeStatuses writes statuses until the context ends.
func (s *nodes) writeStatuses(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-s.statuses:
			if err := s.write(ctx, w); err != nil && ctx.Err() == nil {
				s.fail(fmt.Errorf("write status of pod %s/%s: %w", w.namespace, w.name, err))
				return
			}
			s.written.statuses.Add(1)
			s.journal.add(Started, w.namespace+"/"+w.name)
		}
	}
}

// write writes a status. If the API server is overloaded, it retries, as a kubelet does.
func (s *nodes) write(ctx context.Context, w statusWrite) error {
	data, err := w.patch(metav1.Now())
	if err != nil {
		return err
	}
	for {
		_, err = s.pods.CoreV1().Pods(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, data,
			metav1.PatchOptions{}, "status")
		if !busy(err) {
			return err
		}
	}
}

// busy reports whether an API server rejected a request because of overload.
func busy(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

// publishReports publishes the nodes' reports until the queue is shut down.
func (s *nodes) publishReports(ctx context.Context) {
	for {
		name, end := s.reports.Get()
		if end {
			return
		}
		err := s.publish(ctx, s.byName[name])
		for busy(err) && ctx.Err() == nil {
			err = s.publish(ctx, s.byName[name])
		}
		s.reports.Done(name)
		if err != nil && ctx.Err() == nil {
			s.fail(err)
			return
		}
	}
}

// publish writes the layout of a node by server-side apply, as its agent does; then its topology, if nodes publish
// topologies.
func (s *nodes) publish(ctx context.Context, n *node) error {
	l, now := n.layout()
	d, err := n.base.Next(l)
	if err == nil && d == nil {
		d, err = s.renew(ctx, n, l)
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode layout %s: %w", n.name, err)
	}
	if _, err := s.layouts.Apply(ctx, d); err != nil {
		return err
	}
	s.written.layouts.Add(1)
	s.written.bytes.Add(int64(len(data)))
	if s.zones != nil {
		if err := s.publishTopology(ctx, n, now); err != nil {
			return err
		}
	}
	n.mu.Lock()
	n.publishedSequence, n.publishedAt = l.Sequence, time.Now()
	n.mu.Unlock()
	s.journal.add(Told, names(now.Entries)...)
	return nil
}

// renew writes layout l as a new base of its node, and returns a layout, under the next sequence, that refers to the
// base.
func (s *nodes) renew(ctx context.Context, n *node, l *v1alpha1.NodeLayout) (*v1alpha1.NodeLayout, error) {
	b := v1alpha1.BaseOf(l)
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode base of layout %s: %w", n.name, err)
	}
	if _, err := s.layouts.ApplyBase(ctx, b); err != nil {
		return nil, err
	}
	s.written.bases.Add(1)
	s.written.bytes.Add(int64(len(data)))
	if err := n.base.Begin(b); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.sequence++
	l.Sequence = n.sequence
	n.mu.Unlock()
	return n.base.Next(l)
}

func names(entries []state.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Pod.String())
	}
	return out
}

func (s *nodes) publishTopology(ctx context.Context, n *node, now *state.Node) error {
	data, err := json.Marshal(topology(now, n.owner))
	if err != nil {
		return fmt.Errorf("encode topology %s: %w", n.name, err)
	}
	_, err = s.zones.Patch(ctx, n.name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: client.FieldManager,
		Force: new(true)})
	if err != nil {
		return fmt.Errorf("apply topology %s: %w", n.name, err)
	}
	s.written.topologies.Add(1)
	s.written.bytes.Add(int64(len(data)))
	return nil
}

// settle waits until all statuses, layouts and topologies that follow from the bound pods are written. Then it writes
// the journal and sends an answer.
func (s *nodes) settle(ctx context.Context, answers *json.Encoder) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if quiet, last := s.allPublished(); quiet && s.written.statuses.Load() >= s.settled.Load() {
			if err := s.journal.write(); err != nil {
				return err
			}
			return answers.Encode(nodesAnswer{s.written.now(), last})
		}
		select {
		case <-tick.C:
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait until all nodes have published: %w", context.Cause(ctx))
		}
	}
}

// allPublished reports whether no node has anything to publish, and when the last one published.
func (s *nodes) allPublished() (quiet bool, last time.Time) {
	for _, n := range s.byName {
		n.mu.Lock()
		done, at := !n.due && n.publishedSequence == n.sequence, n.publishedAt
		n.mu.Unlock()
		if !done {
			return false, last
		}
		last = latest(last, at)
	}
	return true, last
}

// follow admits pods as they are bound, until the context ends.
func (s *nodes) follow(ctx context.Context, version string) error {
	w, err := watchPods(ctx, s.pods, version, boundOnly)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch of pods has ended")
			}
			pod, ok := e.Object.(*v1.Pod)
			switch {
			case e.Type == watch.Error:
				return fmt.Errorf("watch pods: %w", apierrors.FromObject(e.Object))
			case !ok || e.Type == watch.Deleted || pod.Spec.NodeName == "":
				continue
			}
			if err := s.admit(pod); err != nil {
				return err
			}
		}
	}
}

// watchPods receives every version of every pod that the selector selects, from a resource version on, in order. It
// continues after a lost connection.
func watchPods(ctx context.Context, c kubernetes.Interface, version, fields string) (*watchtools.RetryWatcher, error) {
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			return c.CoreV1().Pods("").List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields
			return c.CoreV1().Pods("").Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return w, nil
}
