package kubelet

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/topo"
)

func twoNodes(t *testing.T) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Plugins announce any id, such as the -1 that /sys has on virtual machines. The machine tells such devices apart from
// those without a list, since the kubelet refuses pods that need them.
func TestIdsThatNoNUMANodeHasAreKept(t *testing.T) {
	on := func(ids ...int64) *podresources.TopologyInfo {
		out := &podresources.TopologyInfo{}
		for _, id := range ids {
			out.Nodes = append(out.Nodes, &podresources.NUMANode{ID: id})
		}
		return out
	}
	for _, c := range []struct {
		topology *podresources.TopologyInfo
		numas    topo.Mask
		list     topo.NUMAList
	}{{nil, 0, topo.UsualList}, {on(1), 2, topo.UsualList}, {on(-1), 0, topo.NegativeID}, {on(0, -1), 1, topo.NegativeID},
		{on(2), 0, topo.UnknownID}, {on(-1, 0, 99), 1, topo.UnknownID}, {on(math.MaxInt64), 0, topo.UnknownID},
		{on(math.MinInt64), 0, topo.NegativeID}} {
		devices, err := readDevices([]*podresources.ContainerDevices{{ResourceName: "acme.com/nic",
			DeviceIds: []string{"a"}, Topology: c.topology}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Observation{Allocatable: devices}.Machine(twoNodes(t))
		if err != nil {
			t.Fatal(err)
		}
		if d := m.Resources()[0].Devices[0]; d.NUMAs != c.numas || d.List != c.list {
			t.Errorf("%v: NUMA nodes %v, list %v; want %v, %v", c.topology, d.NUMAs, d.List, c.numas, c.list)
		}
	}
}

// The service does not list a device whose plugin announces an empty list. The state file has it, and the Node counts
// it.
func TestDevicesWithAnEmptyListAreFound(t *testing.T) {
	state := func(ids ...string) *DeviceState {
		text, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		out, err := ParseDeviceState(fmt.Appendf(nil, `{"Data":{"RegisteredDevices":{"acme.com/nic":%s}}}`, text))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	nic := func(ids ...string) (out []Device) {
		for _, id := range ids {
			out = append(out, Device{Resource: "acme.com/nic", ID: id})
		}
		return out
	}
	holder := []Listed{{Namespace: "ns", Name: "p", Containers: []ListedContainer{{Name: "c", Devices: nic("c")}}}}
	for _, x := range []struct {
		what              string
		listed, known     []Device
		registered        []string
		usable, have      int64
		held              []Listed
		unlisted, healthy string
	}{
		{"two are not listed", nic("a", "b"), nil, []string{"d", "b", "a", "c"}, 4, 4, nil, "c d", "a b c d"},
		{"none is listed", nil, nil, []string{"a", "b"}, 2, 2, nil, "a b", "a b"},
		{"one of them is held", nic("a", "b"), nil, []string{"a", "b", "c", "d"}, 4, 4, holder, "c d", "a b c d"},
		{"the file is older than the service", nic("a"), nic("b"), []string{"a", "b"}, 2, 2, nil, "", "a"},
		{"the plugin is gone", nil, nil, []string{"a", "b"}, 0, 2, nil, "", ""},
		{"the Node counts one", nic("a", "b"), nil, []string{"a", "b", "c", "d"}, 3, 4, nil, "c", "a b c"},
	} {
		o := Observation{Listed: x.held, Allocatable: x.listed, Known: x.known, Devices: state(x.registered...),
			Usable:   map[string]int64{"acme.com/nic": x.usable},
			Capacity: map[string]int64{"acme.com/nic": x.have}}
		m, err := o.Machine(twoNodes(t))
		if err != nil {
			t.Fatal(err)
		}
		var unlisted, healthy []string
		for _, r := range m.Resources() {
			for _, d := range r.Devices {
				if d.List == topo.EmptyList {
					unlisted = append(unlisted, d.ID)
				}
				if !d.Unhealthy {
					healthy = append(healthy, d.ID)
				}
			}
		}
		if got := strings.Join(unlisted, " "); got != x.unlisted {
			t.Errorf("%s: devices with an empty list are %q, want %q", x.what, got, x.unlisted)
		}
		if got := strings.Join(healthy, " "); got != x.healthy {
			t.Errorf("%s: healthy devices are %q, want %q", x.what, got, x.healthy)
		}
	}
}

// A device whose id is no name makes its resource be left out, and nothing else.
func TestAnIdThatIsNoNameLeavesOutItsResource(t *testing.T) {
	for _, id := range []string{"two words", "", "caf\u00e9", strings.Repeat("x", topo.MaxName+1)} {
		devices, err := readDevices([]*podresources.ContainerDevices{
			{ResourceName: "acme.com/bad", DeviceIds: []string{"a", id}},
			{ResourceName: "acme.com/good", DeviceIds: []string{"a"}}})
		if err != nil {
			t.Fatal(err)
		}
		o := Observation{Allocatable: devices}
		if o.Omitted(twoNodes(t))["acme.com/bad"] == "" {
			t.Errorf("%q: the resource is not left out", id)
		}
		m, err := o.Machine(twoNodes(t))
		if err != nil || len(m.Resources()) != 1 || m.Resources()[0].Name != "acme.com/good" {
			t.Errorf("%q: machine %v, error %v; want acme.com/good alone", id, m, err)
		}
	}
}
