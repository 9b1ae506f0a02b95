package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// compared is how many pods are created for a measurement, one after the other.
const compared = 20

// plainName is the schedulerName of the plain kube-scheduler.
const plainName = "conformance-plain"

// compare measures how long the scheduler and a plain kube-scheduler take to bind pods without requests. The cases
// have ended, and their pods are deleted first.
func (c *cluster) compare(ctx context.Context, f *Found) (err error) {
	if err := c.clear(ctx); err != nil {
		return err
	}
	if f.Alone, err = c.measure(ctx, c.Scheduler.SchedulerName); err != nil {
		return err
	}
	plain, err := scheduler.Start(c.judgeDir, c.lab.KubeconfigPath, "- schedulerName: "+plainName+"\n", nil)
	if err != nil {
		return fmt.Errorf("start plain kube-scheduler: %w", err)
	}
	defer func() { err = errors.Join(err, plain.Stop()) }()
	f.Plain, err = c.measure(ctx, plainName)
	return err
}

// measure returns how long a scheduler takes to bind each of several pods. The first pod is not counted.
func (c *cluster) measure(ctx context.Context, schedulerName string) (out []time.Duration, err error) {
	for i := range compared + 1 {
		p := newPod(fmt.Sprint("pod-", i), schedulerName)
		began := time.Now()
		if err := workload.Create(ctx, c.client, p); err != nil {
			return nil, err
		}
		_, err := c.pods.Until(ctx, func(pods []*v1.Pod) bool {
			for _, q := range pods {
				if q.Name == p.Name && q.Spec.NodeName != "" {
					return true
				}
			}
			return false
		})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, time.Since(began))
		}
	}
	return out, c.clear(ctx)
}
