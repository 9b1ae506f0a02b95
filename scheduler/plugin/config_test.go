package plugin

import (
	"testing"

	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// profilesOf reads profiles as kube-scheduler does, with its defaults.
func profilesOf(t testing.TB, list string) []schedapi.KubeSchedulerProfile {
	t.Helper()
	return profilestest.Profiles(t, list)
}

// logged returns a logger and what it logged.
func logged(t *testing.T, verbosity int) (klog.Logger, func() string) {
	t.Helper()
	return profilestest.Logger(t, verbosity)
}
