//go:build !upto1.35

package claims

import resourcev1 "k8s.io/api/resource/v1"

// listed returns the numbers of an attribute that is a list, which exists from 1.36 on.
func listed(a resourcev1.DeviceAttribute) []int64 { return a.IntValues }
