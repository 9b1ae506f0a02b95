package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/internal/golden"
)

// claiming is a cluster whose claims are known.
type claiming struct {
	cluster
	claims *document.Claims
}

func (c claiming) Claims(context.Context) (*document.Claims, error) { return c.claims, nil }

func gpu(name string) document.DeviceName {
	return document.DeviceName{Driver: "gpu.example.com", Pool: "gpu-b", Device: name}
}

func holder(claim string, pods ...string) document.ClaimHolder {
	h := document.ClaimHolder{Namespace: "ml", Claim: claim}
	for _, p := range pods {
		h.Pods = append(h.Pods, document.PodOf(id(p)))
	}
	return h
}

// withClaims returns the small cluster. On gpu-b, where trainer-0 holds CPUs of NUMA node 0, a driver publishes GPUs:
// trainer-0 has one of each NUMA node, and web, which holds nothing else, has a network device. One is kept for a
// request, so trainer-9, which waits, does not get it.
func withClaims(t testing.TB) claiming {
	c := small(t)
	for _, name := range []string{"ml/trainer-0", "ml/trainer-9"} {
		p := c.pods[name]
		p.Claimed = true
		c.pods[name] = p
	}
	c.pods["ml/light"] = view.Pod{ID: id("ml/light"), Phase: "Running", Node: "gpu-b", Claimed: true,
		Pod: &place.Pod{QoS: place.Burstable, Containers: []place.Container{{Name: "web", MilliCPU: 250}}}}
	zero, one := new(int32(0)), new(int32(1))
	nic := document.DeviceName{Driver: "dra.net", Pool: "gpu-b", Device: "eth1"}
	next := document.KeptFor{Request: "ml/next", Until: "2026-12-01T12:10:00Z"}
	of0 := []document.ClaimHolder{holder("trainer-0-gpus-x7k2p", "ml/trainer-0")}
	return claiming{c, &document.Claims{
		Nodes: map[string]*document.NodeClaims{"gpu-b": {
			Devices: []document.ClaimDevice{
				{DeviceName: nic, Holders: []document.ClaimHolder{holder("light-nic", "ml/light")}},
				{DeviceName: gpu("gpu-0"), NUMA: zero, Holders: of0},
				{DeviceName: gpu("gpu-1"), NUMA: zero, Kept: &next},
				{DeviceName: gpu("gpu-2"), NUMA: one, Holders: of0},
				{DeviceName: gpu("gpu-3"), NUMA: one, Near: "0-1", Shared: true},
				{DeviceName: gpu("gpu-4"), NUMA: one, Holders: []document.ClaimHolder{holder("secret")}},
				{DeviceName: gpu("gpu-9"), Unpublished: true, Holders: of0},
			},
			Problems: []string{"driver gpu.example.com, pool gpu-b: 1 of 2 slices are there"}}},
		Pods: map[string]*document.PodClaims{
			"uid-of-trainer-0": {Devices: []document.PodDevice{
				{Claim: "trainer-0-gpus-x7k2p", DeviceName: gpu("gpu-0"), NUMA: zero},
				{Claim: "trainer-0-gpus-x7k2p", DeviceName: gpu("gpu-2"), NUMA: one, Apart: true},
				{Claim: "trainer-0-gpus-x7k2p", DeviceName: gpu("gpu-9")}}},
			"uid-of-light": {Devices: []document.PodDevice{{Claim: "light-nic", DeviceName: nic}}},
			"uid-of-trainer-9": {Devices: []document.PodDevice{},
				Without: []string{"claim gpus is not made from its template yet"}, MoreKept: 3,
				Kept: []document.KeptDevices{{Node: "gpu-b", Driver: "gpu.example.com", Devices: 1, KeptFor: next}}},
		}}}
}

func TestDevicesOfClaimsAreWrittenBesideTheOthers(t *testing.T) {
	c := withClaims(t)
	for file, line := range map[string]string{
		"claims-map.txt":           "map gpu-b",
		"claims-nodes.txt":         "map -o wide",
		"claims-map.json":          "map gpu-b -o json",
		"claims-pods.txt":          "pods -n ml --node gpu-b",
		"claims-pods-wide.txt":     "pods -n ml --node gpu-b -o wide",
		"claims-misaligned.txt":    "pods -n ml --misaligned",
		"claims-pod.json":          "pods ml/light -o json",
		"claims-explain.txt":       "explain pod ml/trainer-0",
		"claims-explain.json":      "explain pod ml/trainer-0 -o json",
		"claims-explain-wait.txt":  "explain pod ml/trainer-9",
		"claims-explain-wait.json": "explain pod ml/trainer-9 -o json",
		"claims-workload.txt":      "explain deploy/trainer -n ml",
	} {
		answers(t, c, file, line)
	}
}

// A person without the right to list the objects of DRA gets everything else, and the reason.
func TestClaimsThatMayNotBeRead(t *testing.T) {
	const why = "resourceslices were not read (you may not list them); resourceclaims were not read (you may not list " +
		"them)"
	c := withClaims(t)
	c.claims = &document.Claims{Unread: why, Pods: map[string]*document.PodClaims{"uid-of-trainer-0": {
		Devices: []document.PodDevice{}, Without: []string{"claim gpus was not read"}, Unread: why}}}
	for line, want := range map[string]string{
		"map gpu-b":                "Devices of claims are not known: " + why,
		"pods -n ml":               "Devices of claims may be missing here: " + why,
		"explain pod ml/trainer-0": "Devices of its claims may be missing here: resourceslices were not read",
	} {
		out, errs, code := run(t, c, strings.Fields(line)...)
		without, _, _ := run(t, c.cluster, strings.Fields(line)...)
		for part := range strings.Lines(without) {
			if !strings.Contains(out, part) {
				t.Errorf("%s: the line %q is missing in\n%s", line, part, out)
			}
		}
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%s: code %d, stderr %q, and\n%s", line, code, errs, out)
		}
	}
}

