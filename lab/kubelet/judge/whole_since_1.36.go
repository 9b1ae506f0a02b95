//go:build since1.36

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// heldByPod returns the CPUs and memory that a pod holds as a whole, for all its containers together. ok is false if
// there are none.
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

// giveDevices allocates devices as the kubelet does before containers start. A pod that requests resources as a whole
// may get its devices only then. For every other pod it does nothing, because admission has allocated the devices.
func (m *managers) giveDevices(pod *v1.Pod) (err error) {
	if pod.Spec.Resources == nil {
		return nil
	}
	each(pod, func(c *v1.Container) {
		if err == nil {
			_, err = m.device.GetDeviceRunContainerOptions(context.Background(), pod, c)
		}
	})
	return err
}
