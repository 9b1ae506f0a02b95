package machines_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenon-numa/tenon/lab/machines"
)

// The machines together have every policy and scope, so that a newcomer's first cluster has them all.
func TestCatalogueCoversPolicies(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range machines.List() {
		m, err := machines.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != name || m.Source == "" {
			t.Errorf("%s: name %q, source %q", name, m.Name, m.Source)
		}
		seen[m.Kubelet.TopologyManagerPolicy] = true
		seen[m.Kubelet.TopologyManagerScope] = true
		seen["cpu "+m.Kubelet.CPUManagerPolicy] = true
		seen["memory "+m.Kubelet.MemoryManagerPolicy] = true
	}
	for _, want := range []string{"none", "best-effort", "restricted", "single-numa-node",
		"container", "pod", "cpu static", "cpu none", "memory Static", "memory None"} {
		if !seen[want] {
			t.Errorf("no machine has %q", want)
		}
	}
}

func TestNUMAsPerMachine(t *testing.T) {
	want := map[string]int{"laptop": 1, "xeon-2s": 2, "xeon-snc2": 4, "epyc-nps4": 8, "gpu-8": 2, "sparse": 3}
	for name, n := range want {
		m, err := machines.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(m.Topo.NUMAs()); got != n {
			t.Errorf("%s has %d NUMA nodes, want %d", name, got, n)
		}
	}
}

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestReadRefuses(t *testing.T) {
	const text = "numa 0 cpus 0-3 memory 4Gi"
	for _, tc := range []struct{ name, text, yaml, want string }{
		{"../up", text, header, "not a DNS label"},
		{"absent", "", "", "file does not exist"},
		{"m", "numa 0 cpus x", header, "line 1"},
		{"m", text, header + "cpuManagerPolcy: static\n", "cpuManagerPolcy"},
		{"m", text, "kind: KubeletConfiguration\n", "apiVersion"},
		{"m", text, header + "reservedSystemCPUs: 3-4\n", "no CPU 4"},
		{"m", text, header + "reservedMemory: [{numaNode: 7, limits: {memory: 1Gi}}]\n", "no NUMA node 7"},
		{"m", text, header + "reservedMemory: [{numaNode: 0, limits: {memory: 5Gi}}]\n", "NUMA node 0 has 4Gi"},
	} {
		fsys := fstest.MapFS{"m.txt": {Data: []byte(tc.text)}, "m.yaml": {Data: []byte(tc.yaml)}}
		if _, err := machines.Read(fsys, tc.name); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Read %s of %q, %q: error %v, want %q", tc.name, tc.text, tc.yaml, err, tc.want)
		}
	}
}

func TestLoadNamesWhatItHas(t *testing.T) {
	_, err := machines.Load("vax")
	if err == nil || !strings.Contains(err.Error(), "epyc-nps4, gpu-8") {
		t.Errorf("error %v does not list the machines", err)
	}
}
