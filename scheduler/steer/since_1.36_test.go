//go:build !upto1.35

package steer_test

import resourcev1 "k8s.io/api/resource/v1"

// listOf is an attribute with several numbers.
func listOf(a, b int) resourcev1.DeviceAttribute {
	return resourcev1.DeviceAttribute{IntValues: []int64{int64(a), int64(b)}}
}

const hasLists = true
