package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The names of the compared schedulers say the release that they are built with.
func TestReleasesAreThoseOfTheModules(t *testing.T) {
	root, err := Checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes v(1\.\d+)\.`)
	for file, want := range map[string]string{"go.mod": Minor, "test/bench/peer/go.mod": PeerMinor} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if m := required.FindSubmatch(text); m == nil || string(m[1]) != want {
			t.Errorf("%s requires Kubernetes %q, and the measurement calls it %s", file, m, want)
		}
	}
}
