package demo

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// contender is a scheduler that places the pods of the acts on kubelets.
type contender struct{ name, profiles string }

// schedulers returns the contenders in the order in which they play, Tenon last.
func schedulers() []contender {
	return []contender{{sim.KubeLeast, scheduler.Plain}, {sim.KubeMost, scheduler.Packed}, {sim.Tenon, scheduler.Tenon}}
}

// playBusy plays the act about a busy cluster: for each seed, one round under each scheduler, on empty machines.
func (d *demo) playBusy(ctx context.Context) (*document.DemoBusy, error) {
	out := &document.DemoBusy{Nodes: len(d.cluster.Nodes)}
	for seed := d.Seed; seed < d.Seed+uint64(d.Seeds); seed++ {
		for _, by := range schedulers() {
			r, err := d.round(ctx, by.name, by.profiles, seed)
			if err != nil {
				return nil, fmt.Errorf("busy cluster under %s, seed %d: %w", by.name, seed, err)
			}
			d.Progress(fmt.Sprintf("seed %d, %s: %d of %d pods run, refusals %d, last bound after %.1f s", seed, by.name,
				r.Running, r.Asked, r.Refusals(), r.LastBound))
			out.Rounds = append(out.Rounds, r)
			if err := d.clearPods(ctx); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// tries bounds how many times a pod is created while kubelets refuse it, as for a Job with backoffLimit 2.
const tries = 3

// round lets one scheduler place the pods of one seed, and returns what has become of them.
func (d *demo) round(ctx context.Context, name, profiles string, seed uint64) (document.DemoRound, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, actTimeout, fmt.Errorf("not settled after %s", actTimeout))
	defer cancel()
	wanted := busyPods(seed)
	r := document.DemoRound{Seed: seed, Scheduler: name, Asked: len(wanted), Refused: map[string]int{}}
	var mu sync.Mutex
	count := func(o state.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		r.Predicted++
		if o.Result == state.Wrong {
			r.Wrong++
		}
	}
	var pods []*v1.Pod
	err := d.withScheduler(profiles, count, func() (err error) {
		began := time.Now()
		if err = workload.Create(ctx, d.client, wanted...); err == nil {
			pods, err = d.play(ctx, &r, began)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	mu.Lock()
	defer mu.Unlock()
	err = d.countResults(ctx, pods, &r)
	return r, err
}

// play waits until every pod runs, was refused for the last time, or is pending, and nothing has changed for the
// duration quiet. Meanwhile it counts the pods that a kubelet refused, and creates them again at once while they have
// tries left. It returns the pods.
func (d *demo) play(ctx context.Context, r *document.DemoRound, began time.Time) ([]*v1.Pod, error) {
	counted := map[string]bool{} // refused pods, by UID
	bound := map[string]bool{}   // by UID
	settle := time.NewTimer(quiet)
	defer settle.Stop()
	for {
		pods, changed := d.pods.Pods()
		for _, p := range pods {
			uid := string(p.UID)
			if p.Spec.NodeName != "" && !bound[uid] {
				bound[uid] = true
				r.LastBound = time.Since(began).Seconds()
			}
			if f, why := workload.FateOf(p); f == workload.Refused && !counted[uid] {
				counted[uid] = true
				r.Refused[why]++
				more, err := d.retry(ctx, p)
				if err != nil {
					return pods, err
				}
				if !more {
					r.GaveUp++
				}
			}
		}
		select {
		case <-changed:
			settle.Reset(quiet)
		case <-settle.C:
			if workload.Settled(1)(pods) {
				return pods, nil
			}
			settle.Reset(quiet)
		case <-ctx.Done():
			return pods, fmt.Errorf("wait for pods (%s): %w", workload.Count(pods), context.Cause(ctx))
		}
	}
}

// retry deletes a refused pod and creates it under the name of its next try. more is false if the pod has no tries
// left; then it is not changed.
func (d *demo) retry(ctx context.Context, p *v1.Pod) (more bool, err error) {
	name, more := retryName(p.Name)
	if !more {
		return false, nil
	}
	if err := d.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return true, fmt.Errorf("delete refused pod %s: %w", p.Name, err)
	}
	fresh := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Namespace}, Spec: *p.Spec.DeepCopy()}
	fresh.Spec.NodeName, fresh.Spec.Tolerations, fresh.Spec.Priority = "", nil, nil
	return true, workload.Create(ctx, d.client, fresh)
}

var retrySuffix = regexp.MustCompile(`-try([0-9])$`)

// retryName returns the name of a pod's next try: x, x-try2, x-try3. more is false after the last.
func retryName(name string) (next string, more bool) {
	m := retrySuffix.FindStringSubmatch(name)
	if m == nil {
		return name + "-try2", true
	}
	try := int(m[1][0]-'0') + 1
	return retrySuffix.ReplaceAllString(name, fmt.Sprintf("-try%d", try)), try <= tries
}

// countResults counts, at the end of a round, the pods that run, and the devices that are idle although pods that do
// not run request them.
func (d *demo) countResults(ctx context.Context, pods []*v1.Pod, r *document.DemoRound) error {
	wanted := map[v1.ResourceName]int64{}
	for _, p := range pods {
		switch f, _ := workload.FateOf(p); f {
		case workload.Running:
			r.Running++
			continue
		case workload.Pending:
			r.Pending++
		}
		for i := range p.Spec.Containers {
			for name, q := range p.Spec.Containers[i].Resources.Requests {
				wanted[name] += q.Value()
			}
		}
	}
	nodes, err := d.awaitReports(ctx)
	if err != nil {
		return err
	}
	idle := func(resource string) (free int64) {
		for _, n := range nodes {
			free += int64(len(n.Usage.FreeDevices(resource)))
		}
		return min(free, wanted[v1.ResourceName(resource)])
	}
	r.IdleGPUs, r.IdleFunctions = idle(gpu), idle(functions)
	return nil
}
