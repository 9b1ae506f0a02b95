package kubelet_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
)

// apiPods are the pods of the node by "namespace/name".
type apiPods map[string]kubelet.Pod

func (p apiPods) Pod(namespace, name string) (kubelet.Pod, bool) {
	pod, ok := p[namespace+"/"+name]
	return pod, ok
}

func pod(name, uid string, containers ...kubelet.Container) kubelet.Pod {
	return kubelet.Pod{ID: state.PodID{UID: uid, Namespace: "ns", Name: name}, StateUID: uid, Containers: containers}
}

func observe(t *testing.T, s *kubelettest.Service, root fstest.MapFS) kubelet.Observation {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	s.Serve(t, socket)
	client, err := kubelet.DialPodResources(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, err := kubelet.Observe(ctx, client, root)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func twoNUMAs(t *testing.T) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3/8-11 memory 16Gi\nnuma 4 cpus 4-7/12-15 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFilesAndServiceAreJoined(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetDevices(kubelettest.Device("x.io/gpu", "g0", 0), kubelettest.Device("x.io/gpu", "g1", 4),
		kubelettest.Device("x.io/gpu", "g1", 0), kubelettest.Device("x.io/any", "a", -1))
	s.SetPods(
		kubelettest.Pod("ns", "a", &podresources.ContainerResources{Name: "main", CpuIds: []int64{9, 1},
			Devices: []*podresources.ContainerDevices{kubelettest.Device("x.io/gpu", "lost", 4)}}),
		kubelettest.Pod("ns", "plain", &podresources.ContainerResources{Name: "main"}),
		kubelettest.Pod("ns", "unknown", &podresources.ContainerResources{Name: "main", CpuIds: []int64{3}}),
		kubelettest.Pod("ns", "done", &podresources.ContainerResources{Name: "main", CpuIds: []int64{3}}),
		kubelettest.Pod("ns", "static", &podresources.ContainerResources{Name: "main"}))
	o := observe(t, s, fstest.MapFS{
		kubelet.CPUStateFile: {
			Data: []byte(
				`{"policyName":"static","entries":{"uid-a":{"init":"1-2,9-10","main":"1,9"},"gone":{"main":"5"},"hash":{"main":"6"}}}`,
			)},
		kubelet.MemoryStateFile: {Data: []byte(`{"machineState":{"0":{"cells":[0,4]},"4":{"cells":[0,4]}},"entries":{
			"uid-a":{"init":[{"numaAffinity":[0],"type":"memory","size":0}],"main":[{"numaAffinity":[0],"type":"memory","size":5}]}}}`)},
		kubelet.DeviceStateFile: {
			Data: []byte(
				`{"Data":{"PodDeviceEntries":[{"PodUID":"uid-a","ContainerName":"init","ResourceName":"x.io/gpu","DeviceIDs":{"0":["g1"],"4":["g1"]}}]}}`,
			)},
	})
	m, err := o.Machine(twoNUMAs(t))
	if err != nil {
		t.Fatal(err)
	}
	devices := map[string][]topo.Device{}
	for _, r := range m.Resources() {
		devices[r.Name] = r.Devices
	}
	if got, want := fmt.Sprint(devices), "map[x.io/any:[{a no position false  }] "+
		"x.io/gpu:[{g0 position 0 false  } {g1 positions 0-1 false  } {lost position 1 true  }]]"; got != want {
		t.Errorf("devices are %s, want %s", got, want)
	}
	done := pod("done", "uid-d", kubelet.Container{Name: "main"})
	done.Done = true
	static := pod("static", "mirror", kubelet.Container{Name: "main"})
	static.StateUID = "hash"
	pods := apiPods{
		"ns/a":     pod("a", "uid-a", kubelet.Container{Name: "init", Kind: place.Init}, kubelet.Container{Name: "main"}),
		"ns/plain": pod("plain", "uid-p", kubelet.Container{Name: "main"}), "ns/done": done, "ns/static": static}
	entries, err := o.Entries(m, pods)
	if err != nil {
		t.Fatal(err)
	}
	want := "[{ns/a 1 [init init: CPUs 1-2,9-10, 0 memory at NUMA position 0, 1 x.io/gpu (g1) at NUMA positions 0-1 " +
		"main: CPUs 1,9, 5 memory at NUMA position 0, 1 x.io/gpu (lost) at NUMA position 1]} {ns/static 1 [main: CPUs 6]}]"
	if got := fmt.Sprint(entries); got != want {
		t.Errorf("entries are\n%s, want\n%s", got, want)
	}
	if got := o.Groups(m, place.Rules{Memory: place.MemoryRules{Static: true}}, entries, pods); len(got) != 1 ||
		got[0].NUMAs != 3 {
		t.Errorf("groups are %v, want NUMA node 0 with NUMA node 4: NUMA node 4 itself has no block of a known pod", got)
	}
}

// The description of a device is kept where the kubelet does not report it; the kubelet's report takes precedence.
func TestDescribedDevicesKeepTheirRoots(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetDevices(kubelettest.Device("x.io/gpu", "g0", 0), kubelettest.Device("x.io/gpu", "g1", 4))
	described, err := topo.ParseMachine("numa 0 cpus 0-3\nnuma 4 cpus 4-7\ndevice x.io/gpu g0 numa 4 root pci0000:17\n" +
		"device x.io/gpu g2 numa 4 root pci0000:2a")
	if err != nil {
		t.Fatal(err)
	}
	m, err := observe(t, s, fstest.MapFS{}).Machine(described)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.Resources()[0].Devices), "[{g0 position 0 false  pci0000:17} {g1 position 1 false  "+
		"}]"; got != want {
		t.Errorf("devices are %s, want %s", got, want)
	}
}

func TestServiceAloneIsEnoughWithoutFiles(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetPods(kubelettest.Pod("ns", "a", &podresources.ContainerResources{Name: "main", CpuIds: []int64{9, 1},
		Memory: []*podresources.ContainerMemory{{MemoryType: "memory", Size: 7,
			Topology: &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: 4}, {ID: 0}}}}}}))
	o := observe(t, s, fstest.MapFS{})
	entries, err := o.Entries(twoNUMAs(t), apiPods{"ns/a": pod("a", "u", kubelet.Container{Name: "main"})})
	if got, want := fmt.Sprint(entries), "[{ns/a 1 [main: CPUs 1,9, 7 memory at NUMA positions 0-1]}]"; err != nil ||
		got != want {
		t.Errorf("entries are %s, %v", got, err)
	}
}

