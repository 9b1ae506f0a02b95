//go:build upto1.35

package kube

import v1 "k8s.io/api/core/v1"

// GroupOf returns "". Before 1.36, pods do not name a PodGroup in this field.
func GroupOf(*v1.PodSpec) string { return "" }

// KeepGroup does nothing.
func KeepGroup(_, _ *v1.PodSpec) {}
