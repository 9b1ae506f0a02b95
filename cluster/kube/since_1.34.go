//go:build upto1.34

package kube

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
)

// tolerates reports whether one of the tolerations tolerates the taint. This is the function for libraries up to
// 1.34.
func tolerates(list []v1.Toleration, t *v1.Taint) bool {
	return corev1.TolerationsTolerateTaint(list, t)
}
