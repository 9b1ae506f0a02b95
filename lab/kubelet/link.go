package kubelet

import (
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// The exported constructor of the device manager serves the one fixed path of a host,
// /var/lib/kubelet/device-plugins; a kubelet in a directory of its own needs the socket as a parameter.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(logger klog.Logger, socket string, topology []cadvisorapi.Node, store topologymanager.Store) (
	*devicemanager.ManagerImpl, error)
