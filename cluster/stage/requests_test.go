package stage

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// Room that requests keep is read from a file, whenever it is read. Without pods in the file it is not known which
// of it has been used up.
func TestAFileHasWhatRequestsKeep(t *testing.T) {
	l := layout(t, "a")
	l.TypeMeta = metav1.TypeMeta{APIVersion: "tenon.sh/v1alpha1", Kind: "NodeLayout"}
	other := running("other", "a", "2", nil)
	other.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	came := running("came", "a", "3", func(p *v1.Pod) {
		p.Annotations = map[string]string{apipod.ConsumeAnnotation: "job", apipod.ClassAnnotation: apipod.Class}
	})
	came.TypeMeta = other.TypeMeta
	kind := metav1.TypeMeta{APIVersion: "autoscaling.x-k8s.io/v1", Kind: "ProvisioningRequest"}
	r := provisioning.Request{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "job"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: 2}}},
		Status: provisioning.Status{ProvisioningClassDetails: map[string]string{}, Conditions: []metav1.Condition{{
			Type: provisioning.Provisioned, Status: metav1.ConditionTrue}}}}
	asks := v1.Pod{Spec: v1.PodSpec{Containers: running("p", "", "3", nil).Spec.Containers}}
	if err := provisioning.SetBooked(r.Status.ProvisioningClassDetails, 0, []string{"a", "a"}, &asks); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		objects []any
		pods    int64
	}{
		"with pods":    {[]any{l, withKind(node("a", nil)), other, r}, 2},
		"one has come": {[]any{l, withKind(node("a", nil)), other, came, r}, 1},
		"without pods": {[]any{l, withKind(node("a", nil)), r}, 0},
	} {
		s, _, err := Export(exported(t, c.objects...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.Nodes()[0].Kept["ml/job"]["pods"]; got != c.pods {
			t.Errorf("%s: room is kept for %d pods, want %d", name, got, c.pods)
		}
	}
}
