package rounds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/test/bench/programs"
)

// Contender is a scheduler in a separate program.
type Contender struct {
	Name string
	// Command is the program and its first arguments; its configuration follows them.
	Command []string
	// Profile is the only profile of its configuration, as kube-scheduler reads it. Its schedulerName is not used: the
	// configuration has "default-scheduler".
	Profile map[string]any
}

// Names of the contenders, in the order in which they take turns.
const (
	Plain     = "kube-scheduler " + programs.Minor
	Tenon     = "Tenon"
	PeerPlain = "kube-scheduler " + programs.PeerMinor
	Peer      = "NodeResourceTopologyMatch"
)

// peerProfile enables the peer's plugin with its cache of reserved resources. The cache's period, in seconds, is the
// one that the plugin's authors recommend.
const peerProfile = `
plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
pluginConfig:
- name: NodeResourceTopologyMatch
  args:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: NodeResourceTopologyMatchArgs
    scoringStrategy: {type: LeastAllocated}
    cacheResyncPeriodSeconds: 5
`

// Contenders builds the programs of all contenders in dir. Tenon has the profile that is deployed.
func Contenders(ctx context.Context, dir string) ([]Contender, error) {
	contender, err := programs.Contender(ctx, dir)
	if err != nil {
		return nil, err
	}
	peer, err := programs.Peer(ctx, dir)
	if err != nil {
		return nil, err
	}
	deployed, err := Deployed(ctx)
	if err != nil {
		return nil, err
	}
	match, err := PeerProfile()
	if err != nil {
		return nil, err
	}
	return []Contender{
		{Name: Plain, Command: []string{contender, "-plain"}, Profile: map[string]any{}},
		{Name: Tenon, Command: []string{contender}, Profile: deployed},
		{Name: PeerPlain, Command: []string{peer, "driven"}, Profile: map[string]any{}},
		{Name: Peer, Command: []string{peer, "driven"}, Profile: match},
	}, nil
}

// PeerProfile returns the profile of [Peer].
func PeerProfile() (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal([]byte(peerProfile), &out); err != nil {
		return nil, fmt.Errorf("profile of %s: %w", Peer, err)
	}
	return out, nil
}

// Deployed returns the profile in the checkout's deploy/scheduler.
func Deployed(ctx context.Context) (map[string]any, error) {
	root, err := programs.Checkout(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(root, "deploy", "scheduler", "scheduler.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("profile that is deployed: %w", err)
	}
	var c struct {
		Profiles []map[string]any `json:"profiles"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("profile that is deployed: %s: %w", file, err)
	}
	if len(c.Profiles) != 1 {
		return nil, fmt.Errorf("profile that is deployed: %s has %d profiles, want one", file, len(c.Profiles))
	}
	return c.Profiles[0], nil
}

// configure writes the configuration of a contender for the cluster at url into dir, and returns the file's path.
func (c Contender) configure(dir, url string) (string, error) {
	access := filepath.Join(dir, "kubeconfig")
	profile := map[string]any{}
	for key, value := range c.Profile {
		profile[key] = value
	}
	profile["schedulerName"] = "default-scheduler"
	config := filepath.Join(dir, "scheduler.yaml")
	for file, o := range map[string]any{
		access: map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "it",
			"clusters": []any{map[string]any{"name": "it", "cluster": map[string]any{"server": url}}},
			"contexts": []any{map[string]any{"name": "it", "context": map[string]any{"cluster": "it", "user": "it"}}},
			"users":    []any{map[string]any{"name": "it", "user": map[string]any{}}}},
		config: map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
			"clientConnection": map[string]any{"kubeconfig": access, "qps": 1000, "burst": 1000},
			"leaderElection":   map[string]any{"leaderElect": false}, "profiles": []any{profile}},
	} {
		data, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("configure %s: %w", c.Name, err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return "", fmt.Errorf("configure %s: %w", c.Name, err)
		}
	}
	return config, nil
}
