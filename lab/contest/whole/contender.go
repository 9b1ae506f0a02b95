package whole

import (
	"fmt"
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
	// Profiles are those of its configuration, a YAML list.
	Profiles string
}

// Plain is kube-scheduler as it is.
const Plain = `- schedulerName: default-scheduler
`

// Tenon is Tenon as deploy/scheduler has it, as the only scheduler.
const Tenon = `- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
  pluginConfig:
  - name: Tenon
    args: {apiVersion: tenon.sh/v1alpha1, kind: TenonArgs, unknownNodes: Allow, turnTimeoutSeconds: 30}
`

// Match is, on its own minor version of Kubernetes, the plugin NodeResourceTopologyMatch of scheduler-plugins with its reserving cache.
const Match = `- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourceTopologyMatchArgs
      scoringStrategy: {type: LeastAllocated}
      cacheResyncPeriodSeconds: 5
`

// configuration is that of every contender but for its profiles. The limit of requests is the one that
// kube-scheduler's own performance tests have (test/integration/scheduler_perf): the default of 50 per second
// would be all that is measured.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %d, burst: %d}
leaderElection: {leaderElect: false}
profiles:
%s`

// QPS is the limit of requests per second of every contender; at once it may make as many.
const QPS = 5000

// start starts the scheduler, with its files in a directory. It serves profiles and metrics at the returned address.
func (c Contender) start(dir string, p *plane, qps int) (*process, string, error) {
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, p.scheduler, qps, qps, c.Profiles), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the configuration of %s: %w", c.Name, err)
	}
	port, err := freePort()
	if err != nil {
		return nil, "", fmt.Errorf("find a port for %s: %w", c.Name, err)
	}
	cmd := exec.Command(c.Program, append(slices.Clone(c.Args), "--config", file, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--authentication-kubeconfig", p.kubeconfig, "--authorization-kubeconfig", p.kubeconfig)...)
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
