package pod_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/pod"
)

func TestAllAnnotationsOfTheReferenceAreKnown(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/pod-annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`tenon\.sh/[a-z-]+`).FindAllString(string(text), -1) {
		if !slices.Contains(pod.Annotations(), name) {
			t.Errorf("%s is not known", name)
		}
	}
}

func TestNamesThatNothingReadsAreNamed(t *testing.T) {
	schedulers := []string{"default-scheduler", "tenon-scheduler"}
	for _, c := range []struct{ annotation, label, scheduler, want string }{
		{"tenon.sh/numa-polcy", "", "",
			"nothing reads the annotation tenon.sh/numa-polcy; tenon.sh/numa-policy may be meant"},
		{"tenon.sh/unheard-of-name", "", "", "nothing reads the annotation tenon.sh/unheard-of-name"},
		{"", "tenon.sh/numa-policy", "", "nothing reads the label tenon.sh/numa-policy: it has to be an annotation"},
		{"", "tenon.sh/x", "", "nothing reads the label tenon.sh/x"},
		{"", "", "tenon-schedular", `no scheduler named "tenon-schedular" is known; tenon-scheduler may be meant`},
		{"tenon.sh/numa-policy", "app", "tenon-scheduler", ""}, {"other.sh/numa-polcy", "", "batch", ""}, {},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: map[string]string{}},
			Spec: v1.PodSpec{SchedulerName: c.scheduler}}
		if c.annotation != "" {
			p.Annotations[c.annotation] = "x"
		}
		if c.label != "" {
			p.Labels[c.label] = "x"
		}
		if got := strings.Join(pod.Misspelt(p, schedulers), "\n"); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
