//go:build !upto1.36

package lab

import utilfeature "k8s.io/apiserver/pkg/util/feature"

// HasGangs is true if the release of Kubernetes has the API of gangs that Tenon reads.
const HasGangs = true

// GangAPIs are the APIs that gangs need at the API server; see [Config].
var GangAPIs = []string{"scheduling.k8s.io/v1beta1"}

// EnableGangs sets the feature gates of this process with which kube-scheduler and the API server have gangs. They are
// off by default in 1.37. The caller calls it before a cluster starts.
func EnableGangs() error {
	return utilfeature.DefaultMutableFeatureGate.Set("GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
}

// GangsEnabled reports whether this process has enabled gangs.
func GangsEnabled() bool { return utilfeature.DefaultFeatureGate.Enabled("GenericWorkload") }
