//go:build !upto1.34

package judge

import (
	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// Untolerated returns the first taint that keeps pods with some tolerations away. found is false if none does.
func Untolerated(taints []v1.Taint, list []v1.Toleration) (taint v1.Taint, found bool) {
	return corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, list, keepsAway, true)
}
