package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/internal/golden"
)

// Pods that a kubelet refused say nothing of the usual workload: their controller makes one after the other.
func TestRefusedPodsAreNotUsual(t *testing.T) {
	cluster := scattered(t, nil)
	for i := range 50 {
		p := runningPod(fmt.Sprintf("again-%d", i), "gpu-a", "30", "10Gi", "1")
		p.Status.Phase, p.Status.Reason = v1.PodFailed, "TopologyAffinityError"
		cluster = withPod(t, cluster, p)
	}
	s, _, err := export([]byte(cluster))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Usual() {
		if p.Containers[0].MilliCPU == 30_000 {
			t.Fatalf("%d usual pods, among them those that were refused", len(s.Usual()))
		}
	}
}

func TestTopWritesAsDrawn(t *testing.T) {
	exported := gpuCluster(t)
	for file, line := range map[string]string{
		"top.txt":       "top",
		"top-wide.txt":  "top -o wide",
		"top-shape.txt": "top --shape cpu=8,memory=16Gi,gpu=1 --shape cpu=31",
		"top.json":      "top gpu-b --shape cpu=8,memory=16Gi -o json",
		"top-names.txt": "top -o name",
	} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), strings.Fields(line), &out, &errs, Setup{Stages: stages(exported)}); code != 0 {
			t.Errorf("%s: exit code %d, stderr %q", line, code, errs.String())
		}
		golden.Check(t, "testdata/"+file, out.String())
		if strings.HasSuffix(file, ".txt") && !strings.Contains(line, "wide") {
			checkWidth(t, out.String())
		}
	}
}

func TestTopNamesWhatIsWrong(t *testing.T) {
	exported := gpuCluster(t)
	for line, want := range map[string]string{
		"top nowhere":                        `error: node "nowhere" is not known`,
		"top --shape cpu":                    `error: --shape "cpu": "cpu": want RESOURCE=AMOUNT`,
		"top --shape cpu=-1":                 `want RESOURCE=AMOUNT`,
		"top --shape cpu=9e18":               `want RESOURCE=AMOUNT`,
		"top --shape cpu=1,cpu=2":            "cpu is given twice",
		"top --shape gpu=1,nvidia.com/gpu=1": "nvidia.com/gpu is given twice",
		"top --shape tpu=1":                  `no node has "tpu": known are cpu, memory, nvidia.com/gpu`,
		"top -o xml":                         `error: output format "xml" is not known`,
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), strings.Fields(line), &out, &errs, Setup{Stages: stages(exported)})
		if code != ExitError || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, stderr %q; want %q", line, code, errs.String(), want)
		}
	}
}

// Devices of claims are kept also where no room is: a request may keep nothing but devices on the nodes that are shown.
func TestTopWritesKeptDevicesAlone(t *testing.T) {
	c := &capacity{Nodes: []roomOn{{Name: "a", ClaimDevices: []room{{Resource: "gpu.example.com", Kept: 2}}}}}
	var b strings.Builder
	const want = "Devices of claims are kept for pods that have not come, and do not count as free: gpu.example.com 2.\n"
	if err := c.writeKept(&b); err != nil || b.String() != want {
		t.Errorf("wrote %q (%v), want %q", b.String(), err, want)
	}
}
