package version

import (
	"runtime/debug"
	"testing"
)

func TestText(t *testing.T) {
	kubernetes := &debug.Module{Path: "k8s.io/apimachinery", Version: "v0.36.3"}
	for want, info := range map[string]*debug.BuildInfo{
		"unknown version":    nil,
		"(devel) (go1.26.0)": {GoVersion: "go1.26.0"},
		"v1.2.3 (Kubernetes 1.36.3, go1.26.0)": {GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"},
			Deps: []*debug.Module{kubernetes}},
		"v1.2.3 (commit 0123456789ab with changes, go1.26.0)": {GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"},
				{Key: "vcs.modified", Value: "true"}}},
	} {
		if got := text(info, "", ""); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	release := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}}
	want := "v0.2.0 (commit abcdef012345, go1.26.0)"
	if got := text(release, "v0.2.0", "abcdef0123456789"); got != want {
		t.Errorf("a release: %q, want %q", got, want)
	}
}
