package demo

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// round is what was counted in one round.
type round struct {
	name                      string
	asked, running, pending   int
	gaveUp                    int            // pods refused as often as they were tried
	refused                   map[string]int // refusals by the kubelet's reason
	took                      time.Duration  // from the first pod's creation until the last one was bound
	predicted, wrong          int
	idleGPUs, idleCPUs        int64  // idle while pods that want them do not run
	firstPending, firstReason string // one pod that waits, and why
}

func (r round) refusals() (n int) {
	for _, k := range r.refused {
		n += k
	}
	return n
}

func (r round) summary() string {
	return fmt.Sprintf("%s scheduler: %d of %d pods running, %d refusals by kubelets, %d pending, after %.1fs",
		r.name, r.running, r.asked, r.refusals(), r.pending, r.took.Seconds())
}

// tries is how often a pod is created that kubelets refuse, as by a Job with backoffLimit 2.
const tries = 3

func (d *demo) round(ctx context.Context, name, profiles string) (round, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTimeout, fmt.Errorf("not settled after %s", roundTimeout))
	defer cancel()
	wanted := workload.Day(d.Seed, d.Scale)
	r := round{name: name, asked: len(wanted), refused: map[string]int{}}
	var mu sync.Mutex
	s, err := scheduler.Start(d.cluster.Dir, d.cluster.SchedulerKubeconfig, profiles, func(o ledger.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		r.predicted++
		if o.Result == ledger.Wrong {
			r.wrong++
		}
	})
	if err != nil {
		return r, err
	}
	began := time.Now()
	var pods []*v1.Pod
	if err = workload.Create(ctx, d.client, wanted...); err == nil {
		pods, err = d.play(ctx, &r, began)
	}
	if stopErr := s.Stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return r, err
	}
	mu.Lock()
	defer mu.Unlock()
	return r, d.count(ctx, pods, &r)
}

// play lets the round run until nothing has changed for a while. A pod that a kubelet refused is counted,
// and created anew at once while it has tries left.
func (d *demo) play(ctx context.Context, r *round, began time.Time) ([]*v1.Pod, error) {
	counted := map[string]bool{} // refused pods, by UID
	bound := map[string]bool{}   // by UID
	still := time.NewTimer(quiet)
	defer still.Stop()
	for {
		pods, changed := d.pods.Pods()
		for _, p := range pods {
			uid := string(p.UID)
			if p.Spec.NodeName != "" && !bound[uid] {
				bound[uid] = true
				r.took = time.Since(began)
			}
			if f, why := workload.FateOf(p); f == workload.Refused && !counted[uid] {
				counted[uid] = true
				r.refused[why]++
				if err := d.again(ctx, p, r); err != nil {
					return pods, err
				}
			}
		}
		select {
		case <-changed:
			still.Reset(quiet)
		case <-still.C:
			if workload.Settled(1)(pods) {
				return pods, nil
			}
			still.Reset(quiet)
		case <-ctx.Done():
			return pods, fmt.Errorf("wait for pods (%s): %w", workload.Count(pods), context.Cause(ctx))
		}
	}
}

// again creates a refused pod anew, unless it has had its tries.
func (d *demo) again(ctx context.Context, p *v1.Pod, r *round) error {
	name, more := retryName(p.Name)
	if !more {
		r.gaveUp++
		return nil
	}
	if err := d.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete refused pod %s: %w", p.Name, err)
	}
	fresh := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Namespace}, Spec: *p.Spec.DeepCopy()}
	fresh.Spec.NodeName, fresh.Spec.Tolerations, fresh.Spec.Priority = "", nil, nil
	return workload.Create(ctx, d.client, fresh)
}

var retrySuffix = regexp.MustCompile(`-try([0-9])$`)

// retryName names the next try of a pod: x, x-try2, x-try3; more is false after the last.
func retryName(name string) (next string, more bool) {
	m := retrySuffix.FindStringSubmatch(name)
	if m == nil {
		return name + "-try2", true
	}
	try := int(m[1][0]-'0') + 1
	return retrySuffix.ReplaceAllString(name, fmt.Sprintf("-try%d", try)), try <= tries
}

// count looks at the end of a round: who runs, and what lies idle though somebody wants it.
func (d *demo) count(ctx context.Context, pods []*v1.Pod, r *round) error {
	var wantGPUs, wantCPUs int64
	for _, p := range pods {
		f, why := workload.FateOf(p)
		switch f {
		case workload.Running:
			r.running++
			continue
		case workload.Pending:
			r.pending++
			// One that waits for alignment says more than one that waits for plain amounts.
			if r.firstPending == "" || (!strings.Contains(r.firstReason, aligned) && strings.Contains(why, aligned)) {
				r.firstPending, r.firstReason = p.Name, why
			}
		}
		for i := range p.Spec.Containers {
			req := p.Spec.Containers[i].Resources.Requests
			gpus := req[gpu]
			wantGPUs += gpus.Value()
			wantCPUs += req.Cpu().Value()
		}
	}
	nodes, _, err := d.reader.Nodes(ctx)
	if err != nil {
		return err
	}
	var freeGPUs, freeCPUs int64
	for _, n := range nodes {
		freeGPUs += int64(len(n.Usage.FreeDevices(gpu)))
		if n.Rules.CPU.Static {
			freeCPUs += int64(n.Usage.FreeCPUs().Len())
		}
	}
	r.idleGPUs, r.idleCPUs = min(freeGPUs, wantGPUs), min(freeCPUs, wantCPUs)
	return nil
}

const (
	gpu     = "nvidia.com/gpu"
	aligned = "cannot align" // how the reasons of place begin
)
