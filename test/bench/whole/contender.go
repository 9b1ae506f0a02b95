package whole

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/tenon-numa/tenon/lab/program"
)

// Contender is a scheduler.
type Contender struct {
	Name string
	// Program is kube-scheduler, or a program that accepts kube-scheduler's flags and configuration after Args. Env is
	// added to its environment.
	Program   string
	Args, Env []string
	// Profile is the only profile of its configuration, empty for kube-scheduler's own. Its schedulerName is not used:
	// the configuration has "default-scheduler".
	Profile map[string]any
	// Topologies means that it reads NodeResourceTopology, so nodes publish these beside their layouts.
	Topologies bool
	// Shards, if not 0, is how many schedulers it is, 2 or 4: each has its share of the nodes and of the pods. The profile
	// then has arguments of Tenon.
	Shards int
}

// configuration is the configuration of every contender except for its profile. The limit of requests is the same as
// in kube-scheduler's own performance tests (test/integration/scheduler_perf): the default of 50 per second would
// dominate the results.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %d, burst: %d}
leaderElection: {leaderElect: false}
profiles: [%s]
`

// QPS is the default limit of requests per second of every contender, and its burst; see Options.QPS.
const QPS = 5000

// start starts the schedulers, with their files in the directory dir. The first one serves CPU profiles and metrics at
// the returned address.
func (c Contender) start(dir string, p *plane, qps int, flags ...string) (f fleet, address string, err error) {
	profile := map[string]any{}
	maps.Copy(profile, c.Profile)
	profile["schedulerName"] = "default-scheduler"
	for i := range max(1, c.Shards) {
		if c.Shards > 0 {
			if profile, err = c.shard(i); err != nil {
				return f, address, err
			}
		}
		one, at, err := c.startOne(dir, fmt.Sprint("scheduler-", i), p, qps, profile, flags)
		if err != nil {
			return f, address, errors.Join(err, f.stop())
		}
		if f = append(f, one); i == 0 {
			address = at
		}
	}
	return f, address, nil
}

// startOne starts one scheduler, whose configuration is a file of the given name.
func (c Contender) startOne(dir, name string, p *plane, qps int, profile map[string]any,
	flags []string) (*process, string, error) {
	text, err := json.Marshal(profile) // which is YAML
	if err != nil {
		return nil, "", fmt.Errorf("write the configuration of %s: %w", c.Name, err)
	}
	file := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, p.scheduler, qps, qps, text), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the configuration of %s: %w", c.Name, err)
	}
	port, err := program.FreePort()
	if err != nil {
		return nil, "", fmt.Errorf("find a port for %s: %w", c.Name, err)
	}
	cmd := exec.Command(c.Program, append(slices.Concat(c.Args, flags), "--config", file, "--bind-address="+program.Host,
		fmt.Sprintf("--secure-port=%d", port), "--authentication-kubeconfig", p.kubeconfig, "--authorization-kubeconfig",
		p.kubeconfig)...)
	cmd.Env = append(os.Environ(), c.Env...)
	s, err := startProcess(c.Name, cmd, nil, filepath.Join(dir, schedulerLog))
	return s, fmt.Sprintf("https://%s:%d", program.Host, port), err
}

// schedulerLog is the name of a scheduler's log, in the folder of a round.
const schedulerLog = "scheduler.log"
