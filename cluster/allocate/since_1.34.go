//go:build upto1.34

package allocate

// onNode reports whether an error of the allocator is about one node, which exists from 1.35 on.
func onNode(error) bool { return false }
