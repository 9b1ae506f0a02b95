//go:build !upto1.34

package allocate

import (
	"errors"

	"k8s.io/dynamic-resource-allocation/structured"
)

// onNode reports whether an error of the allocator is about one node, where the claims get no devices.
func onNode(err error) bool { return errors.Is(err, structured.ErrFailedAllocationOnNode) }
