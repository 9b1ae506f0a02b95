package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const operators = "../../examples/operators/"

// operatorMachines are the machines for which docs/howto/workloads.md checks its examples, without ".txt" and ".yaml".
var operatorMachines = map[string]string{
	"jobset.yaml":        "../../lab/machines/gpu-8",
	"mpijob.yaml":        "../../lab/machines/xeon-2s",
	"nodeset.yaml":       operators + "machines/slurm",
	"raycluster.yaml":    "../../lab/machines/gpu-8",
	"trainjob.yaml":      "../../lab/machines/gpu-8",
	"virt-launcher.yaml": operators + "machines/kubevirt",
}

// checksOperator runs check on an example and its machine, with old replaced in the example and in the kubelet's
// configuration.
func checksOperator(t *testing.T, file, old, with string) (checkDocument, string) {
	t.Helper()
	machine, dir, found := operatorMachines[file], t.TempDir(), false
	for name, path := range map[string]string{"pods.yaml": operators + file, "kubelet.yaml": machine + ".yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(text, []byte(old))
		changed := bytes.ReplaceAll(text, []byte(old), []byte(with))
		if err := os.WriteFile(filepath.Join(dir, name), changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("neither %s nor its machine has %q", file, old)
	}
	args := []string{"check", "-f", filepath.Join(dir, "pods.yaml"), "--machine", machine + ".txt", "--kubelet-config",
		filepath.Join(dir, "kubelet.yaml")}
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		Run(t.Context(), args, &out, &errs, Setup{Stages: stages(nil)})
		return out.String() + errs.String()
	}
	var doc checkDocument
	if shown := run(append(args, "-o", "json")...); json.Unmarshal([]byte(shown), &doc) != nil {
		t.Fatalf("%s: %s", file, shown)
	}
	return doc, run(args...)
}

// The page on operators shows each example as it is, all their pods pass without a warning on the machine that the page
// names, and the answers of check that the page shows for altered examples are what check answers.
func TestExamplesOfOperatorsPass(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(operators + "*.yaml")
	if err != nil || len(files) != len(operatorMachines)+1 {
		t.Fatalf("%d examples, %v; want those with a machine and a virtual machine", len(files), err)
	}
	for _, path := range files {
		file := filepath.Base(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shown := bytes.Contains(page, append([]byte("```yaml\n"), append(text, "```"...)...))
		if !shown && file != "virt-launcher.yaml" {
			t.Errorf("docs/howto/workloads.md does not show %s", file)
		}
		if operatorMachines[file] == "" {
			continue
		}
		doc, all := checksOperator(t, file, "kind", "kind")
		if !doc.Passes || strings.Contains(all, "Warning") {
			t.Errorf("%s does not pass:\n%s", file, all)
		}
	}
	for _, c := range []struct{ file, old, with string }{
		{"virt-launcher.yaml", `cpu: "18"`, `cpu: "17"`},
		{"nodeset.yaml", "limits: {cpu: 100m, memory: 64Mi}", "limits: {}"},
		{"nodeset.yaml", "topologyManagerScope: pod", "topologyManagerScope: container"},
	} {
		_, all := checksOperator(t, c.file, c.old, c.with)
		said, _, _ := strings.Cut(all, "\n\nNo API server")
		for _, begin := range []string{"Warning: ", "node slurm:\n"} {
			if _, rest, ok := strings.Cut(said, begin); ok && c.file == "nodeset.yaml" {
				said = begin + rest
			}
		}
		if !strings.Contains(unindented(string(page)), unindented(said)) {
			t.Errorf("docs/howto/workloads.md does not show what check answers to %s with %s:\n%s", c.file, c.with, said)
		}
	}
}

// The examples of gangs pass on the machine of the page about gangs.
func TestExamplesOfGangsPass(t *testing.T) {
	files, err := filepath.Glob(operators + "gangs/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d examples, %v; want 3", len(files), err)
	}
	const machine = "../../lab/machines/xeon-2s"
	for _, path := range files {
		var out, errs bytes.Buffer
		Run(t.Context(), []string{"check", "-f", path, "--machine", machine + ".txt", "--kubelet-config",
			machine + ".yaml", "-o", "json"}, &out, &errs, Setup{Stages: stages(nil)})
		var doc checkDocument
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil || !doc.Passes {
			t.Errorf("%s does not pass: %v\n%s%s", path, err, out.String(), errs.String())
		}
	}
}

// unindented returns a text without the spaces at the beginning of its lines.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
