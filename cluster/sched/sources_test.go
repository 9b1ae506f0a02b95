package sched

import (
	"testing"

	"k8s.io/client-go/tools/cache"
)

func TestHealthNamesWhatIsMissing(t *testing.T) {
	logger, _ := logged(t, 0)
	s := newSources(logger, Options{})
	check := func(want string) {
		t.Helper()
		err := s.healthy()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("health: %v, want %q", err, want)
		}
	}
	check("no profile enables the plugin: layouts and pods are not followed")
	pluginOf(t, s.Shared, refuse)
	in := false
	s.synced = map[string]cache.InformerSynced{"pods": func() bool { return in }, "layouts": func() bool { return in }}
	check("first list is not in: layouts, pods")
	in = true
	check("what was read at the start is not in the ledger yet")
	close(s.ready)
	check("")
}
