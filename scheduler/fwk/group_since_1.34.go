//go:build upto1.35

package fwk

import v1 "k8s.io/api/core/v1"

// Grouped returns false. Releases before 1.36 schedule pods as groups only behind an alpha feature gate, which the
// plugin does not support.
func Grouped(_ *v1.Pod) bool { return false }

// OnTrial returns false.
func OnTrial(CycleState) bool { return false }
