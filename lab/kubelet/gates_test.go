package kubelet_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// The table of gates agrees with the kubelet's, and omits none that its managers use.
func TestGatesAreTheKubelets(t *testing.T) {
	if of := place.DefaultRelease.String(); version.DefaultKubeBinaryVersion != of {
		t.Errorf("this is release %s, and rules without a release are those of %s", version.DefaultKubeBinaryVersion, of)
	}
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	known := map[string]bool{}
	for _, g := range kubelet.Gates() {
		known[g.Name] = true
		spec, ok := all[featuregate.Feature(g.Name)]
		at, has := g.At(place.DefaultRelease)
		if ok != has || ok && (string(spec.PreRelease) != at.Name || spec.Default != at.Default ||
			spec.LockToDefault != at.Locked) {
			t.Errorf("%s is %+v (%v), the table has %+v (%v)", g.Name, spec, ok, at, has)
		}
	}
	// Gates that the managers use but that change neither what they allocate nor what is read of them.
	for _, name := range []string{
		"WindowsCPUAndMemoryAffinity", // not on Linux
		"ResourceHealthStatus",        // devices in a pod's status
	} {
		known[name] = true
	}
	for _, name := range asked(t) {
		if spec := all[featuregate.Feature(name)]; !known[name] && !spec.LockToDefault {
			t.Errorf("the managers ask for %s (%+v), which the table does not have", name, spec)
		}
	}
}

// asked returns the gates in the sources of the managers, and of the admission of pods and of resizes.
func asked(t *testing.T) (out []string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	gate := regexp.MustCompile(`features\.([A-Z][A-Za-z]+)`)
	seen := map[string]bool{}
	for _, part := range []string{"cpumanager", "memorymanager", "topologymanager", "devicemanager", "resourceupdates"} {
		root := filepath.Join(strings.TrimSpace(string(dir)), "pkg/kubelet/cm", part)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range gate.FindAllStringSubmatch(string(text), -1) {
				if !seen[m[1]] {
					seen[m[1]] = true
					out = append(out, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 5 {
		t.Fatalf("only %v are named", out)
	}
	return out
}
