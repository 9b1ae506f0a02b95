package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
)

// whole connects every command: to a small cluster, or to nothing if broken is set.
func whole(t *testing.T, broken bool) Setup {
	t.Helper()
	if broken {
		lost := errors.New("no connection")
		return Setup{Version: "v0-test", Stages: stages(nil),
			Connect:  func(Kubeconfig) (Cluster, string, error) { return nil, "", lost },
			Affinity: func(context.Context, Kubeconfig, string) (document.Affinity, error) { return document.Affinity{}, lost },
			Doctor: func(context.Context, Kubeconfig, DoctorOptions) (document.Diagnosis, error) {
				return document.Diagnosis{}, lost
			},
			Bundle: func(context.Context, Kubeconfig, BundleOptions, io.Writer) (BundleContent, error) {
				return BundleContent{}, lost
			},
			KubeletPlan: func(context.Context, Kubeconfig, whatif.Variation) (document.KubeletPlan, error) {
				return document.KubeletPlan{}, lost
			},
			ApplyKubelets: func(Kubeconfig, KubeletApplyOptions) (KubeletApplier, error) { return nil, lost },
			Move:          func(Kubeconfig, MoveOptions) (Mover, error) { return nil, lost },
			Console:       func(context.Context, Kubeconfig, ConsoleOptions) error { return lost },
		}
	}
	return Setup{Version: "v0-test", Stages: stages(gpuCluster(t)),
		Connect:  func(k Kubeconfig) (Cluster, string, error) { return small(t), k.Namespace(), nil },
		Affinity: func(context.Context, Kubeconfig, string) (document.Affinity, error) { return measured(), nil },
		Doctor: func(_ context.Context, _ Kubeconfig, o DoctorOptions) (d document.Diagnosis, err error) {
			switch o.Node {
			case "bad":
				d.Findings = []document.Finding{{ID: "x", Severity: document.Broken}}
			case "unread":
				d.Limits = []document.Limit{{Resource: "leases", Reason: "you may not read them"}}
			}
			return d, nil
		},
		Bundle: func(_ context.Context, _ Kubeconfig, o BundleOptions, w io.Writer) (c BundleContent, err error) {
			if o.Hash {
				c.Missing = []document.Limit{{Resource: "nodes", Reason: "Forbidden"}}
			}
			return c, nil
		},
		KubeletPlan: func(_ context.Context, _ Kubeconfig, v whatif.Variation) (p document.KubeletPlan, err error) {
			switch v.Selector {
			case "full=":
				p.Moves = []document.PlannedMove{{Why: "no room"}}
			case "unread=":
				p.Limits = []document.Limit{{Resource: "pods", Reason: "you may not list them"}}
			}
			return p, nil
		},
		ApplyKubelets: func(Kubeconfig, KubeletApplyOptions) (KubeletApplier, error) { return oneNode{}, nil },
		Move:          func(Kubeconfig, MoveOptions) (Mover, error) { return &recorded{}, nil },
		Console:       func(context.Context, Kubeconfig, ConsoleOptions) error { return nil },
	}
}

// oneNode changes one node without an error.
type oneNode struct{}

func (oneNode) Pending(context.Context, document.KubeletPlan) ([]document.KubeletPlanNode, error) {
	return []document.KubeletPlanNode{{Name: "a"}}, nil
}

func (oneNode) Run(context.Context, []document.KubeletPlanNode, func(document.KubeletStep)) error {
	return nil
}

