package agent

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Trimmed pods keep the containers that run, with their IDs.
func TestTrimmedPodsNameTheirRunningContainers(t *testing.T) {
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	p := &v1.Pod{Status: v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{{Name: "ended", ContainerID: "containerd://1"},
			{Name: "sidecar", ContainerID: "containerd://2", State: runs}},
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "containerd://3", State: runs}, {Name: "waits"}},
	}}
	got, err := trimPod(p)
	if err != nil {
		t.Fatal(err)
	}
	s := got.(*v1.Pod).Status
	if len(s.InitContainerStatuses) != 1 || s.InitContainerStatuses[0].ContainerID != "containerd://2" ||
		len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].Name != "app" {
		t.Errorf("status is %+v", s)
	}
}
