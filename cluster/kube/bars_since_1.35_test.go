//go:build !upto1.34

package kube_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube"
)

// Every toleration counts for every taint as in kube-scheduler's plugin, without the feature gate for comparisons.
func TestTolerationsCountAsInKubeScheduler(t *testing.T) {
	texts := []string{"", "a", "b"}
	effects := []v1.TaintEffect{"", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute}
	compared := 0
	for _, operator := range []v1.TolerationOperator{"", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt,
		"Unknown"} {
		for _, key := range texts {
			for _, value := range texts {
				for _, effect := range effects {
					list := []v1.Toleration{{Key: key, Operator: operator, Value: value, Effect: effect}}
					for _, taint := range []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule},
						{Key: "a", Value: "b", Effect: v1.TaintEffectNoExecute}} {
						want := corev1.TolerationsTolerateTaint(klog.Background(), list, &taint, false)
						if got := kube.Tolerated(&v1.Pod{Spec: v1.PodSpec{Tolerations: list}}, taint); got != want {
							t.Errorf("%+v and taint %+v: tolerated %v, want %v", list, taint, got, want)
						}
						compared++
					}
				}
			}
		}
	}
	if compared != 5*3*3*3*2 {
		t.Errorf("%d cases", compared)
	}
}
