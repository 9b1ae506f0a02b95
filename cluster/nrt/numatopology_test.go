package nrt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/cluster/nrt"
)

// exported is what Volcano's resource-exporter writes of two sockets with four cores of two threads: it omits zeros,
// numbers cores by socket, and counts reserved CPUs as free.
const exported = `
apiVersion: nodeinfo.volcano.sh/v1alpha1
kind: Numatopology
metadata: {name: node-1, resourceVersion: "7", annotations: {timestamp: "1764000000"}}
spec:
  policies: {CPUManagerPolicy: static, TopologyManagerPolicy: single-numa-node}
  resReserved: {cpu: 1500m, memory: 2348Mi}
  numares: {cpu: {allocatable: "0-3,6-11,14-15", capacity: 16}}
  cpuDetail:
    "0": {}
    "1": {core: 1}
    "2": {core: 2}
    "3": {core: 3}
    "4": {socket: 1, numa: 1}
    "5": {core: 1, socket: 1, numa: 1}
    "6": {core: 2, socket: 1, numa: 1}
    "7": {core: 3, socket: 1, numa: 1}
    "8": {}
    "9": {core: 1}
    "10": {core: 2}
    "11": {core: 3}
    "12": {socket: 1, numa: 1}
    "13": {core: 1, socket: 1, numa: 1}
    "14": {core: 2, socket: 1, numa: 1}
    "15": {core: 3, socket: 1, numa: 1}
`

// numatopology returns an object of the exporter, with texts replaced, as an informer's transform converts it.
func numatopology(t *testing.T, replace ...string) *v1alpha2.NodeResourceTopology {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(strings.NewReplacer(replace...).Replace(exported)))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	o, err := nrt.TypedNumatopology(u)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*v1alpha2.NodeResourceTopology)
}

// perNUMA returns what each NUMA node has for pods of all its CPUs and devices, and what is free of that.
func perNUMA(t *testing.T, o *v1alpha2.NodeResourceTopology) string {
	t.Helper()
	r, err := nrt.Read(o)
	if err != nil {
		return err.Error()
	}
	u := usage(r)
	out := []string{r.Rules.Topology.Policy.String()}
	for _, numa := range r.Machine.NUMAs() {
		pods := numa.CPUs.Minus(r.Rules.CPU.Reserved)
		out = append(out, fmt.Sprintf("%d: %d of %d, free %d", numa.ID, pods.Len(), numa.CPUs.Len(),
			pods.AndLen(u.FreeCPUs())))
	}
	for _, res := range r.Machine.Resources() {
		out = append(out, fmt.Sprintf("%s %d, free %d", res.Name, len(res.Devices), len(u.FreeDevices(res.Name))))
	}
	return strings.Join(out, "; ")
}

// The kubelet reserves CPUs 0 and 8, one core, for 1500m. Numbers of cores repeat on the second socket, which has
// nothing reserved. 4, 5, 12 and 13 are held.
func TestNumatopologyOfTheExporter(t *testing.T) {
	o := numatopology(t)
	if o.Name != "node-1" || o.ResourceVersion != "7" || nrt.KindOf(o) != "Numatopology" {
		t.Errorf("object %s %s, version %s", nrt.KindOf(o), o.Name, o.ResourceVersion)
	}
	if got, want := perNUMA(t, o), "single-numa-node; 0: 6 of 8, free 6; 1: 8 of 8, free 4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r, err := nrt.Read(o); err != nil || !r.Rules.CPU.Static || r.Rules.Memory.Static || len(r.Conditions) > 0 {
		t.Errorf("rules %+v, error %v: the object says nothing of memory", r.Rules, err)
	}
}

