package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/plugins"
)

// Announce has the device plugins of a machine announce their devices again: the same as before, except for their
// health.
func (m *Managers) Announce(machine *topo.Machine) {
	for _, r := range machine.Resources() {
		m.updateDevices(r.Name, plugins.List(machine, r))
	}
}

// Prefer has the plugin of a resource register anew, with preferences.
func (m *Managers) Prefer(ctx context.Context, resource string,
	prefer func(available, include []string, size int) ([]string, error)) error {
	if err := m.connectPlugin(ctx, resource, plugin{resource, prefer}); err != nil {
		return fmt.Errorf("connect devices of %s: %w", resource, err)
	}
	return nil
}

// lateSources are the sources of a starting kubelet: they are ready when it has admitted its pods.
type lateSources struct{ ready atomic.Bool }

func (*lateSources) AddSource(string) {}
func (s *lateSources) AllReady() bool { return s.ready.Load() }

// Container is one that a kubelet finds when it starts.
type Container struct {
	Pod, Name string
	Running   bool
}

// Reopen makes and starts managers on the files of others that have stopped, as a restarting kubelet does: until settle
// is called no device plugin has registered, and the managers free nothing.
func Reopen(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	pods func() []*v1.Pod, found []Container) (out *Managers, settle func() error, err error) {
	internal, _, err := withDefaults(withoutHost(c))
	if err != nil {
		return nil, nil, err
	}
	internal.CPUManagerReconcilePeriod.Duration = never
	if out, err = compose(klog.FromContext(ctx), dir, m, MachineInfo("machine", m), internal); err != nil {
		return nil, nil, err
	}
	from := &lateSources{}
	s := surroundings{pods: pods, sources: from, statuses: noStatus{}, runtime: noRuntime{},
		containers: containermap.NewContainerMap(), running: sets.New[string]()}
	for _, k := range found {
		id := k.Pod + "/" + k.Name
		s.containers.Add(k.Pod, k.Name, id)
		if k.Running {
			s.running.Insert(id)
		}
	}
	if err := out.start(ctx, s); err != nil {
		_ = out.Stop() // nothing may have been started
		return nil, nil, err
	}
	return out, func() error {
		from.ready.Store(true)
		return out.connect(ctx, m)
	}, nil
}

// Settings are what managers read of a machine and a configuration, defaults applied; a judge reads them as JSON.
type Settings struct {
	Machine         json.RawMessage
	TopologyPolicy  string
	TopologyScope   string
	TopologyOptions map[string]string
	CPUPolicy       string
	CPUOptions      map[string]string
	ReservedCPUs    string
	MemoryPolicy    string
	ReservedMemory  []ReservedMemory
	NodeReservation v1.ResourceList
}

// ReservedMemory is what one NUMA node keeps for the system.
type ReservedMemory struct {
	NUMA   int32
	Limits v1.ResourceList
}

// SettingsOf returns what compose hands to the managers.
func SettingsOf(m *topo.Machine, c *configv1beta1.KubeletConfiguration) (*Settings, error) {
	internal, _, err := withDefaults(withoutHost(c))
	if err != nil {
		return nil, err
	}
	info := MachineInfo("machine", m)
	a, err := newAllocatable(internal, info)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	out := &Settings{Machine: text, TopologyPolicy: internal.TopologyManagerPolicy,
		TopologyScope: internal.TopologyManagerScope, TopologyOptions: internal.TopologyManagerPolicyOptions,
		CPUPolicy: internal.CPUManagerPolicy, CPUOptions: internal.CPUManagerPolicyOptions,
		ReservedCPUs: a.cpus.String(), MemoryPolicy: internal.MemoryManagerPolicy, NodeReservation: a.reservation()}
	for _, r := range internal.ReservedMemory {
		out.ReservedMemory = append(out.ReservedMemory, ReservedMemory{r.NumaNode, r.Limits})
	}
	return out, nil
}

// HealthyDevices returns the healthy devices of each resource.
func (m *Managers) HealthyDevices() devicemanager.ResourceDeviceInstances {
	return m.allocatableDevices()
}
