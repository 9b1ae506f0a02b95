//go:build !upto1.36

package kubelet

import podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

// wholeOf returns what a pod holds as a whole, beside its containers.
func wholeOf(p *podresources.PodResources) *podresources.ContainerResources {
	return &podresources.ContainerResources{CpuIds: p.GetCpuIds(), Memory: p.GetMemory()}
}
