package sched

import (
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// profilesOf reads profiles as kube-scheduler does, with its defaults.
func profilesOf(t testing.TB, list string) []schedapi.KubeSchedulerProfile {
	t.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" + list
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*schedapi.KubeSchedulerConfiguration).Profiles
}

// logged returns a logger and what it logged.
func logged(t *testing.T, verbosity int) (klog.Logger, func() string) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
	return logger, func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
}
