// Package profilestest makes inputs for tests of profiles and of the plugin: profiles as kube-scheduler reads them, and
// a logger whose text can be compared.
//
// It is for tests only. Invariant: profiles have kube-scheduler's defaults. A configuration that does not decode ends
// the test.
package profilestest

import (
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// Profiles decodes a YAML list of profiles as kube-scheduler does, with its defaults.
func Profiles(t testing.TB, list string) []schedapi.KubeSchedulerProfile {
	t.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" + list
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*schedapi.KubeSchedulerConfiguration).Profiles
}

// Logger returns a logger of a verbosity, and a function that returns what it has logged so far.
func Logger(t *testing.T, verbosity int) (klog.Logger, func() string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
	return logger, func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
}
