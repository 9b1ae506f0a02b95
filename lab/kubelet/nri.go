package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"
)

// CPUSetsFile is a file in the kubelet's directory. A runtime with NRI records the pins of its containers there: a
// JSON object from "POD-UID/CONTAINER" to [CPUSet], without containers that have exited.
const CPUSetsFile = "cpusets.json"

// CPUSet is cpuset.cpus and cpuset.mems of a container.
type CPUSet struct {
	CPUs string `json:"cpus"`
	Mems string `json:"mems"`
}

// nriServer is a runtime's side of NRI. Plugins connect to its socket. It only records the cpusets that they request,
// because containers do not run.
type nriServer struct {
	runtime containerRuntime
	nri     *adaptation.Adaptation
	file    string

	mu   sync.Mutex
	sets map[string]CPUSet // by container ID
}

// serveNRI makes a runtime serve NRI plugins at a socket.
func serveNRI(r *containerRuntime, socket, root string) error {
	p := &nriServer{runtime: *r, file: filepath.Join(root, CPUSetsFile), sets: map[string]CPUSet{}}
	none := filepath.Join(root, "nri-plugins") // there are none to start
	var err error
	p.nri, err = adaptation.New("lab", "v1", p.synchronize, p.update, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	if err == nil {
		err = p.nri.Start()
	}
	if err != nil {
		return fmt.Errorf("serve NRI plugins: %w", err)
	}
	r.nri = p
	return nil
}

// lists returns all sandboxes, and the containers that have not exited.
func (p *nriServer) lists() (pods []*api.PodSandbox, all []*api.Container) {
	r := p.runtime
	r.Lock()
	defer r.Unlock()
	for _, s := range r.Sandboxes {
		pods = append(pods, sandboxOf(s.Id, s.Metadata, s.Annotations))
	}
	for _, c := range r.Containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			all = append(all, &api.Container{Id: c.Id, PodSandboxId: c.SandboxID, Name: c.Metadata.Name,
				CreatedAt: c.CreatedAt, State: api.ContainerState_CONTAINER_RUNNING})
		}
	}
	return pods, all
}

func sandboxOf(id string, m *runtimeapi.PodSandboxMetadata, annotations map[string]string) *api.PodSandbox {
	return &api.PodSandbox{Id: id, Uid: m.Uid, Name: m.Name, Namespace: m.Namespace, Annotations: annotations}
}

// synchronize passes the existing containers to a plugin that has connected, and applies its updates.
func (p *nriServer) synchronize(ctx context.Context, with adaptation.SyncCB) error {
	pods, all := p.lists()
	updates, err := with(ctx, pods, all)
	if err != nil {
		return err
	}
	return p.apply(updates...)
}

// update applies the updates that a plugin sends on its own. No container fails to be updated.
func (p *nriServer) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, p.apply(updates...)
}

// apply records the cpusets of updates, and writes the file.
func (p *nriServer) apply(updates ...*api.ContainerUpdate) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		p.sets[u.ContainerId] = CPUSet{cpu.GetCpus(), cpu.GetMems()}
	}
	return p.write()
}

// write drops the cpusets of containers that are gone or have exited, and writes the file. p.mu must be held.
func (p *nriServer) write() error {
	out := map[string]CPUSet{}
	r := p.runtime
	r.Lock()
	for _, id := range slices.Sorted(maps.Keys(p.sets)) {
		c := r.Containers[id]
		if c == nil || c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			delete(p.sets, id)
			continue
		}
		out[c.Labels[kubelettypes.KubernetesPodUIDLabel]+"/"+c.Metadata.Name] = p.sets[id]
	}
	r.Unlock()
	text, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(p.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(p.file+".new", p.file)
	}
	if err != nil {
		return fmt.Errorf("write cpusets: %w", err)
	}
	return nil
}

// containerCreated reports a new container to the plugins, and applies the cpusets that they answer.
func (p *nriServer) containerCreated(ctx context.Context, id, sandbox string, c *runtimeapi.ContainerConfig,
	s *runtimeapi.PodSandboxConfig) error {
	defer p.nri.BlockPluginSync().Unblock()
	pod := sandboxOf(sandbox, s.Metadata, s.Annotations)
	container := &api.Container{Id: id, PodSandboxId: sandbox, Name: c.Metadata.Name}
	reply, err := p.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
	if err != nil {
		return err
	}
	own := &api.ContainerUpdate{ContainerId: id, Linux: &api.LinuxContainerUpdate{
		Resources: reply.GetAdjust().GetLinux().GetResources()}}
	if err := p.apply(append(reply.Update, own)...); err != nil {
		return err
	}
	return p.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: container})
}

// container returns a container and its sandbox. Both are nil if one of them does not exist.
func (p *nriServer) container(id string) (*api.PodSandbox, *api.Container) {
	r := p.runtime
	r.Lock()
	defer r.Unlock()
	c := r.Containers[id]
	if c == nil || r.Sandboxes[c.SandboxID] == nil {
		return nil, nil
	}
	s := r.Sandboxes[c.SandboxID]
	return sandboxOf(s.Id, s.Metadata, s.Annotations), &api.Container{Id: id, PodSandboxId: s.Id, Name: c.Metadata.Name}
}

// containerEnded reports to the plugins that a container has ended, and applies their updates of other containers. It
// does nothing if the runtime has no such container.
func (p *nriServer) containerEnded(ctx context.Context, id string) error {
	s, c := p.container(id)
	if c == nil {
		return nil
	}
	reply, err := p.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: s, Container: c})
	if err != nil {
		return err
	}
	return p.apply(reply.Update...)
}

// sandboxRemoved reports to the plugins that a sandbox was removed.
func (p *nriServer) sandboxRemoved(ctx context.Context, s *api.PodSandbox) error {
	return p.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: s})
}
