package dropin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/node/kubelet"
)

// values are the possible values of files, by field.
var values = []struct {
	field  string
	values []string
}{
	{"topologyManagerPolicy", []string{"none", "restricted", "best-effort", "single-numa-node", `""`, "[]"}},
	{"topologyManagerScope", []string{"pod", "container"}},
	{"topologyManagerPolicyOptions", []string{`{prefer-closest-numa-nodes: "true"}`, `{max-allowable-numa-nodes: "9"}`,
		`{}`, `{prefer-closest-numa-nodes: null}`}},
	{"cpuManagerPolicy", []string{"static", "none"}},
	{"cpuManagerPolicyOptions", []string{`{full-pcpus-only: "true"}`,
		`{full-pcpus-only: "false", strict-cpu-reservation: "true"}`, `{strict-cpu-reservation: null}`}},
	{"systemReserved", []string{`{cpu: 500m}`, `{cpu: "1", memory: 1Gi}`, `{memory: 2Gi}`, `{cpu: null}`}},
	{"kubeReserved", []string{`{cpu: 1500m}`, `{memory: 1Gi}`}},
	{"reservedSystemCPUs", []string{`"0"`, `0-1`, `""`}},
	{"memoryManagerPolicy", []string{"Static", "None"}},
	{"reservedMemory", []string{`[{numaNode: 0, limits: {memory: 1Gi}}]`,
		`[{numaNode: 1, limits: {memory: 2Gi, hugepages-1Gi: 1Gi}}]`, `[]`}},
	{"maxPods", []string{"100"}},
	{"syncFrequency", []string{"10s"}},
}

// draw draws a configuration file, or a drop-in, which may remove values.
func draw(t *rapid.T, dropIn bool) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
	for _, f := range values {
		choices := append([]string{""}, f.values...)
		if dropIn {
			choices = append(choices, "null")
		}
		if v := rapid.SampledFrom(choices).Draw(t, f.field); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", f.field, v)
		}
	}
	return b.String()
}

// The agent derives the same rules from the files of a kubelet, and from the kubelet's answer, as the kubelet itself
// does from the files.
func TestAgentMergesAsTheKubelet(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		home := filepath.Join(root, fmt.Sprint(n))
		files := kubelet.Files{File: filepath.Join(home, "config.yaml"), Dir: filepath.Join(home, "d")}
		write(t, files.File, draw(t, false))
		write(t, filepath.Join(files.Dir, "readme.txt"), "[")
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"b.conf", "05/z.conf", "a.conf"}),
			rapid.ID[string]).Draw(t, "files") {
			write(t, filepath.Join(files.Dir, name), draw(t, true))
		}
		theirs, err := Merge(files.File, files.Dir)
		ours, oursErr := files.Configuration(t.Context())
		if err != nil {
			if oursErr == nil {
				t.Fatalf("the kubelet says %v, the agent %+v", err, ours)
			}
			return
		}
		answer, err := json.Marshal(map[string]any{"kubeletconfig": theirs})
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := kubelet.ParseEffective(answer)
		if (wantErr == nil) != (oursErr == nil) || wantErr == nil &&
			fmt.Sprint(want.Rules, want.ReserveCPUs) != fmt.Sprint(ours.Rules, ours.ReserveCPUs) {
			t.Fatalf("the kubelet's\n%+v (%v)\nthe agent's\n%+v (%v)", want, wantErr, ours, oursErr)
		}
	})
}

func write(t *rapid.T, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