func TestGroupsThatHoldingsDoNotTell(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetPods(kubelettest.Pod("ns", "p", &podresources.ContainerResources{Name: "main"}))
	pods := apiPods{"ns/p": pod("p", "u", kubelet.Container{Name: "main"})}
	groups := func(file string) string {
		t.Helper()
		o := observe(t, s, fstest.MapFS{kubelet.MemoryStateFile: {Data: []byte(file)}})
		m := twoNUMAs(t)
		entries, err := o.Entries(m, pods)
		if err != nil {
			t.Fatal(err)
		}
		got := o.Groups(m, place.Rules{Memory: place.MemoryRules{Static: true}}, entries, pods)
		var parts []string
		for _, at := range slices.Sorted(maps.Keys(got)) {
			free := ""
			for _, a := range got[at].Free {
				free += fmt.Sprintf("{%s %d}", a.Kind, a.Bytes)
				if a.Fractional {
					t.Errorf("%s: a part of a byte is free", a.Kind)
				}
			}
			parts = append(parts, fmt.Sprintf("%d:{%d [%s]}", at, got[at].NUMAs, free))
		}
		return "map[" + strings.Join(parts, " ") + "]"
	}
	numa := func(cells string, reserved, free int64) string {
		return fmt.Sprintf(`{"cells":%s,"memoryMap":{"memory":{"reserved":%d,"free":%d}}}`, cells, reserved<<30, free<<30)
	}
	file := func(numa0, numa4, mine, others string) string {
		return `{"machineState":{"0":` + numa0 + `,"4":` + numa4 + `},"entries":{"u":{"main":[` + mine +
			`]},"gone":{"main":[` + others + `]}}}`
	}
	block := func(numas string, size int64) string {
		return fmt.Sprintf(`{"numaAffinity":%s,"type":"memory","size":%d}`, numas, size<<30)
	}
	const g = 1 << 30
	for _, c := range []struct{ what, file, want string }{
		{"a NUMA node alone", file(numa("[0]", 3, 13), numa("[4]", 0, 16), block("[0]", 3), ""), "map[]"},
		{"a group, filled from below", file(numa("[0,4]", 16, 0), numa("[0,4]", 4, 12), block("[0,4]", 20), ""), "map[]"},
		{"a group, filled around others that are gone", file(numa("[0,4]", 10, 6), numa("[0,4]", 10, 6),
			block("[0,4]", 20), ""),
			fmt.Sprintf("map[0:{3 [{memory %d}]} 1:{3 [{memory %d}]}]", 6*g, 6*g)},
		{"a group of which one NUMA node was last used alone",
			file(numa("[0]", 6, 10), numa("[0,4]", 0, 16), block("[0,4]", 3)+","+block("[0]", 3), ""), "map[]"},
		{"a group whose wide block has gone", file(numa("[0,4]", 3, 13), numa("[4]", 0, 16), block("[0]", 3), ""),
			fmt.Sprintf("map[0:{3 [{memory %d}]}]", 13*g)},
		{"what an ended pod had is as good as free", file(numa("[0]", 5, 11), numa("[4]", 2, 14), block("[0]", 3),
			block("[0]", 2)+","+block("[4]", 2)), "map[]"},
		{"a block that ends takes what another has on its lowest NUMA node",
			file(numa("[0]", 4, 12), numa("[0,4]", 4, 12), block("[0]", 4), block("[0,4]", 4)),
			fmt.Sprintf("map[0:{1 [{memory %d}]} 1:{2 [{memory %d}]}]", 16*g, 12*g)},
		{"the machine has less than its firmware says", file(numa("[0]", 3, 12), numa("[4]", 0, 15), block("[0]", 3), ""),
			fmt.Sprintf("map[0:{1 [{memory %d}]} 1:{2 [{memory %d}]}]", 12*g, 15*g)},
	} {
		if got := groups(c.file); got != c.want {
			t.Errorf("%s: groups are %s, want %s", c.what, got, c.want)
		}
	}
}

