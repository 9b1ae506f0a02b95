//go:build upto1.35

package claims

import resourcev1 "k8s.io/api/resource/v1"

// listed returns nil. Before 1.36 no attribute is a list.
func listed(_ resourcev1.DeviceAttribute) []int64 { return nil }
