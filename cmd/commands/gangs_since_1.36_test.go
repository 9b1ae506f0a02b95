//go:build !upto1.35

package commands

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/live/livetest"
)

// Pods of a gang that Tenon's scheduler refuses belong to it all the same, and are what it waits for.
func TestPodsOfAGangThatCannotBeJudgedAreItsPods(t *testing.T) {
	of := func(name string, change func(*v1.Pod)) *v1.Pod {
		p, group := livetest.Pod("ml", name, ""), "trainer"
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		change(p)
		return p
	}
	good := func(*v1.Pod) {}
	demanding := func(p *v1.Pod) {
		p.Annotations = map[string]string{"tenon.sh/numa-policy": "single-numa-node"}
		p.Spec.Containers[0].Resources.Limits, p.Status.QOSClass = nil, v1.PodQOSBurstable
	}
	huge := func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"memory": resource.MustParse("1Ei")}
	}
	const demand, amount = "demands single-numa-node", "container c: memory"
	for name, c := range map[string]struct {
		pods []any
		want []string
	}{
		"one of three": {[]any{of("t-0", good), of("t-1", demanding), of("t-2", good)},
			[]string{"No node takes t-1 without a change: ", demand, "The 2 pods that wait fit together", "\nPod ml/t-1",
				"Not without a change"}},
		"all": {[]any{of("t-0", demanding), of("t-1", demanding), of("t-2", demanding)},
			[]string{"No node takes t-0, t-1, t-2 without a change: ", demand, "Not without a change"}},
		"an amount": {[]any{of("t-0", huge), of("t-1", good), of("t-2", good)},
			[]string{"No node takes t-0 without a change: ", amount, "\nPod ml/t-1"}},
		"all amounts": {[]any{of("t-0", huge), of("t-1", huge), of("t-2", huge)},
			[]string{"No node takes t-0, t-1, t-2 without a change: ", amount}},
	} {
		t.Run(name, func(t *testing.T) {
			s, run := served(t)
			s.Object("/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/trainer", map[string]any{
				"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
				"metadata": map[string]any{"namespace": "ml", "name": "trainer"},
				"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": 3}}}})
			s.List(livetest.Pods, c.pods...)
			s.List(livetest.PodsOf("ml"), c.pods...)
			for i, p := range c.pods {
				s.Object(fmt.Sprint(livetest.PodsOf("ml"), "/t-", i), p)
			}
			out, errs, code := run("explain", "podgroup/trainer")
			if code != 0 || errs != "" {
				t.Errorf("code %d, %s", code, errs)
			}
			for _, want := range append(c.want, "t-0 ", "t-1 ", "t-2 ") {
				if !strings.Contains(strings.ReplaceAll(out, "\n", " ")+out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, "The group needs") {
				t.Errorf("pods are not counted:\n%s", out)
			}
		})
	}
}
