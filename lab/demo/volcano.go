package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// gang is a job of Volcano whose tasks are equal and start together.
type gang struct {
	name        string
	tasks, cpus int64
	memory      string
	gpus        int64 // of each task
}

// gangs returns jobs that are created at once. They request all GPUs of the cluster and three quarters of its CPUs,
// and all fit if every task gets the right place. The seed determines the order of arrival.
func gangs(seed uint64) (out []gang) {
	add := func(count int, name string, tasks, cpus int64, memory string, gpus int64) {
		for i := range count {
			out = append(out, gang{fmt.Sprintf("%s-%d", name, i+1), tasks, cpus, memory, gpus})
		}
	}
	add(1, "train-2x4", 2, 20, "48Gi", 4)
	add(1, "train-2x3", 2, 14, "36Gi", 3)
	add(1, "train-2x2", 2, 8, "24Gi", 2)
	add(1, "infer-4x1", 4, 4, "12Gi", 1)
	add(2, "infer-1x1", 1, 4, "12Gi", 1)
	add(2, "solver-4", 4, 10, "16Gi", 0)
	add(2, "render-2", 2, 8, "16Gi", 0)
	add(2, "prepare-2", 2, 4, "8Gi", 0)
	r := rand.New(rand.NewPCG(seed, 3))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// manifest returns the job as a user writes it. If a task fails, Volcano starts all tasks again, at most three times.
func (g gang) manifest() *unstructured.Unstructured {
	limits := map[string]any{"cpu": fmt.Sprint(g.cpus), "memory": g.memory}
	if g.gpus > 0 {
		limits[gpu] = fmt.Sprint(g.gpus)
	}
	container := map[string]any{"name": "main", "image": "lab.invalid/main:1",
		"resources": map[string]any{"limits": limits}}
	pod := map[string]any{"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(0),
		"containers": []any{container}}
	task := map[string]any{"name": "worker", "replicas": g.tasks, "topologyPolicy": "single-numa-node",
		"template": map[string]any{"spec": pod}}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
		"metadata": map[string]any{"name": g.name, "namespace": metav1.NamespaceDefault},
		"spec": map[string]any{"schedulerName": "volcano", "minAvailable": g.tasks, "maxRetry": int64(3),
			"policies": []any{map[string]any{"event": "PodFailed", "action": "RestartJob"}}, "tasks": []any{task}}}}
}

// onVolcano plays the act about Volcano, on a cluster of its own.
func (o Options) onVolcano(ctx context.Context) (out *document.DemoVolcano, err error) {
	definitions, err := o.Volcano.Definitions()
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, o, lab.Config{CRDs: definitions, Numatopology: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	collector, err := controllers.Start(d.cluster.Dir, d.cluster.KubeconfigPath)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, collector.Stop()) }()
	v, err := volcano.Start(ctx, volcano.Options{Programs: o.Volcano, Kubeconfig: d.cluster.KubeconfigPath,
		Dir: d.cluster.Dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Stop()) }()
	d.Progress("Volcano's controllers and webhooks run")
	out = &document.DemoVolcano{Nodes: len(d.cluster.Nodes)}
	for seed := o.Seed; seed < o.Seed+uint64(o.Seeds); seed++ {
		for _, plugin := range []string{volcano.NumaAware, volcano.Tenon} {
			r, err := d.gangRound(ctx, v.Options, plugin, seed)
			if err != nil {
				return nil, fmt.Errorf("gangs under Volcano with %s, seed %d: %w", plugin, seed, err)
			}
			d.Progress(fmt.Sprintf("seed %d, %s: %d of %d gangs run as a whole, %d refusals", seed, plugin, r.Whole, r.Gangs,
				r.Refusals()))
			out.Rounds = append(out.Rounds, r)
		}
	}
	return out, nil
}

// gangRound lets Volcano schedule the gangs of one seed with one plugin, returns what has become of them, and removes
// them.
func (d *demo) gangRound(ctx context.Context, o volcano.Options, plugin string, seed uint64) (r document.DemoGangs,
	err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, actTimeout, fmt.Errorf("not settled after %s", actTimeout))
	defer cancel()
	r = document.DemoGangs{Seed: seed, Plugin: plugin, Refused: map[string]int{}}
	scheduler, err := volcano.Schedule(ctx, o, plugin)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, scheduler.Stop()) }()
	seen, err := volcano.Observe(ctx, o)
	if err != nil {
		return r, err
	}
	jobs, err := dynamic.NewForConfig(d.cluster.RESTConfig())
	if err != nil {
		return r, fmt.Errorf("make client for jobs: %w", err)
	}
	all, names := gangs(seed), []string(nil)
	for _, g := range all {
		_, err := jobs.Resource(volcano.Jobs).Namespace(metav1.NamespaceDefault).Create(ctx, g.manifest(),
			metav1.CreateOptions{})
		if err != nil {
			return r, fmt.Errorf("create job %s: %w", g.name, err)
		}
		names = append(names, g.name)
	}
	state, err := seen.Settle(ctx)
	if err != nil {
		return r, err
	}
	if err := d.countGangs(ctx, &r, all, state); err != nil {
		return r, err
	}
	for _, x := range seen.Refused() {
		r.Refused[x.Reason]++
	}
	if plugin == volcano.Tenon {
		if err := predictions(ctx, scheduler, &r); err != nil {
			return r, err
		}
	}
	if err := seen.Remove(ctx, names...); err != nil {
		return r, err
	}
	return r, d.clearPods(ctx)
}

// countGangs counts, at the end of a round, the gangs and their tasks by state, and the GPUs that do no work although
// gangs request them. A GPU works only if a gang that runs as a whole holds it.
func (d *demo) countGangs(ctx context.Context, r *document.DemoGangs, all []gang, s volcano.State) error {
	r.Gangs, r.Whole, r.Waiting, r.Partial, r.GaveUp = len(all), len(s.Whole), len(s.Waiting), len(s.Partial),
		len(s.Failed)
	var wanted, working int64
	for _, g := range all {
		r.Tasks += int(g.tasks)
		if slices.Contains(s.Whole, g.name) {
			r.TasksOfWhole += int(g.tasks)
			working += g.tasks * g.gpus
		} else {
			wanted += g.tasks * g.gpus
		}
	}
	nodes, err := d.awaitReports(ctx)
	if err != nil {
		return err
	}
	var total int64
	for _, n := range nodes {
		if x, ok := n.Machine.Resource(gpu); ok {
			total += int64(len(x.Devices))
		}
	}
	r.StrandedGPUs = min(total-working, wanted)
	return nil
}

// predictions reads how many of the scheduler's predictions were confirmed, and how many were wrong.
func predictions(ctx context.Context, s *volcano.Scheduler, r *document.DemoGangs) error {
	for result, into := range map[string]*int{"confirmed": &r.Confirmed, "wrong": &r.Wrong} {
		n, err := s.Counter(ctx, "tenon_predictions_total", "result", result)
		if err != nil {
			return err
		}
		*into = int(n)
	}
	return nil
}
