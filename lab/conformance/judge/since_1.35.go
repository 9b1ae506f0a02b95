//go:build !upto1.34

package judge

import (
	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// untolerated reports whether a pod does not tolerate one of the taints that keep pods away.
func untolerated(taints []v1.Taint, p *v1.Pod) bool {
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, p.Spec.Tolerations, keepsAway, true)
	return found
}
