//go:build upto1.36

package kubelet

import podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

// wholeOf returns an empty message: before 1.37, podresources reports nothing about pods as a whole.
func wholeOf(*podresources.PodResources) *podresources.ContainerResources {
	return &podresources.ContainerResources{}
}
