package pod_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/pod"
)

// related returns a pod with CPUs of its own, and with annotations.
func related(annotations map[string]string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", Annotations: annotations}}
	all := v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: all, Limits: all}}}
	return p
}

// Pods of one namespace with the same name are related, and a name that means nothing keeps the pod from being
// scheduled.
func TestRelations(t *testing.T) {
	d, err := pod.Demand(related(map[string]string{pod.TogetherAnnotation: "llm-1", pod.ApartAnnotation: "ranks"}))
	if err != nil || d.Together != "ml/llm-1" || d.Apart != "ml/ranks" || !d.Binds() {
		t.Errorf("demand %+v, %v", d, err)
	}
	one := related(map[string]string{pod.ApartAnnotation: "ranks"})
	if r := pod.Relations(one); r.Apart != "ml/ranks" || r.Together != "" {
		t.Errorf("relations %+v", r)
	}
	for value, want := range map[string]string{"": "unknown value", "a/b": "unknown value",
		strings.Repeat("a", 64): "63"} {
		p := related(map[string]string{pod.TogetherAnnotation: value})
		if _, err := pod.Demand(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("name %q: %v, want %q", value, err, want)
		}
		if r := pod.Relations(p); r.Relates() {
			t.Errorf("name %q relates the pod: %+v", value, r)
		}
	}
	both := map[string]string{pod.TogetherAnnotation: "a", pod.ApartAnnotation: "a"}
	if _, err := pod.Demand(related(both)); err == nil || !strings.Contains(err.Error(), "both together and apart") {
		t.Errorf("one name for both: %v", err)
	}
	shares := related(map[string]string{pod.ApartAnnotation: "ranks"})
	shares.Spec.Containers[0].Resources.Limits = nil
	if _, err := pod.Demand(shares); err == nil || !strings.Contains(err.Error(), "apart from other pods") {
		t.Errorf("a pod without CPUs of its own: %v", err)
	}
	policy := map[string]string{pod.ApartAnnotation: "ranks", pod.PolicyAnnotation: "none", pod.AlignAnnotation: "cpu"}
	if _, err := pod.Demand(related(policy)); err == nil || !strings.Contains(err.Error(), "demands nothing") {
		t.Errorf("align without a policy that demands: %v", err)
	}
}
