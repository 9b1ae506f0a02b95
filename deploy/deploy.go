// Package deploy holds the manifests that give Tenon's programs their rights in a cluster, so that a
// program can install exactly what a user would.
//
// Invariant: what it embeds is what kubectl apply -k installs. It refuses to hold anything that runs: the
// DaemonSet and the Deployment are for clusters with nodes that run containers.
package deploy

import _ "embed"

// Who runs Tenon's programs: service accounts of one namespace.
const (
	Namespace = "tenon-system"
	Agent     = "tenon-agent"
	Scheduler = "tenon-scheduler"
)

var (
	//go:embed namespace/namespace.yaml
	namespace string
	//go:embed policy/policy.yaml
	policy string
	//go:embed agent/access.yaml
	agent string
	//go:embed scheduler/access.yaml
	scheduler string
)

// Access returns the namespace, the service accounts with their roles, and the policy that keeps an agent
// to its own node, as YAML documents in an order in which they can be created.
func Access() [][]byte {
	return [][]byte{[]byte(namespace), []byte(policy), []byte(agent), []byte(scheduler)}
}
