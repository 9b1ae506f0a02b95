package scheduler_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Pods whose author claims other identities for them are bound, run and are reported like others, and as many pods of
// other users run beside them as beside pods without such claims.
func TestForgedIdentities(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := lab.Config{Machines: fstest.MapFS{"m.txt": {Data: []byte(pinnedMachine)},
		"m.yaml": {Data: []byte(pinnedConfig)}}}
	for _, name := range []string{"a", "b", "c"} {
		cfg.Nodes = append(cfg.Nodes, lab.Node{Name: name, Machine: "m"})
	}
	w := start(ctx, t, cfg, scheduler.Tenon)
	for range *identityRounds {
		honest := w.crowd(ctx, t, "honest", nil)
		if forged := w.crowd(ctx, t, "forged", claimed); honest != forged {
			t.Errorf("without forged identities: %s; with: %s", honest, forged)
		}
	}
}

var identityRounds = flag.Int("identity.rounds", 1, "how often pods run beside forged identities, and without them")

// claimed returns the annotations of a pod that claims another identity: none that exists, or that of a running pod.
func claimed(i int, all []*v1.Pod) map[string]string {
	claims := []string{"made-up", "", fmt.Sprintf("%032x", i)}
	if len(all) > 0 {
		claims[1] = string(all[i/2%len(all)].UID)
	}
	return map[string]string{"kubernetes.io/config.hash": claims[i%3], "kubernetes.io/config.source": "file",
		"kubernetes.io/config.seen": "2026-01-01T00:00:00Z"}
}

// crowd runs 18 pods with annotations, and then 24 pods of others. It returns what all hold by the layouts, and ends
// the pods.
func (w *world) crowd(ctx context.Context, t *testing.T, name string,
	claims func(i int, before []*v1.Pod) map[string]string) string {
	t.Helper()
	var all []*v1.Pod
	for i := range 18 {
		p := cores(fmt.Sprintf("%s-%d", name, i), 2)
		if claims != nil {
			p.Annotations = claims(i, all)
		}
		w.create(ctx, t, p)
		if i%6 == 5 { // some have the UIDs of others to claim
			for k := range 6 {
				run, _ := w.await(ctx, t, fmt.Sprintf("%s-%d", name, i-k), workload.Running)
				all = append(all, run)
			}
		}
	}
	var others []*v1.Pod
	for i := range 24 {
		others = append(others, cores(fmt.Sprintf("%s-other-%d", name, i), 2))
	}
	began := time.Now()
	w.create(ctx, t, others...)
	for _, p := range others {
		run, _ := w.await(ctx, t, p.Name, workload.Running)
		all = append(all, run)
	}
	t.Logf("beside 18 %s pods 24 others run after %s", name, time.Since(began).Round(time.Millisecond))
	reported, cpus := w.reported(ctx, t, all)
	out := fmt.Sprintf("%d pods run, layouts list %d, with %d CPUs", len(all), reported, cpus)
	for _, p := range all {
		w.ends(ctx, t, p.Name)
	}
	return out
}

// reported returns how many of some pods the layouts list, and how many CPUs these hold, once layouts list all of them
// or the context ends. No two pods may have a CPU.
func (w *world) reported(ctx context.Context, t *testing.T, all []*v1.Pod) (pods, cpus int) {
	t.Helper()
	mine := map[string]bool{}
	for _, p := range all {
		mine[string(p.UID)] = true
	}
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, cpus = 0, 0
		list, err := layouts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, l := range list.Items {
			held := map[idset.CPU]string{}
			for _, h := range l.Holdings {
				if !mine[h.UID] {
					continue
				}
				pods++
				for _, c := range h.Containers {
					set, err := idset.Parse[idset.CPU](string(c.CPUs))
					if err != nil {
						return false, err
					}
					for cpu := range set.All() {
						if other := held[cpu]; other != "" {
							t.Errorf("node %s: CPU %d is that of %s and of %s", l.Name, cpu, other, h.Name)
						}
						held[cpu] = h.Name
					}
				}
			}
			cpus += len(held)
		}
		return pods == len(all), nil
	})
	if err != nil {
		t.Errorf("layouts list %d of %d pods: %v", pods, len(all), err)
	}
	return pods, cpus
}