func TestOnePodsContradictionHarmsNoOther(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetDevices(kubelettest.Device("x.io/gpu", "g0", 7))
	s.SetPods(
		kubelettest.Pod("ns", "bad", &podresources.ContainerResources{Name: "main", CpuIds: []int64{77}}),
		kubelettest.Pod("ns", "good", &podresources.ContainerResources{Name: "main", CpuIds: []int64{1}}))
	o := observe(t, s, fstest.MapFS{})
	m, err := o.Machine(twoNUMAs(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Resources()[0].Devices[0]; d.NUMAs != 0 || d.List != topo.UnknownID {
		t.Errorf("the device on NUMA node 7, which the machine lacks, is %+v", d)
	}
	entries, err := o.Entries(m, apiPods{"ns/bad": pod("bad", "b", kubelet.Container{Name: "main"}),
		"ns/good": pod("good", "g", kubelet.Container{Name: "main"})})
	if err == nil || !strings.Contains(err.Error(), "ns/bad") || !strings.Contains(err.Error(), "cpu 77") {
		t.Errorf("error is %v", err)
	}
	if len(entries) != 1 || entries[0].Pod.Name != "good" {
		t.Errorf("entries are %v", entries)
	}
}

// Without the managers' files, the holdings of a pod as a whole come from the service.
func TestThePodResourcesServiceSaysWhatPodsHaveAsAWhole(t *testing.T) {
	s := &kubelettest.Service{}
	p := kubelettest.Pod("ns", "p", &podresources.ContainerResources{Name: "main", CpuIds: []int64{4}})
	p.CpuIds = []int64{4, 5}
	s.SetPods(p)
	entries, err := observe(t, s, fstest.MapFS{}).Entries(twoNUMAs(t), apiPods{"ns/p": pod("p", "u",
		kubelet.Container{Name: "main"})})
	if got, want := fmt.Sprint(entries), "[{ns/p 1 [: CPUs 4-5]}]"; err != nil || got != want {
		t.Errorf("entries are %s, %v", got, err)
	}
}

func TestPodLevelHoldingsCountOnce(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetPods(kubelettest.Pod("ns", "p", &podresources.ContainerResources{Name: "main", CpuIds: []int64{4}}))
	o := observe(t, s, fstest.MapFS{
		kubelet.CPUStateFile: {Data: []byte(`{"entries":{"u":{"main":"4"}},"podEntries":{"u":{"cpuSet":"4-5"}}}`)},
		kubelet.MemoryStateFile: {
			Data: []byte(
				`{"entries":{"u":{"main":[{"numaAffinity":[4],"type":"memory","size":3}]}},"podEntries":{"u":{"memoryBlocks":[{"numaAffinity":[4],"type":"memory","size":9}]}}}`,
			)},
	})
	entries, err := o.Entries(twoNUMAs(t), apiPods{"ns/p": pod("p", "u", kubelet.Container{Name: "main"})})
	if got, want := fmt.Sprint(entries), "[{ns/p 1 [: CPUs 4-5, 9 memory at NUMA position 1]}]"; err != nil ||
		got != want {
		t.Errorf("entries are %s, %v", got, err)
	}
}
