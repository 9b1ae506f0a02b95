package plugin

import (
	"testing"

	"k8s.io/klog/v2"
)

func TestHealthOfASchedulerWithoutThePlugin(t *testing.T) {
	s := NewShared(klog.Background(), Options{})
	const want = "no profile enables the plugin: layouts and pods are not followed"
	if err := s.healthy(); err == nil || err.Error() != want {
		t.Errorf("health: %v, want %q", err, want)
	}
	pluginOf(t, s, refuse)
	s.sources.Begin()
	if err := s.healthy(); err != nil {
		t.Error(err)
	}
}
