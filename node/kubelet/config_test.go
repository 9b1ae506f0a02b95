package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func machine(t testing.TB) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3/8-11 memory 16Gi hugepages-1Gi 4\nnuma 1 cpus 4-7/12-15 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConfigurationBecomesRules(t *testing.T) {
	c, err := ParseConfiguration([]byte(header + `
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true", max-allowable-numa-nodes: "12"}
cpuManagerPolicy: static
cpuManagerPolicyOptions:
  full-pcpus-only: "true"
  distribute-cpus-across-numa: "true"
  align-by-socket: "false"
  distribute-cpus-across-cores: "0"
  strict-cpu-reservation: "1"
  prefer-align-cpus-by-uncorecache: "true"
reservedSystemCPUs: 0,8
kubeReserved: {cpu: "3"}
memoryManagerPolicy: Static
reservedMemory:
- numaNode: 1
  limits: {memory: 200Mi}
- numaNode: 0
  limits: {memory: 1Gi, hugepages-1024Mi: 1Gi}
maxPods: 250
syncFrequency: 10s
aFieldOfTomorrow: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.On(machine(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := place.Rules{
		Topology: place.TopologyRules{Policy: place.Restricted, Scope: place.PerPod, PreferClosest: true, MaxNUMAs: 12},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8), FullPCPUsOnly: true,
			DistributeAcrossNUMA: true,
			StrictReservation:    true, PreferAlignByUncoreCaches: true},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{
			{NUMA: 0, Kind: "hugepages-1Gi", Bytes: 1 << 30}, {NUMA: 0, Kind: "memory", Bytes: 1 << 30},
			{NUMA: 1, Kind: "memory", Bytes: 200 << 20}}},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("rules are\n%+v, want\n%+v", got, want)
	}
}

func TestKubeletDefaults(t *testing.T) {
	c, err := ParseConfiguration([]byte(header))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", Configuration{}) {
		t.Errorf("an empty configuration gives %+v", c)
	}
}

func TestReservedCPUsByAmount(t *testing.T) {
	c, err := ParseConfiguration([]byte(header + `
cpuManagerPolicy: static
systemReserved: {cpu: 500m}
kubeReserved: {cpu: 501m, memory: 1Gi}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.On(machine(t), 0) // 1001m are rounded up to 2 CPUs
	if err != nil || got.CPU.Reserved.String() != "0,8" {
		t.Errorf("reserved %q, %v", got.CPU.Reserved, err)
	}
	c.ReserveCPUs = 1 << 12
	if _, err := c.On(machine(t), 0); err == nil || !strings.Contains(err.Error(), "reserve 4096 CPUs of") {
		t.Errorf("more than the machine has: %v", err)
	}
}

func TestBadConfigurationNamesTheField(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"topologyManagerPolicy: strict", "topologyManagerPolicy"},
		{"topologyManagerScope: node", "topologyManagerScope"},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '7'}",
			"max-allowable-numa-nodes"},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '99999999999'}",
			"max-allowable-numa-nodes"},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {closest: 'true'}", "closest"},
		{"cpuManagerPolicy: Static", "cpuManagerPolicy"},
		{"cpuManagerPolicy: static", "reservedSystemCPUs"},
		{"cpuManagerPolicyOptions: {full-pcpus: 'true'}", "full-pcpus"},
		{"cpuManagerPolicyOptions: {full-pcpus-only: 'yes'}", "full-pcpus-only"},
		{"reservedSystemCPUs: 3-1", "reservedSystemCPUs"},
		{"cpuManagerPolicy: static\nkubeReserved: {cpu: -1}", "kubeReserved"},
		{"cpuManagerPolicy: static\nkubeReserved: {cpu: 1e30}", "kubeReserved"},
		{"memoryManagerPolicy: static", "memoryManagerPolicy"},
		{"memoryManagerPolicy: Static", "reservedMemory"},
		{"reservedMemory: [{numaNode: -1, limits: {memory: 1Gi}}]", "NUMA node -1"},
		{"reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]", "cpu"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: 2Pi}}]", "memory"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 2Gi}}]",
			"memory is there twice"},
	} {
		text := header + c.text
		if _, err := ParseConfiguration([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v does not say %q", c.text, err, c.want)
		}
	}
	if _, err := ParseConfiguration([]byte("kind: Pod")); err == nil {
		t.Error("a pod is a configuration")
	}
	far, err := ParseConfiguration([]byte(header + "reservedSystemCPUs: '99'"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.On(machine(t), 0); err == nil || !strings.Contains(err.Error(), "cpu 99") {
		t.Errorf("cpu 99: %v", err)
	}
}

func FuzzParseConfiguration(f *testing.F) {
	f.Add([]byte(header + "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n" +
		"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseConfiguration(data); err == nil && c.ReserveCPUs < 0 {
			t.Fatalf("%d CPUs to reserve", c.ReserveCPUs)
		}
	})
}