// failing is a cluster whose pods must not be asked for claims.
type failing struct{ cluster }

func (failing) Claims(context.Context) (*document.Claims, error) {
	return nil, errors.New("claims were read")
}

// Where no pod has a claim, the lists of pods cost no request more.
func TestPodsWithoutClaimsReadNone(t *testing.T) {
	c := failing{small(t)}
	for _, line := range []string{"pods -A", "explain pod ml/trainer-0", "explain deploy/trainer -n ml"} {
		if _, errs, code := run(t, c, strings.Fields(line)...); code != 0 {
			t.Errorf("%s: code %d, %s", line, code, errs)
		}
	}
	if _, errs, code := run(t, c, "map"); code != ExitError || !strings.Contains(errs, "claims were read") {
		t.Errorf("map: code %d, %s", code, errs)
	}
}

// exportWithClaims returns the cluster of gpuCluster with a driver on gpu-b, a claim of trainer-0 for one of its three
// devices, and a request for whose pod another one is kept.
func exportWithClaims(t testing.TB) []byte {
	t.Helper()
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(gpuCluster(t), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o["kind"] == "Pod" && o["metadata"].(map[string]any)["name"] == "trainer-0" {
			o["spec"].(map[string]any)["resourceClaims"] = []any{map[string]any{"name": "fpga", "resourceClaimName": "fpgas"}}
		}
	}
	const objects = `[{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": [{"metadata": {"name": "s"},
 "spec": {"driver": "fpga.example.com", "nodeName": "gpu-b", "pool": {"name": "gpu-b", "generation": 1,
  "resourceSliceCount": 1}, "devices": [
   {"name": "f0", "attributes": {"resource.kubernetes.io/numaNode": {"int": 0}}},
   {"name": "f1", "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}},
   {"name": "f2", "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}}]}}]},
 {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "fpgas", "namespace": "ml"},
  "status": {"allocation": {"devices": {"results": [{"request": "r", "driver": "fpga.example.com", "pool": "gpu-b",
   "device": "f1"}]}}, "reservedFor": [{"resource": "pods", "name": "trainer-0", "uid": "uid-of-trainer-0"}]}},
 {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": "next", "namespace": "ml"},
  "spec": {"provisioningClassName": "check-capacity.tenon.sh", "podSets": [{"count": 1}]},
  "status": {"conditions": [{"type": "Provisioned", "status": "True", "lastTransitionTime": "2026-12-01T12:00:00Z"}],
   "provisioningClassDetails": {"tenon.sh/places-0": "[{\"node\":\"gpu-b\",\"count\":1}]",
    "tenon.sh/pod-0": "{\"spec\":{\"containers\":[{\"name\":\"main\"}]}}", "tenon.sh/devices-0":
    "[{\"node\":\"gpu-b\",\"driver\":\"fpga.example.com\",\"pool\":\"gpu-b\",\"devices\":[\"f0\"]}]"}}}]`
	var more []map[string]any
	if err := json.Unmarshal([]byte(objects), &more); err != nil {
		t.Fatal(err)
	}
	list.Items = append(list.Items, more...)
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A file of kubectl keeps slices and claims: top counts the devices, and simulate draws them.
func TestClaimsOfAFile(t *testing.T) {
	exported := exportWithClaims(t)
	for file, line := range map[string]string{"claims-top.txt": "top --shape cpu=8,memory=16Gi",
		"claims-top.json": "top gpu-b --shape cpu=8,memory=16Gi -o json"} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), strings.Fields(line), &out, &errs, Setup{Stages: stages(exported)}); code != 0 {
			t.Errorf("%s: exit code %d, stderr %q", line, code, errs.String())
		}
		golden.Check(t, "testdata/"+file, out.String())
	}
	out, errs, code := simulate(t, exported, "", "--without", "gpu-a", "--map")
	if text := strings.Join(strings.Fields(out), " "); code == ExitError ||
		!strings.Contains(text, "1 fpga.example.com 2 1 f1 by ml/trainer-0") {
		t.Errorf("simulate: code %d, %s%s", code, out, errs)
	}
}

// Names as long as the API server takes them leave tables readable.
func TestLongNamesOfClaims(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	name := document.DeviceName{Driver: long(63), Pool: long(253), Device: long(63)}
	one := document.ClaimHolder{Namespace: long(63), Claim: long(253)}
	c := withClaims(t)
	for _, numa := range []*int32{nil, new(int32(1))} {
		c.claims.Nodes["gpu-b"].Devices = append(c.claims.Nodes["gpu-b"].Devices, document.ClaimDevice{DeviceName: name,
			NUMA: numa, Holders: []document.ClaimHolder{one, holder("x", "ml/"+long(253))}})
		p := c.claims.Pods["uid-of-trainer-0"]
		p.Devices = append(p.Devices, document.PodDevice{Claim: long(253), DeviceName: name, NUMA: numa})
	}
	for _, line := range []string{"map gpu-b", "pods -n ml", "explain pod ml/trainer-0"} {
		out, errs, code := run(t, c, strings.Fields(line)...)
		if code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s", line, code, errs)
		}
		checkWidth(t, out)
	}
}
