package kubelet

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
	probes "k8s.io/kubernetes/pkg/kubelet/prober/testing"
)

// finishesAnnotation marks a container that ends with success as soon as it starts. On a pod, it marks all containers
// of the pod.
const finishesAnnotation = "lab.tenon.sh/finishes"

// KilledAnnotation marks a pod whose containers fail when they are stopped, like programs that do not handle SIGTERM.
// Containers of other pods end with success then.
const KilledAnnotation = "lab.tenon.sh/killed"

// exitCodeKilled is the exit code of a process that SIGKILL has ended, as shells and runtimes count.
const exitCodeKilled = 128 + 9

// finishes reports whether a container ends as soon as it starts: an init container that the pod waits for, or any
// container of a pod that is marked.
func finishes(p *v1.Pod, k *v1.Container) bool {
	if p.Annotations[finishesAnnotation] != "" {
		return true
	}
	return slices.ContainsFunc(p.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == k.Name && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
}

// containerRuntime is Kubernetes' fake runtime: containers are entries in a map. Init containers, and containers of
// marked pods, finish at once. All others run until they are stopped.
type containerRuntime struct {
	*cri.FakeRuntimeService
	// file is where containers are recorded for the next kubelet of the node; empty for a runtime that ends with its
	// process.
	file string
	// nri serves NRI plugins; nil if the runtime serves none.
	nri *nriServer
}

func newContainerRuntime(file string) containerRuntime {
	r := cri.NewFakeRuntimeService()
	r.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	return containerRuntime{r, file, nil}
}

func (r containerRuntime) StartContainer(ctx context.Context, id string) error {
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	r.Lock()
	c := r.Containers[id]
	finished := c.Annotations[finishesAnnotation] != ""
	if finished {
		complete(c)
	}
	err := r.save()
	r.Unlock()
	if finished && r.nri != nil {
		err = errors.Join(err, r.nri.containerEnded(ctx, id))
	}
	return err
}

// complete ends a container with success.
func complete(c *cri.FakeContainer) {
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = time.Now().UnixNano()
	c.Reason = "Completed"
}

// ListPodSandbox is called by every relist of the kubelet, so it also truncates the fake's log of calls, which would
// grow forever.
func (r containerRuntime) ListPodSandbox(ctx context.Context,
	f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.Lock()
	r.Called = nil
	r.Unlock()
	return r.FakeRuntimeService.ListPodSandbox(ctx, f)
}

// prober takes the place of probes. Nothing listens in containers that do not run, so a started container counts as
// healthy.
type prober struct{ probes.FakeManager }

// setProbeResults sets what probes would: containers that run, or have finished, are ready.
func setProbeResults(s *v1.PodStatus) {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			running := list[i].State.Running != nil
			finished := list[i].State.Terminated != nil && list[i].State.Terminated.ExitCode == 0
			list[i].Started = &running
			list[i].Ready = running || finished
		}
	}
}
