package kubelet

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// The kubelet parses its list of CPUs without blanks, and does not start with others.
func TestListsOfCPUsWithBlanksAreRefused(t *testing.T) {
	const text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n" +
		"reservedSystemCPUs: "
	for list, good := range map[string]bool{`"0,4"`: true, `0,4`: true, `"0, 4"`: false, `"0 - 1"`: false, `" 0"`: false} {
		c, err := ParseConfiguration([]byte(text + list))
		if err == nil {
			_, err = c.On(twoNodes(t), place.DefaultRelease)
		}
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "has blanks") {
			t.Errorf("%s: %v, want it read: %t", list, err, good)
		}
	}
}
