//go:build upto1.36

package fwk

import v1 "k8s.io/api/core/v1"

// Gang is a group of pods that start together.
type Gang struct{}

// GangOf returns nil. Before 1.37, groups of pods are alpha, and the plugin places their pods one by one.
func GangOf(_ Handle, _ CycleState, _ *v1.Pod) *Gang { return nil }

// GroupOf returns nil.
func GroupOf(Handle, *v1.Pod) (group *v1.ObjectReference, others, least int) { return nil, 0, 0 }

// Name is not called.
func (*Gang) Name() string { return "" }

// Enough is not called.
func (*Gang) Enough(func(uid string) bool) error { return nil }

// GiveUp is not called.
func (*Gang) GiveUp(string, error) {}