// exits has, for every command, arguments that lead to each exit code. DIR stands for a folder with files. A kind of
// workload is explained as a deployment is.
var exits = map[string]map[int]string{
	"explain pod":        {ExitYes: "ml/trainer-9", ExitError: "ml/nope"},
	"explain node":       {ExitYes: "gpu-a", ExitError: "nope"},
	"explain deployment": {ExitYes: "ml/trainer"},
	"explain":            {ExitYes: "pod/huge -n ml", ExitError: "huge"},
	"map":                {ExitYes: "", ExitError: "nope"},
	"pods":               {ExitYes: "-A --misaligned", ExitError: "-n ml nope"},
	"top":                {ExitYes: "", ExitError: "nope"},
	"simulate": {ExitYes: "-f DIR/fits.yaml", ExitNo: "-f DIR/huge.yaml", ExitError: "-f DIR/nope.yaml",
		ExitPart: "-f DIR/vm.yaml"},
	"defrag": {ExitYes: "-f DIR/fits.yaml", ExitNo: "-f DIR/huge.yaml", ExitError: "-f DIR/nope.yaml",
		ExitPart: "-f DIR/vm.yaml"},
	"defrag apply": {ExitYes: "DIR/moves.json --yes", ExitError: "DIR/nope.json"},
	"check": {ExitYes: "-f DIR/fits.yaml", ExitNo: "-f DIR/huge.yaml", ExitError: "-f DIR/nope.yaml",
		ExitPart: "-f DIR/vm.yaml"},
	"affinity": {ExitYes: "", ExitError: "-o xml"},
	"doctor":   {ExitYes: "", ExitNo: "--node bad", ExitError: "--pod A/b", ExitPart: "--node unread"},
	"bundle":   {ExitYes: "-f DIR/a.tar.gz", ExitError: "", ExitPart: "-f DIR/b.tar.gz --hash-names"},
	"kubelet":  {ExitError: ""},
	"kubelet plan": {ExitYes: "--policy none", ExitNo: "--policy none -l full=", ExitError: "--policy nope",
		ExitPart: "--policy none -l unread="},
	"kubelet apply": {ExitYes: "DIR/plan.json --yes", ExitNo: "DIR/plan.json", ExitError: "DIR/nope.json"},
	"compare":       {ExitYes: "--trace testdata/compare.trace --nodes 2", ExitError: "--trace nope"},
	"console":       {ExitYes: "", ExitError: "--port 70000"},
	"version":       {ExitYes: "", ExitError: "nope"},
}

// Every command ends with one of the four exit codes, and each code means the same for all of them: 0 yes, 1 no,
// 2 no answer, 3 an answer with gaps.
func TestExitCodesMeanTheSameForEveryCommand(t *testing.T) {
	dir := t.TempDir()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: " +
		"{limits: {cpu: CPUS, memory: 1Gi}}}]}\n"
	const vm = "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: big}\nspec: {template: {spec: " +
		"{domain: {}}}}\n"
	for name, text := range map[string]string{"fits.yaml": strings.Replace(pod, "CPUS", "1", 1), "plan.json": "{}",
		"moves.json": `{"kind": "Defragmentation", "found": true, "asked": ["--pending"]}`,
		"huge.yaml":  strings.Replace(pod, "CPUS", "300", 1), "vm.yaml": strings.Replace(pod, "CPUS", "1", 1) + vm} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[int]int{}
	exit := func(want int, s Setup, path, args string) {
		t.Helper()
		line := strings.Fields(path + " " + strings.ReplaceAll(args, "DIR", dir))
		var out, errs bytes.Buffer
		got := Run(t.Context(), line, &out, &errs, s)
		failed := strings.HasPrefix(errs.String(), "error: ") || strings.HasPrefix(errs.String(), "Error from server")
		if seen[got]++; got != want || failed != (want == ExitError) {
			t.Errorf("kubectl tenon %s: exit code %d, want %d, and an error on stderr only with %d\n%s%s",
				strings.Join(line, " "), got, want, ExitError, &out, &errs)
		}
	}
	good, broken := whole(t, false), whole(t, true)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "kubectl tenon"), " ")
		lines := exits[path]
		if kind, ok := strings.CutPrefix(path, "explain "); ok && workloadTypes[kind] != nil {
			lines = exits["explain deployment"]
		}
		if lines == nil && path != "" {
			t.Errorf("no exit codes of the command %q are tried", path)
		}
		for _, code := range slices.Sorted(maps.Keys(lines)) {
			exit(code, good, path, lines[code])
		}
		exit(ExitError, good, path, "--no-such-flag")
		if args, ok := lines[ExitYes]; ok && path != "version" && path != "compare" {
			exit(ExitError, broken, path, args)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newApp(Setup{}).root())
	exit(ExitError, good, "no-such-command", "")
	for code := range 4 {
		if seen[code] == 0 {
			t.Errorf("no command was seen to end with %d", code)
		}
	}
}

// "Every pod starts again" is not written about a plan that leaves pods out of account.
func TestAPlanWithoutAllPodsSaysSo(t *testing.T) {
	for pods, want := range map[string]string{"pods": "Every pod that could be read would start again.",
		"poddisruptionbudgets": "Every pod that runs there now would start again."} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{"kubelet", "plan", "--policy", "none"}, &out, &errs, Setup{
			KubeletPlan: func(context.Context, Kubeconfig, whatif.Variation) (document.KubeletPlan, error) {
				return document.KubeletPlan{Nodes: []document.KubeletPlanNode{{Name: "a"}},
					Limits: []document.Limit{{Resource: pods, Reason: "you may not list them"}}}, nil
			}})
		named := "Not looked at: " + pods + ": you may not list them."
		if code != ExitPart || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), named) {
			t.Errorf("without %s: exit code %d, want %d and %q\n%s%s", pods, code, ExitPart, want, &out, &errs)
		}
	}
}
