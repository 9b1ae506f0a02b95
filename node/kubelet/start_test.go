package kubelet

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Configurations from public reports with which no kubelet starts, by the text of the refusal. lab/dropin judges many
// more by the kubelet itself.
func TestConfigurationsThatDoNotStartAreRefused(t *testing.T) {
	const static = "cpuManagerPolicy: static\nreservedSystemCPUs: 0,8\n"
	const options = static + "cpuManagerPolicyOptions: "
	const memory = "memoryManagerPolicy: Static\nsystemReserved: {memory: 924Mi}\n"
	for _, c := range []struct {
		text, want string
		release    place.Release
	}{
		{memory + "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-1Gi: 1Gi}}]\n",
			"no kubelet keeps hugepages-1Gi from pods", 37},
		{memory + "reservedMemory: [{numaNode: 0, limits: {memory: 10050Mi}}]\n",
			"its sum is 10050Mi, and the kubelet keeps 1Gi from pods", 37},
		{memory + "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 0}}]\n",
			"NUMA node 1: memory may not be 0", 37},
		{"memoryManagerPolicy: Static\nsystemReserved: {memory: 16284Mi}\nreservedMemory: [{numaNode: 0, " +
			"limits: {memory: 16Gi}}]\n", "gives out memory that is not there", 37},
		{options + "{align-by-socket: 'true', prefer-align-cpus-by-uncorecache: 'true', " +
			"distribute-cpus-across-numa: 'true'}\ntopologyManagerPolicy: single-numa-node\n", "exclude each other", 37},
		{"cpuManagerPolicyOptions: {full-pcpus-only: 'false'}\n", "full-pcpus-only needs cpuManagerPolicy: static", 37},
		{options + "{align-by-socket: 'true'}\n", "needs the feature gate CPUManagerPolicyAlphaOptions", 37},
		{options + "{strict-cpu-reservation: 'false'}\n", "kubelets have strict-cpu-reservation since 1.32", 31},
		{options + "{strict-cpu-reservation: 'true'}\nfeatureGates: {CPUManagerPolicyBetaOptions: false}\n",
			"needs the feature gate CPUManagerPolicyBetaOptions", 34},
		{options + "{distribute-cpus-across-numa: 'true'}\nfeatureGates: {AllBeta: false}\n",
			"needs the feature gate CPUManagerPolicyBetaOptions", 37},
		{"systemReserved: {hugepages-1Gi: 1Gi}\n", `systemReserved: a kubelet cannot reserve "hugepages-1Gi"`, 37},
		{"systemReserved: {memory: 33Gi}\n", "they keep 33892Mi of memory from pods, and the machine has 32Gi", 37},
		{"kubeReserved: {cpu: '17'}\n", "they keep 17000m CPU from pods, and the machine has 16 CPUs", 37},
		{"evictionHard: {memory.available: '0'}\n", "not an amount above 0", 37},
		{"featureGates: {MemoryManager: true}\n", "a kubelet of 1.37 has no gate MemoryManager", 37},
		{"featureGates: {GracefulNodeShutdwon: true}\n", "a kubelet of 1.37 has no gate GracefulNodeShutdwon; " +
			"GracefulNodeShutdown may be meant", 37},
		{"featureGates: {KubeletTracing: false}\n", "KubeletTracing cannot be false in 1.37", 37},
		{"featureGates: {GracefulNodeShutdownBasedOnPodPriority: true, GracefulNodeShutdown: false}\n",
			"GracefulNodeShutdownBasedOnPodPriority is on and needs GracefulNodeShutdown, which is off", 37},
		{"maxPods: -1\n", "maxPods: -1 is less than 0", 37},
		{"podsPerCore: -1\nkubeAPIQPS: -2\n", "kubeAPIQPS: -2 is less than 0", 30},
	} {
		_, err := SetUp([]byte(header+c.text), machine(t), c.release)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%s: error %v, want %q", c.release, c.text, err, c.want)
		}
	}
	for text, release := range map[string]place.Release{
		"": 37,
		options + "{strict-cpu-reservation: 'true'}\nfeatureGates: {CPUManagerPolicyBetaOptions: false}\n":            35,
		options + "{align-by-socket: 'true'}\nfeatureGates: {AllAlpha: true}\n":                                       30,
		memory + "reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}, {numaNode: 1, limits: {memory: 512Mi}}]\n": 30,
		"reservedMemory: [{numaNode: 7, limits: {memory: 1Gi}}]\ntopologyManagerPolicyOptions: {other: x}\n":          37,
		"featureGates: {MemoryManager: true}\n":                                                                       34,
	} {
		if _, err := SetUp([]byte(header+text), machine(t), release); err != nil {
			t.Errorf("%s\n%s: %v", release, text, err)
		}
	}
}

// A text that begins as JSON is read as JSON alone, without comments, names without quotation marks, or more documents.
func TestJSONIsReadAsTheKubeletReadsIt(t *testing.T) {
	const object = `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"`
	for text, starts := range map[string]bool{
		"\n " + object + "}\n":                 true,
		object + "} # a comment\n":             false,
		object + "}\n---\n" + object + "}\n":   false,
		object + ", maxPods: 5}\n":             false,
		"# a comment\n" + object + ", a: 5}\n": true, // YAML, by its first character
	} {
		if _, err := SetUp([]byte(text), machine(t), 37); (err == nil) != starts {
			t.Errorf("%s\n%v", text, err)
		}
	}
	got, err := Allocatable([]byte(object+`, "systemReserved": {"cpu": "1"}, "systemReserved": {"memory": "1Gi"}}`), machine(t))
	if err != nil || got["cpu"] != 15000 {
		t.Errorf("%v, %v: want what both mappings reserve", got, err)
	}
}

// A percentage of memory is counted in the kubelet's floating-point types.
func TestPercentagesAreExact(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 131840732Ki")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Allocatable([]byte(header+"evictionHard: {memory.available: 5%}\n"), m)
	all := int64(131840732) << 10
	want := all - int64(float64(all)*float64(float32(5)/100))
	if err != nil || got[topo.Memory] != want {
		t.Errorf("%d of %d (%v), want %d", got[topo.Memory], all, err, want)
	}
}
