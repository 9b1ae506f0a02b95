//go:build upto1.36

package fwk

import v1 "k8s.io/api/core/v1"

// Gang returns "". Before 1.37, groups of pods are alpha, and the plugin places their pods one by one.
func Gang(_ Handle, _ CycleState, _ *v1.Pod) (name string, enough func() error) { return "", nil }
