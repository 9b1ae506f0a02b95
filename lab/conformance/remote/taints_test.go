package remote

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes are used if each of their taints that keep pods away is tolerated, and an unusable one is named with its taint.
func TestNodesWithTaintsAreUsedIfTheseAreTolerated(t *testing.T) {
	taint := func(key, value string, effect v1.TaintEffect) v1.Taint {
		return v1.Taint{Key: key, Value: value, Effect: effect}
	}
	gpu := taint("nvidia.com/gpu", "present", v1.TaintEffectNoSchedule)
	for _, c := range []struct {
		taints   []v1.Taint
		tolerate string
		want     string // in why the node cannot be used
	}{
		{nil, "", ""},
		{[]v1.Taint{taint("soft", "", v1.TaintEffectPreferNoSchedule)}, "", ""},
		{[]v1.Taint{gpu}, "", "has the taint nvidia.com/gpu=present:NoSchedule"},
		{[]v1.Taint{gpu}, "nvidia.com/gpu", ""},
		{[]v1.Taint{gpu}, "nvidia.com/gpu=present", ""},
		{[]v1.Taint{gpu}, "nvidia.com/gpu=absent", "nvidia.com/gpu"},
		{[]v1.Taint{gpu}, "nvidia.com/gpu=present:NoSchedule", ""},
		{[]v1.Taint{gpu}, "nvidia.com/gpu:NoExecute", "nvidia.com/gpu"},
		{[]v1.Taint{gpu, taint("b", "", v1.TaintEffectNoExecute)}, "nvidia.com/gpu", "has the taint b:NoExecute"},
		{[]v1.Taint{gpu, taint("b", "", v1.TaintEffectNoExecute)}, "nvidia.com/gpu,b", ""},
	} {
		list, err := tolerations(strings.FieldsFunc(c.tolerate, func(r rune) bool { return r == ',' }))
		if err != nil {
			t.Fatal(err)
		}
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: c.taints},
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}}
		if got := unusable(n, list); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("taints %v with %q tolerated: %q, want %q", c.taints, c.tolerate, got, c.want)
		}
	}
}

func TestTaintsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "=x", "a b", "a=b c", "a:", "a:Never", "a=b:NoSchedule:NoExecute", "/a"} {
		if list, err := tolerations([]string{text}); err == nil || !strings.Contains(err.Error(), "KEY[=VALUE][:EFFECT]") {
			t.Errorf("%q is taken for %v (%v)", text, list, err)
		}
	}
}
