package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/rights"
)

// AgentConfig returns a client configuration with the rights of a node's agent. Its token is of the service account
// of deploy/agent and, like the token of a pod, bound to the Node. The Node must be registered. The token is valid
// for a day, and becomes invalid when the Node is deleted.
func (c *Cluster) AgentConfig(ctx context.Context, node string) (*rest.Config, error) {
	return agentConfig(ctx, c.plane.Admin, node)
}

func agentConfig(ctx context.Context, administrator *rest.Config, node string) (*rest.Config, error) {
	return rights.As(ctx, administrator, rights.Account{Namespace: deploy.AgentNamespace,
		Name: deploy.Agent, Node: node})
}

// numatopologies is a manifest with the rights to publish Numatopologies. The chart grants the same rights to agents
// that publish them.
const numatopologies = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lab:agents-publish-numatopologies}
rules:
- {apiGroups: [nodeinfo.volcano.sh], resources: [numatopologies], verbs: [get, list, watch, create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab:agents-publish-numatopologies}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lab:agents-publish-numatopologies}
subjects: [{kind: ServiceAccount, namespace: ` + deploy.AgentNamespace + `, name: ` + deploy.Agent + `}]
`

// manifests returns the manifests that a user applies before Tenon's programs run: the access of deploy, and the
// rights that only some clusters need, because their agents pin containers or publish Numatopologies.
func (cfg Config) manifests() [][]byte {
	out := deploy.Access()
	if slices.ContainsFunc(cfg.Nodes, func(n Node) bool { return n.Pinned }) {
		out = append(out, deploy.PinAccess()...)
	}
	if cfg.Numatopology {
		out = append(out, []byte(numatopologies))
	}
	return out
}

// giveAccess writes a kubeconfig with the rights of the scheduler's service account, and sets SchedulerKubeconfig to
// its path.
func (c *Cluster) giveAccess(ctx context.Context) error {
	access, err := rights.As(ctx, c.plane.Admin, rights.Account{Namespace: deploy.Namespace, Name: deploy.Scheduler})
	if err != nil {
		return err
	}
	c.SchedulerKubeconfig = filepath.Join(c.Dir, "scheduler.kubeconfig")
	return rights.WriteKubeconfig(c.SchedulerKubeconfig, deploy.Scheduler, access)
}

// awaitPolicy waits until the API server enforces the policy for agents. An API server reads new policies every
// second. awaitPolicy repeats a dry run of a request that the policy always refuses: a write under the name of the
// agents' service account, without a token that names a node.
func (c *Cluster) awaitPolicy(ctx context.Context) error {
	forger := rest.CopyConfig(c.plane.Admin)
	forger.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + deploy.AgentNamespace +
		":" + deploy.Agent,
		Groups: []string{"system:authenticated"}}
	topologies, err := nrt.NewClient(forger)
	if err != nil {
		return err
	}
	// This is a patch, because the API server answers a create two seconds late while the definition of the kind is
	// new.
	forged := []byte(
		`{"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "nowhere"}, "zones": []}`)
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := topologies.Patch(ctx, "nowhere", types.ApplyPatchType, forged,
			metav1.PatchOptions{FieldManager: "tenon-lab", DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
	})
	if err != nil {
		return fmt.Errorf("wait until the policy for agents is in force: %w", err)
	}
	return nil
}
