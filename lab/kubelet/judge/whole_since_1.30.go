//go:build !since1.36

package main

import v1 "k8s.io/api/core/v1"

// Before 1.36, the kubelet gives CPUs and memory only to containers, and never to a pod as a whole.

func (m *managers) heldByPod(string) (held, bool) { return held{}, false }

func (m *managers) giveDevices(*v1.Pod) error { return nil }
