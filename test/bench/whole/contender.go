package whole

import (
	"encoding/json"
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

// start starts the scheduler, with its files in the directory dir. The scheduler serves CPU profiles and metrics at
// the returned address.
func (c Contender) start(dir string, p *plane, qps int, flags ...string) (*process, string, error) {
	own := map[string]any{}
	maps.Copy(own, c.Profile)
	own["schedulerName"] = "default-scheduler"
	profile, err := json.Marshal(own) // which is YAML
	if err != nil {
		return nil, "", fmt.Errorf("write the configuration of %s: %w", c.Name, err)
	}
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, p.scheduler, qps, qps, profile), 0o600); err != nil {
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
