package arbiter_test

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/nri/nritest"
)

const gpu = "acme.com/gpu"

// train binds a pod that requests a GPU. The scheduler leaves its CPUs to the agent.
func (n *node) train(name string) nritest.Pod {
	n.t.Helper()
	p := n.bind(name, "2", "", false)
	n.mu.Lock()
	defer n.mu.Unlock()
	last := n.watched[len(n.watched)-1]
	for _, amounts := range []v1.ResourceList{last.Spec.Containers[0].Resources.Requests,
		last.Spec.Containers[0].Resources.Limits} {
		amounts[gpu] = resource.MustParse("1")
	}
	return p
}

// The agent places a pod after the kubelet has given it devices. It takes CPUs beside the container's GPU, which it
// reads from the kubelet's checkpoint or from its service. While neither can be read, the container shares CPUs.
func TestPodsWaitForTheirDevices(t *testing.T) {
	n := newNode(t)
	n.devices = []kubelet.Device{{Resource: gpu, ID: "a", NUMAs: idset.Of[idset.NUMA](1)},
		{Resource: gpu, ID: "b", NUMAs: idset.Of[idset.NUMA](1)}}
	n.start()
	n.want("")
	n.service.SetPods(&podresources.PodResources{Namespace: "ns", Name: "listed",
		Containers: []*podresources.ContainerResources{{Name: "c",
			Devices: []*podresources.ContainerDevices{{ResourceName: gpu, DeviceIds: []string{"a"}}}}}})
	n.create(n.train("listed"))
	n.event("listed PlacedByAgent")
	n.want("listed=8-9")

	n.unserve()
	n.create(n.train("later"))
	n.want("listed=8-9")
	if got := n.runtime.Pinned("uid-later", "c"); got != "0-7,10-15 on 0-1" {
		t.Errorf("while its device is not known, the container is pinned to %s", got)
	}
	n.checkpoint(`{"Data": {"PodDeviceEntries": [{"PodUID": "uid-later", "ContainerName": "c", "ResourceName": "` + gpu +
		`", "DeviceIDs": {"1": ["b"]}}]}}`)
	n.want("later=10-11 listed=8-9")
	n.event("later PlacedByAgent")
}

// checkpoint writes the kubelet's checkpoint of devices.
func (n *node) checkpoint(text string) {
	n.t.Helper()
	file := filepath.Join(n.dir, kubelet.DeviceStateFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}
