package trial_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	stormSeed   = flag.Uint64("storm.seed", 1, "seed of the pods of the storm")
	stormRounds = flag.Int("storm.rounds", 2, "rounds of the storm")
	stormPods   = flag.Int("storm.pods", 4, "pods of a round for each node")
)

// storm creates pods of random shapes at once, some of them with an end, deletes some, and creates more. No kubelet may
// refuse one, and no prediction may be wrong.
func storm(ctx context.Context, t *testing.T, w *world) {
	r := rand.New(rand.NewPCG(*stormSeed, 3))
	if err := w.pods.Clear(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	for round := range *stormRounds {
		for i := range *stormPods {
			for _, node := range w.names {
				w.create(ctx, t, randomPod(r, node, fmt.Sprintf("r%d-%s-%d", round, node, i)))
			}
		}
		pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
			return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { f, _ := fateOf(p); return f == workload.Waiting })
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for _, p := range pods {
			switch f, why := fateOf(p); {
			case f == workload.Refused:
				t.Errorf("pod %s was refused by node %s: %s: %s", p.Name, p.Spec.NodeName, why, p.Status.Message)
			case p.Status.Phase == v1.PodSucceeded:
				ended++
			case f == workload.Pending:
				t.Logf("pod %s: %s", p.Name, why)
			}
		}
		t.Logf("seed %d, round %d: %s, %d of them ended", *stormSeed, round, workload.Count(pods), ended)
		for _, node := range w.names {
			w.compare(ctx, t, node)
			if node == pins {
				w.decided(ctx, t, withDecision(pods)...)
			}
			t.Logf("\n%s", w.picture(ctx, t, node))
		}
		for _, p := range pods {
			if f, _ := fateOf(p); f != workload.Running || p.Status.Phase == v1.PodSucceeded || r.IntN(2) == 0 {
				w.remove(ctx, t, p.Name)
			}
		}
	}
}

// withDecision returns the pods that run as a scheduler has decided, without those that end by themselves, which may
// happen at any time.
func withDecision(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		if p.Annotations[v1alpha1.DecisionAnnotation] != "" && p.Status.Phase == v1.PodRunning &&
			!slices.Contains(p.Spec.Containers[0].Args, "end") {
			out = append(out, p.Name)
		}
	}
	return out
}

// fateOf counts a pod that ended with success as running.
func fateOf(p *v1.Pod) (workload.Fate, string) {
	if p.Status.Phase == v1.PodSucceeded {
		return workload.Running, ""
	}
	return workload.FateOf(p)
}

func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// randomPod returns a pod of one or two containers, perhaps with an init container or a sidecar.
func randomPod(r *rand.Rand, node, name string) *v1.Pod {
	containers := []v1.Container{randomContainer(r, node, "a")}
	if r.IntN(3) == 0 {
		containers = append(containers, randomContainer(r, node, "b"))
	}
	p := on(node, tenon, name, containers...)
	if r.IntN(4) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, first(pick(r, "300m", "2"), "32Mi"))
	}
	if r.IntN(4) == 0 {
		side := guaranteed("side", pick(r, "100m", "2"), "32Mi")
		side.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		side.Image, side.ImagePullPolicy = p.Spec.Containers[0].Image, v1.PullNever
		p.Spec.InitContainers = append(p.Spec.InitContainers, side)
	}
	if r.IntN(4) == 0 {
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Args = []string{"8", "end"}
		}
	}
	p.Spec.TerminationGracePeriodSeconds = ptr.To(r.Int64N(2))
	return p
}

func randomContainer(r *rand.Rand, node, name string) v1.Container {
	a := workload.Amounts{"cpu": pick(r, "300m", "2", "2", "4"), "memory": strconv.Itoa(32*(1+r.IntN(6))) + "Mi"}
	if node != "four" && r.IntN(3) == 0 {
		a["hugepages-2Mi"] = pick(r, "16Mi", "32Mi")
	}
	if node != "four" && r.IntN(3) == 0 {
		a["example.com/vf"] = "1"
	}
	if _, pages := a["hugepages-2Mi"]; !pages && r.IntN(5) == 0 {
		return workload.Burstable(name, workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)
	}
	return workload.Guaranteed(name, a)
}
