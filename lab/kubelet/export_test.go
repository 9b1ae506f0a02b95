package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/plugins"
)

// Announce has the device plugins of a machine say their devices anew: the same as before, but for their
// health.
func (m *Managers) Announce(machine *topo.Machine) {
	for _, r := range machine.Resources() {
		m.Device.PluginListAndWatchReceiver(klog.Background(), r.Name, plugins.List(machine, r))
	}
}

// StartContainers does what a kubelet does with the managers when the containers of an admitted pod
// start, one after the other (cm/internal_container_lifecycle_linux.go, PreStartContainer).
func (m *Managers) StartContainers(pod *v1.Pod) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			id := string(pod.UID) + "/" + list[i].Name
			m.CPU.AddContainer(klog.Background(), pod, &list[i], id)
			m.Memory.AddContainer(klog.Background(), pod, &list[i], id)
			m.Topology.AddContainer(pod, &list[i], id)
		}
	}
}
