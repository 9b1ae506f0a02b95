//go:build upto1.35

package steer_test

import resourcev1 "k8s.io/api/resource/v1"

// listOf is not called: before 1.36 no attribute has several numbers.
func listOf(_, _ int) (a resourcev1.DeviceAttribute) { return a }

const hasLists = false
