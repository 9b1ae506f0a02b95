//go:build !upto1.34

package dropin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/internal/golden"
)

// The table of all gates is that of the kubelet.
func TestAllGatesAreTheKubelets(t *testing.T) {
	if version.DefaultKubeBinaryVersion != place.DefaultRelease.String() {
		t.Skipf("this is release %s, and the table is that of %s", version.DefaultKubeBinaryVersion, place.DefaultRelease)
	}
	needs := utilfeature.DefaultMutableFeatureGate.Dependencies()
	var lines []string
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage, lock := string(spec.PreRelease), ""
		if stage == "" {
			stage = "STABLE"
		}
		if spec.LockToDefault {
			lock = " locked"
		}
		line := fmt.Sprintf("%s %s %t%s", name, stage, spec.Default, lock)
		for _, other := range slices.Sorted(slices.Values(needs[name])) {
			line += " needs=" + string(other)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	golden.Check(t, "../../node/kubelet/gates.txt", strings.Join(lines, "\n")+"\n")
}
