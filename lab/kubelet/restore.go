package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/topo"
)

// ReadStates returns the managers' state files in a kubelet's directory, by the names of [StateFiles]. It omits files
// that do not exist.
func ReadStates(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range StateFiles() {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read state of managers: %w", err)
		}
		out[name] = text
	}
	return out, nil
}

// Restore is [NewManagers] on the state files of other managers, by the names of [StateFiles]. The new managers hold
// what the files hold for the active pods, and free the rest. It fails if the managers refuse the files.
func Restore(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	states map[string][]byte, pods func() []*v1.Pod) (*Managers, error) {
	for _, name := range StateFiles() {
		text, ok := states[name]
		if !ok {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, fmt.Errorf("restore managers: %w", err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, fmt.Errorf("restore managers: %w", err)
		}
	}
	out, err := NewManagers(ctx, dir, m, c, pods)
	if err != nil {
		return nil, err
	}
	out.Collect()
	return out, nil
}

// StartContainers does what a kubelet does with the managers when the containers of an admitted pod start, one after
// the other (cm/internal_container_lifecycle_linux.go, PreStartContainer). Init containers that are not sidecars then
// hold nothing any more.
func (m *Managers) StartContainers(pod *v1.Pod) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			id := string(pod.UID) + "/" + list[i].Name
			m.startContainer(pod, &list[i], id)
		}
	}
}

// Allocatable returns the node's amounts for pods, as the kubelet reports them: capacity less reservations, and the
// healthy devices.
func (m *Managers) Allocatable() v1.ResourceList {
	out := m.allocatable.capacity.DeepCopy()
	for name, q := range m.allocatable.reservation() {
		have := out[name]
		have.Sub(q)
		out[name] = have
	}
	for name, devices := range m.allocatableDevices() {
		out[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(devices)), resource.DecimalSI)
	}
	return out
}
