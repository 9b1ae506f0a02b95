//go:build !upto1.36

package steer_test

import resourcev1 "k8s.io/api/resource/v1"

// listOf is an attribute with several numbers.
func listOf(a, b int) resourcev1.DeviceAttribute {
	return resourcev1.DeviceAttribute{IntValues: []int64{int64(a), int64(b)}}
}

const (
	hasLists = true
	// allInLists: a list of alternatives may have a request for all devices. The allocator of earlier releases does not
	// always find the others then.
	allInLists = true
)
