package whole

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Contender is a scheduler.
type Contender struct {
	Name string
	// Program is kube-scheduler or what takes its flags and configuration, behind Args. Env is added to its
	// environment.
	Program   string
	Args, Env []string
	// Profile is the only one of its configuration, empty for that of kube-scheduler. Its name is the default one.
	Profile map[string]any
	// Topologies: it reads NodeResourceTopology, so nodes publish that beside their layouts.
	Topologies bool
}

// configuration is that of every contender but for its profiles. The limit of requests is the one that
// kube-scheduler's own performance tests have (test/integration/scheduler_perf): the default of 50 per second
// would be all that is measured.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %d, burst: %d}
leaderElection: {leaderElect: false}
profiles: [%s]
`

// QPS is the limit of requests per second of every contender; at once it may make as many.
const QPS = 5000

// start starts the scheduler, with its files in a directory. It serves profiles and metrics at the returned address.
func (c Contender) start(dir string, p *plane, qps int) (*process, string, error) {
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
	port, err := freePort()
	if err != nil {
		return nil, "", fmt.Errorf("find a port for %s: %w", c.Name, err)
	}
	cmd := exec.Command(c.Program, append(slices.Clone(c.Args), "--config", file, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--authentication-kubeconfig", p.kubeconfig, "--authorization-kubeconfig",
		p.kubeconfig)...)
	cmd.Env = append(os.Environ(), c.Env...)
	s, err := startProcess(c.Name, cmd, nil, filepath.Join(dir, "scheduler.log"))
	return s, fmt.Sprintf("https://127.0.0.1:%d", port), err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
