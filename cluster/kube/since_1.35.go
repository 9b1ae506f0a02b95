//go:build !upto1.34

package kube

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// tolerates reports whether one of the tolerations tolerates the taint. The operators Lt and Gt tolerate nothing.
func tolerates(list []v1.Toleration, t *v1.Taint) bool {
	return corev1.TolerationsTolerateTaint(klog.Logger{}, list, t, false)
}
