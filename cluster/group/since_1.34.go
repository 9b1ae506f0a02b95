//go:build upto1.35

package group

import v1 "k8s.io/api/core/v1"

// Of returns "". Before 1.36, pods do not name a PodGroup in this field.
func Of(*v1.PodSpec) string { return "" }

// Keep does nothing.
func Keep(_, _ *v1.PodSpec) {}
