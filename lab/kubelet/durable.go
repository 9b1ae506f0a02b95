package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/util/sets"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
	kubelettypes "k8s.io/kubelet/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

// runtimeFile is where durable containers are recorded, in the kubelet's directory.
const runtimeFile = "runtime.json"

// remembered is the content of runtimeFile.
type remembered struct {
	Sandboxes  map[string]*cri.FakePodSandbox
	Containers map[string]*cri.FakeContainer
}

// openContainerRuntime makes the container runtime of a kubelet. If containers are durable, it begins with the
// containers of the previous process.
func openContainerRuntime(o Options) (containerRuntime, error) {
	if !o.Durable {
		return newContainerRuntime(""), nil
	}
	r := newContainerRuntime(filepath.Join(o.Root, runtimeFile))
	text, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read containers: %w", err)
	}
	var saved remembered
	if err := json.Unmarshal(text, &saved); err != nil {
		return r, fmt.Errorf("read containers of %s: %w", r.file, err)
	}
	for id, s := range saved.Sandboxes {
		r.Sandboxes[id] = s
	}
	for id, c := range saved.Containers {
		r.Containers[id] = c
	}
	return r, nil
}

// save writes the containers to the file, if they are durable. The runtime must be locked.
func (r containerRuntime) save() error {
	if r.file == "" {
		return nil
	}
	text, err := json.Marshal(remembered{r.Sandboxes, r.Containers})
	if err != nil {
		return fmt.Errorf("remember containers: %w", err)
	}
	// A process that is killed leaves either the old file or the new one.
	if err := os.WriteFile(r.file+".new", text, 0o600); err != nil {
		return fmt.Errorf("remember containers: %w", err)
	}
	return os.Rename(r.file+".new", r.file)
}

// saveAfter completes a call of the runtime that returned err. If err is nil, it writes durable containers to the
// file, and returns the error of the write; otherwise it returns err.
func (r containerRuntime) saveAfter(err error) error {
	if err != nil || r.file == "" {
		return err
	}
	r.Lock()
	defer r.Unlock()
	return r.save()
}

func (r containerRuntime) RunPodSandbox(ctx context.Context, c *runtimeapi.PodSandboxConfig,
	handler string) (string, error) {
	id, err := r.FakeRuntimeService.RunPodSandbox(ctx, c, handler)
	return id, r.saveAfter(err)
}

func (r containerRuntime) StopPodSandbox(ctx context.Context, id string) error {
	return r.saveAfter(r.FakeRuntimeService.StopPodSandbox(ctx, id))
}

func (r containerRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	var gone *api.PodSandbox
	r.Lock()
	if s := r.Sandboxes[id]; s != nil {
		gone = sandboxOf(id, s.Metadata, s.Annotations)
	}
	r.Unlock()
	err := r.saveAfter(r.FakeRuntimeService.RemovePodSandbox(ctx, id))
	if err == nil && gone != nil && r.nri != nil {
		err = r.nri.sandboxRemoved(ctx, gone)
	}
	return err
}

func (r containerRuntime) CreateContainer(ctx context.Context, sandbox string, c *runtimeapi.ContainerConfig,
	s *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandbox, c, s)
	if err == nil && r.nri != nil {
		if err = r.nri.containerCreated(ctx, id, sandbox, c, s); err != nil {
			return "", errors.Join(err, r.FakeRuntimeService.RemoveContainer(ctx, id))
		}
	}
	return id, r.saveAfter(err)
}

func (r containerRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	err := r.FakeRuntimeService.StopContainer(ctx, id, timeout)
	r.Lock()
	if c := r.Containers[id]; err == nil && c != nil && c.Annotations[KilledAnnotation] != "" {
		c.ExitCode = exitCodeKilled
	}
	r.Unlock()
	err = r.saveAfter(err)
	if err == nil && r.nri != nil {
		err = r.nri.containerEnded(ctx, id)
	}
	return err
}

func (r containerRuntime) RemoveContainer(ctx context.Context, id string) error {
	return r.saveAfter(r.FakeRuntimeService.RemoveContainer(ctx, id))
}

// Finish ends the running containers of a pod with success, as if their work were done. It returns an error if the node
// does not run the pod.
func (k *Kubelet) Finish(uid string) error {
	r := k.runtime
	r.Lock()
	var found []string
	for id, c := range r.Containers {
		if c.Labels[kubelettypes.KubernetesPodUIDLabel] == uid && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			complete(c)
			found = append(found, id)
		}
	}
	err := r.save()
	r.Unlock()
	if len(found) == 0 {
		return fmt.Errorf("no container of pod %s runs", uid)
	}
	if r.nri != nil {
		for _, id := range found {
			err = errors.Join(err, r.nri.containerEnded(context.Background(), id))
		}
	}
	return err
}

// containersOf returns the containers that a runtime has when a kubelet starts, and the ids of the running ones.
func containersOf(ctx context.Context, r internalapi.RuntimeService) (containermap.ContainerMap,
	sets.Set[string], error) {
	found, running := containermap.NewContainerMap(), sets.New[string]()
	list, err := r.ListContainers(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range list {
		found.Add(c.Labels[kubelettypes.KubernetesPodUIDLabel], c.GetMetadata().GetName(), c.Id)
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running.Insert(c.Id)
		}
	}
	return found, running, nil
}