func TestNumatopologyVariants(t *testing.T) {
	gpus := "numares: {nvidia.com/gpu: {allocatable: \"1,3\"}, "
	detail := "gpuDetail: {\"0\": {numa: 0}, \"1\": {numa: 0}, \"2\": {numa: 1}, \"3\": {numa: -1}}\n  cpuDetail:"
	for name, c := range map[string]struct {
		replace []string
		want    string
	}{
		"no static CPU manager": {[]string{"CPUManagerPolicy: static", "CPUManagerPolicy: none"},
			"single-numa-node; 0: 8 of 8, free 8; 1: 8 of 8, free 8"},
		"nothing reserved": {[]string{"cpu: 1500m, ", ""}, "single-numa-node; 0: 8 of 8, free 8; 1: 8 of 8, free 4"},
		"everything held":  {[]string{"0-3,6-11,14-15", ""}, "single-numa-node; 0: 6 of 8, free 0; 1: 8 of 8, free 0"},
		"other CPUs": {[]string{"0-3,6-11", "0-3,6-11,500-600"},
			"single-numa-node; 0: 6 of 8, free 6; 1: 8 of 8, free 4"},
		"GPUs, one of them on no NUMA node": {[]string{"numares: {", gpus, "cpuDetail:", detail},
			"single-numa-node; 0: 6 of 8, free 6; 1: 8 of 8, free 4; nvidia.com/gpu 3, free 1"},
	} {
		if got := perNUMA(t, numatopology(t, c.replace...)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestNumatopologiesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string
		want    string
	}{
		"policy":         {[]string{"single-numa-node", "strict"}, `unknown value "strict"`},
		"free CPUs":      {[]string{"0-3,6-11", "0-99999999"}, "numares: cpu: allocatable"},
		"reservation":    {[]string{"1500m", "1e999999999"}, `resReserved: cpu: "1e999999999" is no amount`},
		"too much of it": {[]string{"1500m", "\"17\""}, "resReserved: reserve 17 CPUs of 16"},
		"less than none": {[]string{"1500m", "\"-2\""}, "resReserved: cpu"},
		"CPU":            {[]string{"\"15\":", "\"fifteen\":"}, `cpuDetail: "fifteen" is not a CPU`},
		"NUMA node":      {[]string{"core: 3, socket: 1, numa: 1", "core: 3, socket: 1, numa: -1"}, "NUMA node -1"},
		"no CPUs":        {[]string{"cpuDetail:", "other:"}, "cpuDetail is missing"},
		"another form": {[]string{"policies: {CPUManagerPolicy: static, TopologyManagerPolicy: single-numa-node}",
			"policies: 3"}, "does not decode"},
	} {
		_, err := nrt.Read(numatopology(t, c.replace...))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), `Numatopology of node "node-1"`) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Devices that cannot be counted cost only their resource: the CPUs of the node are read.
func TestDevicesOfANumatopologyThatAreLeftOut(t *testing.T) {
	many := "gpuDetail: {"
	for i := range 4097 {
		many += fmt.Sprintf("%q: {numa: 0}, ", fmt.Sprint(i))
	}
	for why, c := range map[string]struct{ free, detail string }{
		"gpuDetail has 4097 devices, the most is 4096":               {"1", many + "}\n  cpuDetail:"},
		`gpuDetail: "one" is not the number of a device in 0..16383`: {"1", "gpuDetail: {one: {numa: 0}}\n  cpuDetail:"},
		`numares: allocatable "3-1" is no list of ids`:               {"3-1", "gpuDetail: {\"1\": {numa: 0}}\n  cpuDetail:"},
	} {
		gpus := fmt.Sprintf("numares: {nvidia.com/gpu: {allocatable: %q}, ", c.free)
		o := numatopology(t, "numares: {", gpus, "cpuDetail:", c.detail)
		if got, want := perNUMA(t, o), "single-numa-node; 0: 6 of 8, free 6; 1: 8 of 8, free 4"; got != want {
			t.Errorf("%s: got %s, want %s", why, got, want)
			continue
		}
		if r, err := nrt.Read(o); err != nil || len(r.Omitted) != 1 || r.Omitted["nvidia.com/gpu"] != why {
			t.Errorf("left out %v, error %v; want %q", r.Omitted, err, why)
		}
	}
}
