package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// This file has the schedulers that are programs of other modules.

// volcanic returns Volcano's scheduler with a plugin for NUMA nodes. Volcano's controllers and webhooks run beside it:
// the controllers make the PodGroup of each pod.
func volcanic(ctx context.Context, name, plugin string, from Sources) (Scheduler, error) {
	programs, err := volcano.Find(ctx, from.Volcano, from.Progress)
	if err != nil {
		return Scheduler{}, err
	}
	definitions, err := programs.Definitions()
	if err != nil {
		return Scheduler{}, err
	}
	start := func(ctx context.Context, c *lab.Cluster) (Running, error) {
		v, err := volcano.Start(ctx, volcano.Options{Programs: programs, Kubeconfig: c.KubeconfigPath, Dir: c.Dir,
			EvictSingle: true})
		if err != nil {
			return nil, err
		}
		if err := v.Schedule(ctx, plugin); err != nil {
			return nil, errors.Join(err, v.Stop())
		}
		return v, nil
	}
	return Scheduler{Name: name, SchedulerName: "volcano", Agents: plugin == volcano.Tenon, CRDs: definitions,
		Numatopology: plugin == volcano.NumaAware, Groups: volcanoGroups{}, Start: start}, nil
}

// matchConfiguration is the configuration of a kube-scheduler with NodeResourceTopologyMatch, and its cache of reserved
// resources, as its authors recommend.
const matchConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 2
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch, weight: 10}]}}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourceTopologyMatchArgs
      cacheResyncPeriodSeconds: 5
      scoringStrategy: {type: LeastNUMANodes}
`

// matching returns kube-scheduler with NodeResourceTopologyMatch. Its cache reads what has changed every five seconds.
func matching(ctx context.Context, from Sources) (Scheduler, error) {
	file, err := buildMatch(ctx, from.Progress)
	if err != nil {
		return Scheduler{}, fmt.Errorf("build %s: %w", Match, err)
	}
	start := func(_ context.Context, c *lab.Cluster) (Running, error) {
		config := filepath.Join(c.Dir, "match.yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, matchConfiguration, c.KubeconfigPath), 0o600); err != nil {
			return nil, fmt.Errorf("configure %s: %w", Match, err)
		}
		cmd := exec.Command(file, "--config", config, "--authentication-kubeconfig", c.KubeconfigPath,
			"--authorization-kubeconfig", c.KubeconfigPath, "--secure-port=0")
		return program.Start(Match, filepath.Join(c.Dir, "scheduler.log"), cmd)
	}
	return Scheduler{Name: Match, Settle: 10 * time.Second, Pause: 6 * time.Second, Start: start}, nil
}

// buildMatch builds kube-scheduler with NodeResourceTopologyMatch into the user's cache, and returns its file.
func buildMatch(ctx context.Context, progress func(string)) (string, error) {
	root, err := releases.Checkout()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "tenon-lab", "match")
	progress("building " + Match + " in " + file + " (the first time some minutes)")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", file, "./match")
	cmd.Dir, cmd.Env = filepath.Join(root, "test", "bench", "peer"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
}
