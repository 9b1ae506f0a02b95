//go:build since1.36

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// heldByPod says what a pod holds as a whole; ok is false if it holds nothing so.
func (m *managers) heldByPod(pod string) (h held, ok bool) {
	h.Pod = pod
	if cpus, has := m.cpu.State().GetPodCPUSet(pod); has {
		h.CPUs = cpus.String()
	}
	for _, b := range m.memory.State().GetPodMemoryBlocks(pod) {
		h.Memory = append(h.Memory, block{string(b.Type), b.NUMAAffinity, b.Size})
	}
	return h, h.CPUs != "" || len(h.Memory) > 0
}

// deviceOptions does what the kubelet does before a container starts: a container without its devices then gets them.
func (m *managers) deviceOptions(pod *v1.Pod, c *v1.Container) error {
	_, err := m.device.GetDeviceRunContainerOptions(context.Background(), pod, c)
	return err
}
