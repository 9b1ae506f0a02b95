//go:build !upto1.35

package fwk

import v1 "k8s.io/api/core/v1"

// Grouped reports whether kube-scheduler schedules the pod together with the other pods of a group.
func Grouped(pod *v1.Pod) bool { return pod.Spec.SchedulingGroup != nil }

// OnTrial reports whether a cycle belongs to a group cycle, which reserves pods only to see whether all of them fit.
func OnTrial(cs CycleState) bool { return cs.IsPodGroupSchedulingCycle() }
