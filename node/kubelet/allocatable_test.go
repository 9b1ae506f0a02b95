package kubelet

import (
	"maps"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

func TestAllocatableIsWhatANodeWouldSay(t *testing.T) {
	const gi = 1 << 30
	m, err := topo.ParseMachine(`
numa 0 socket 0 cpus 0-15 memory 32Gi hugepages-1Gi 4
numa 1 socket 1 cpus 16-31 memory 32Gi
device acme.com/nic n0,n1 numa 0
device acme.com/nic n2 numa 1 unhealthy
`)
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for _, c := range []struct {
		text              string
		cpu, memory, pods int64
	}{
		{"", 32000, 60*gi - 100<<20, 110},
		{"systemReserved: {cpu: 500m, memory: 1Gi}\nkubeReserved: {cpu: \"1\", memory: 2Gi}\n" +
			"evictionHard: {memory.available: 1Gi}\n", 30500, 56 * gi, 110},
		{"reservedSystemCPUs: 0-1,16\nkubeReserved: {cpu: \"8\"}\n", 29000, 60*gi - 100<<20, 110},
		{"evictionHard: {memory.available: 25%}\nmaxPods: 500\n", 32000, 44 * gi, 500},
		{"evictionHard: {nodefs.available: 10%}\npodsPerCore: 2\n", 32000, 60 * gi, 64},
		{"evictionHard: {nodefs.available: 10%}\nmergeDefaultEvictionSettings: true\n", 32000, 60*gi - 100<<20, 110},
	} {
		got, err := Allocatable([]byte(head+c.text), m)
		want := map[string]int64{"cpu": c.cpu, "memory": c.memory, "pods": c.pods, "hugepages-1Gi": 4 * gi, "acme.com/nic": 2}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, error %v; want %v", c.text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"kubeReserved: {memory: lots}\n": `kubeReserved: memory: "lots" is not an amount in 0..1Pi`,
		"evictionHard: {memory.available: " +
			"200%}\n": `evictionHard: memory.available: "200%" is not an amount or a percentage`,
		"evictionHard: {memory.available: little}\n": `evictionHard: memory.available: "little"`,
		"reservedSystemCPUs: all\n":                  "reservedSystemCPUs: ",
	} {
		if _, err := Allocatable([]byte(head+text), m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
