//go:build upto1.35

package fwk

import v1 "k8s.io/api/core/v1"

// Grouped reports whether kube-scheduler schedules the pod with others of a group. Releases before 1.36 do so behind an
// alpha gate only, so the answer is always no.
func Grouped(_ *v1.Pod) bool { return false }
