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
	took                      time.Duration  // from the first pod's creation to the last change
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
	s, err := scheduler.Start(d.cluster.Dir, d.cluster.KubeconfigPath, profiles, func(o ledger.Outcome) {
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
	err = workload.Create(ctx, d.client, wanted...)
	var pods []*v1.Pod
	for attempt := 1; err == nil && attempt <= tries; attempt++ {
		if pods, err = d.pods.Quiet(ctx, 1, quiet); err != nil {
			break
		}
		r.took = d.pods.LastChange().Sub(began)
		var refused int
		if refused, err = d.again(ctx, pods, &r, attempt < tries); refused == 0 {
			break
		}
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

// again counts the refused pods, deletes them, and creates them anew where they have tries left.
func (d *demo) again(ctx context.Context, pods []*v1.Pod, r *round, more bool) (refused int, err error) {
	for _, p := range pods {
		f, why := workload.FateOf(p)
		if f != workload.Refused {
			continue
		}
		r.refused[why]++
		refused++
		if !more {
			r.gaveUp++
			continue
		}
		err := d.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
		if err != nil {
			return refused, fmt.Errorf("delete refused pod %s: %w", p.Name, err)
		}
		fresh := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: retryName(p.Name), Namespace: p.Namespace}, Spec: *p.Spec.DeepCopy()}
		fresh.Spec.NodeName, fresh.Spec.Tolerations, fresh.Spec.Priority = "", nil, nil
		if err := workload.Create(ctx, d.client, fresh); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

var retrySuffix = regexp.MustCompile(`-try([0-9])$`)

// retryName names the next try of a pod: x, x-try2, x-try3.
func retryName(name string) string {
	m := retrySuffix.FindStringSubmatch(name)
	if m == nil {
		return name + "-try2"
	}
	return retrySuffix.ReplaceAllString(name, fmt.Sprintf("-try%d", m[1][0]-'0'+1))
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
