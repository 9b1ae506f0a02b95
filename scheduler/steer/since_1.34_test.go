//go:build upto1.36

package steer_test

import resourcev1 "k8s.io/api/resource/v1"

// listOf is not called: before 1.37 no expression takes attributes with several numbers.
func listOf(_, _ int) (a resourcev1.DeviceAttribute) { return a }

const (
	hasLists   = false
	allInLists = false
)
