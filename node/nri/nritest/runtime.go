// Package nritest is the container runtime's side of NRI for tests: the adaptation package that real runtimes link,
// and containers that only have a cpuset.
//
// Invariant: a container's cpuset is the last one that a plugin sent, unless a test overwrites it. The package does
// not imitate a runtime otherwise: containers start and stop only when the test calls for it.
package nritest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// Pod is a pod with the fields that the kubelet passes to a runtime.
type Pod struct {
	Namespace, Name, UID string
	Annotations          map[string]string
}

// Runtime is a runtime with containers.
type Runtime struct {
	// Socket is the path of the socket for plugins.
	Socket string
	// Told gets an element when a plugin has sent an update that is not part of an answer.
	Told chan struct{}

	t    testing.TB
	nri  *adaptation.Adaptation
	mu   sync.Mutex
	pods []*api.PodSandbox
	all  map[string]*api.Container
	sets map[string]string
	// asked, if not nil, is called before such an update changes any container. If it returns an error, no container
	// changes.
	asked func() error
}

// New starts a runtime with the containers of an earlier one, or without containers where before is nil.
func New(t testing.TB, before *Runtime) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{Socket: filepath.Join(dir, "s"), t: t, all: map[string]*api.Container{}, sets: map[string]string{},
		Told: make(chan struct{}, 1024)}
	if before != nil {
		r.pods, r.all, r.sets = before.pods, before.all, before.sets
	}
	r.nri, err = adaptation.New("test", "v1", r.synchronize, r.update, adaptation.WithSocketPath(r.Socket),
		adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.nri.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.nri.Stop()
		_ = os.RemoveAll(dir)
	})
	return r
}

func (r *Runtime) synchronize(ctx context.Context, with adaptation.SyncCB) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, err := with(ctx, r.pods, slices.Collect(maps.Values(r.all)))
	r.apply(updates)
	return err
}

func (r *Runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	asked := r.asked
	r.mu.Unlock()
	if asked != nil {
		if err := asked(); err != nil {
			return updates, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(updates)
	r.Told <- struct{}{}
	return nil, nil
}

func (r *Runtime) apply(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		if _, runs := r.sets[u.ContainerId]; runs {
			r.sets[u.ContainerId] = cpu.GetCpus() + " on " + cpu.GetMems()
		}
	}
}

// OnAsked sets a function that is called when a plugin has sent an update that is not part of an answer, before any
// container changes. If it returns an error, the plugin gets the error and no container changes.
func (r *Runtime) OnAsked(do func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = do
}

// Ready waits until no plugin synchronizes, because the runtime calls no plugin before that.
func (r *Runtime) Ready() { r.nri.BlockPluginSync().Unblock() }

// id returns the ID of a container: "UID/NAME".
func id(uid, container string) string { return uid + "/" + container }

// sandbox returns the sandbox of a pod. The caller holds the lock.
func (r *Runtime) sandbox(p Pod) *api.PodSandbox {
	for _, s := range r.pods {
		if s.Uid == p.UID {
			return s
		}
	}
	s := &api.PodSandbox{Id: "sandbox-" + p.UID, Uid: p.UID, Name: p.Name, Namespace: p.Namespace,
		Annotations: p.Annotations}
	r.pods = append(r.pods, s)
	return s
}

// Create starts a container, and returns the error of a plugin.
func (r *Runtime) Create(p Pod, container string) error {
	start, err := r.Begin(p, container)
	if err == nil {
		err = start()
	}
	return err
}

// Begin creates a container, which runs once the test calls start. Updates before that do not reach the container, so
// it starts with the cpuset of its creation. The error is a plugin's.
func (r *Runtime) Begin(p Pod, container string) (start func() error, err error) {
	r.mu.Lock()
	s := r.sandbox(p)
	c := &api.Container{Id: id(p.UID, container), PodSandboxId: s.Id, Name: container, CreatedAt: int64(len(r.all) + 1),
		State: api.ContainerState_CONTAINER_CREATED}
	r.mu.Unlock()
	ctx := context.Background()
	reply, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: s, Container: c})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[c.Id] = c
	r.apply(reply.Update)
	return func() error {
		r.mu.Lock()
		c.State = api.ContainerState_CONTAINER_RUNNING
		cpu := reply.GetAdjust().GetLinux().GetResources().GetCpu()
		r.sets[c.Id] = cpu.GetCpus() + " on " + cpu.GetMems()
		r.mu.Unlock()
		if err := r.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: s, Container: c}); err != nil {
			return err
		}
		return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: s, Container: c})
	}, nil
}

// Update changes the resources of a container as the kubelet does.
func (r *Runtime) Update(uid, container string) {
	r.t.Helper()
	r.mu.Lock()
	s, c := r.sandbox(Pod{UID: uid}), r.all[id(uid, container)]
	r.mu.Unlock()
	reply, err := r.nri.UpdateContainer(context.Background(), &api.UpdateContainerRequest{Pod: s, Container: c,
		LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(1024))}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(reply.Update)
}

// Stop ends a container.
func (r *Runtime) Stop(uid, container string) {
	r.t.Helper()
	r.mu.Lock()
	s, c := r.sandbox(Pod{UID: uid}), r.all[id(uid, container)]
	delete(r.all, id(uid, container))
	delete(r.sets, id(uid, container))
	r.mu.Unlock()
	reply, err := r.nri.StopContainer(context.Background(), &api.StopContainerRequest{Pod: s, Container: c})
	if err == nil {
		err = r.nri.RemoveContainer(context.Background(), &api.RemoveContainerRequest{Pod: s, Container: c})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(reply.Update)
}

// End stops the containers of a pod and removes its sandbox.
func (r *Runtime) End(uid string) {
	r.t.Helper()
	for _, c := range r.Containers() {
		if pod, name := split(c); pod == uid {
			r.Stop(pod, name)
		}
	}
	r.mu.Lock()
	s := r.sandbox(Pod{UID: uid})
	r.pods = slices.DeleteFunc(r.pods, func(s *api.PodSandbox) bool { return s.Uid == uid })
	r.mu.Unlock()
	if err := r.nri.RemovePodSandbox(context.Background(), &api.RemovePodSandboxRequest{Pod: s}); err != nil {
		r.t.Fatal(err)
	}
}

func split(id string) (uid, container string) {
	for i := range id {
		if id[i] == '/' {
			return id[:i], id[i+1:]
		}
	}
	return id, ""
}

// Lose forgets a pod without calling plugins, as a restart of the node does.
func (r *Runtime) Lose(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = slices.DeleteFunc(r.pods, func(s *api.PodSandbox) bool { return s.Uid == uid })
	for _, c := range slices.Collect(maps.Keys(r.all)) {
		if pod, _ := split(c); pod == uid {
			delete(r.all, c)
			delete(r.sets, c)
		}
	}
}

// Overwrite gives every container another cpuset, as another program would.
func (r *Runtime) Overwrite(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.sets {
		r.sets[c] = text
	}
}

// Containers returns the IDs of the containers, "UID/NAME", in ascending order.
func (r *Runtime) Containers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.sets))
}

// Pinned returns the pin of a container as "CPUS on NUMA-NODES"; "" where the container does not exist.
func (r *Runtime) Pinned(uid, container string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets[id(uid, container)]
}

// All returns a line "UID/NAME: CPUS on NUMA-NODES" for each container, in ascending order.
func (r *Runtime) All() (out []string) {
	for _, c := range r.Containers() {
		uid, name := split(c)
		out = append(out, fmt.Sprintf("%s: %s", c, r.Pinned(uid, name)))
	}
	return out
}
