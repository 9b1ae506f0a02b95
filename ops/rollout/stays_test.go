package rollout

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A plan accepts a pod's claim to be a mirror or to belong to a DaemonSet, and no other claim.
func TestPodsThatCallThemselvesDaemons(t *testing.T) {
	yes := true
	pod := func(annotation, label, kind string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation: "x"},
			Labels: map[string]string{label: "x"}}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "invented", Controller: &yes}}
		}
		return p
	}
	for what, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"an invented DaemonSet":  {pod("a", "b", "DaemonSet"), true},
		"a mirror":               {pod("kubernetes.io/config.mirror", "b", ""), true},
		"a Node":                 {pod("a", "b", "Node"), false},
		"a hash":                 {pod("kubernetes.io/config.hash", "b", ""), false},
		"a source":               {pod("kubernetes.io/config.source", "b", ""), false},
		"a label of the command": {pod("a", "tenon.sh/kubelet-change", ""), false},
	} {
		if got := stays(c.pod); got != c.want {
			t.Errorf("a pod that claims %s stays: %v, want %v", what, got, c.want)
		}
	}
}
