package plugin

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/summary"
)

// sentence returns the sentence of an attempt that fails, as kube-scheduler's own plugins make it fail.
func (c *contender) sentence(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	_, err := c.choose(t, framework.NewCycleState(), pod)
	var why *framework.FitError
	if !errors.As(err, &why) {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	c.shared.pluginOf(c.f.ProfileName()).setMessage(pod, why).write(why)
	return summary.Cut(why.Diagnosis.PreFilterMsg)
}

// NodeResourcesFit refuses a node before volumes and affinity are looked at, so what the sentence promises there is
// without regard to them. A pod that wants nothing of the kind gets the promise alone.
func TestAPromiseNamesWhatWasNotLookedAt(t *testing.T) {
	y := newYard(t, 3, 95)
	lonely := y.running[0]
	lonely.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shunned"}}}}}}
	c, _, _ := written(t, y)

	shunned := func(p *v1.Pod) { p.Labels = map[string]string{"app": "shunned"} }
	spread := func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname,
			WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}}}
	}
	for name, x := range map[string]struct {
		amounts string
		change  func(*v1.Pod)
		want    string
	}{
		"aligned":    {"cpu=30 memory=1Gi", func(*v1.Pod) {}, ""},
		"shunned":    {"cpu=30 memory=1Gi", shunned, "pod affinity"},
		"even":       {"cpu=30 memory=1Gi", spread, "topology spread"},
		"even plain": {"memory=250Gi", spread, "topology spread"},
		"plain":      {"memory=250Gi", func(*v1.Pod) {}, ""},
	} {
		pod := podOf(strings.ReplaceAll(name, " ", "-"), x.amounts)
		x.change(pod)
		got := c.sentence(t, pod)
		if !strings.HasPrefix(got, "Not now: ") {
			t.Fatalf("%s: %q", name, got)
		}
		_, without, _ := strings.Cut(got, ", without regard to ")
		if without != x.want {
			t.Errorf("%s: %q, want %q to be named", name, got, x.want)
		}
	}
}
