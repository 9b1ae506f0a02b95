// Package deploy holds the manifests that give Tenon's programs their rights in a cluster, so that a program can
// grant the same rights as an installation by hand.
//
// Invariant: the rights are the ones that kubectl apply -k installs; for agents that pin and for Volcano, they are
// the ones that the chart installs. The package omits the DaemonSet and the Deployment, because the lab's nodes do
// not run containers.
package deploy

import _ "embed"

// The service accounts of Tenon's programs, and their namespaces.
const (
	AgentNamespace = "tenon-agents"
	Agent          = "tenon-agent"
	Namespace      = "tenon-system"
	Scheduler      = "tenon-scheduler"
	// Volcano is Volcano's scheduler with the plugin tenon, in the same namespace.
	Volcano = "tenon-volcano-scheduler"
)

var (
	//go:embed namespace/namespace.yaml
	namespace string
	//go:embed policy/policy.yaml
	policy string
	//go:embed agent/access.yaml
	agent string
	//go:embed agent/network.yaml
	agentNetwork string
	//go:embed agent/pods.yaml
	agentPods string
	//go:embed pin/access.yaml
	pin string
	//go:embed pin/affinity.yaml
	affinity string
	//go:embed scheduler/access.yaml
	scheduler string
	//go:embed scheduler/network.yaml
	schedulerNetwork string
	//go:embed people/roles.yaml
	people string
	//go:embed volcano/access.yaml
	volcano string
)

// Access returns YAML documents in an order in which they can be created: namespaces, service accounts with their
// roles, NetworkPolicies, the ValidatingAdmissionPolicy that lets an agent write only the objects of its own node, and
// the roles for people, without bindings.
func Access() [][]byte {
	return [][]byte{[]byte(namespace), []byte(policy), []byte(agent), []byte(agentNetwork), []byte(agentPods),
		[]byte(scheduler), []byte(schedulerNetwork), []byte(people)}
}

// PinAccess returns what agents need beyond [Access] where they pin containers, as YAML documents.
func PinAccess() [][]byte { return [][]byte{[]byte(pin)} }

// AffinityAccess returns what agents need beyond [PinAccess] where they measure the traffic between pods, as YAML
// documents.
func AffinityAccess() [][]byte { return [][]byte{[]byte(affinity)} }

// VolcanoAccess returns what Volcano's scheduler with the plugin tenon needs beyond [Access], as YAML documents.
func VolcanoAccess() [][]byte { return [][]byte{[]byte(volcano)} }
