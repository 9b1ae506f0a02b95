package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
)

const gi = 1 << 30

// cluster is a cluster made of plain data.
type cluster struct {
	nodes    []*state.Node
	problems []document.Problem
	pods     map[string]view.Pod
}

func (c cluster) Nodes(context.Context) ([]*state.Node, []document.Problem, error) {
	return c.nodes, c.problems, nil
}

func (c cluster) Pod(_ context.Context, namespace, name string) (view.Pod, error) {
	p, ok := c.pods[namespace+"/"+name]
	if !ok {
		return view.Pod{}, fmt.Errorf("get pod: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name))
	}
	return p, nil
}

func (c cluster) Pods(_ context.Context, namespace string) (out []view.Pod, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[name]; namespace == "" || p.ID.Namespace == namespace {
			out = append(out, p)
		}
	}
	return out, nil
}

// PodsOf returns the pods whose names begin with the workload's name.
func (c cluster) PodsOf(ctx context.Context, kind, namespace, name string) ([]view.Pod, error) {
	pods, err := c.Pods(ctx, namespace)
	return slices.DeleteFunc(pods, func(p view.Pod) bool { return !strings.HasPrefix(p.ID.Name, name+"-") }), err
}

func machine(t testing.TB, text string) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func node(t testing.TB, name, text string, p place.Policy, entries ...state.Entry) *state.Node {
	m := machine(t, text)
	r := place.Rules{
		Topology: place.TopologyRules{Policy: p},
		CPU:      place.CPURules{Static: true, Reserved: m.CoreCPUs(m.Cores()[0])},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{
			{NUMA: m.NUMAs()[0].ID, Kind: topo.Memory, Bytes: gi}}},
	}
	u := place.NewUsage(m, r)
	for _, e := range entries {
		u = u.Hold(e.Holdings...)
	}
	return &state.Node{Name: name, Machine: m, Rules: r, Entries: entries, Usage: u}
}

const xeon = `
numa 0 socket 0 cpus 0-15/32-47 memory 192Gi
numa 1 socket 1 cpus 16-31/48-63 memory 192Gi
distances 10 21
distances 21 10
device nvidia.com/gpu gpu-0-0,gpu-0-1 numa 0
device nvidia.com/gpu gpu-1-0,gpu-1-1 numa 1
`

func id(name string) state.PodID {
	ns, n, _ := strings.Cut(name, "/")
	return state.PodID{UID: "uid-of-" + n, Namespace: ns, Name: n}
}

func entry(t testing.TB, name string, s state.Source, list string, memGi int64, on topo.Mask,
	gpus ...string) state.Entry {
	t.Helper()
	set, err := idset.Parse[idset.CPU](list)
	if err != nil {
		t.Fatal(err)
	}
	h := place.Holding{Container: "main", CPUs: set,
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: on, Bytes: memGi * gi}}}
	if len(gpus) > 0 {
		h.Devices = []place.DeviceBlock{{Resource: "nvidia.com/gpu", IDs: gpus, NUMAs: on}}
	}
	return state.Entry{Pod: id(name), Source: s, Holdings: []place.Holding{h}}
}

func wanting(cpus, memGi, gpus int64) *place.Pod {
	c := place.Container{Name: "main", MilliCPU: cpus * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: memGi * gi}}}
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: "nvidia.com/gpu", N: gpus}}
	}
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}
}

func small(t testing.TB) cluster {
	sidecar := place.Container{Name: "metrics", Kind: place.Sidecar, MilliCPU: 500,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}}
	withSidecar := wanting(8, 48, 1)
	withSidecar.Containers = []place.Container{sidecar, withSidecar.Containers[0]}
	return cluster{
		nodes: []*state.Node{
			node(t, "gpu-b", xeon, place.SingleNUMA,
				entry(t, "ml/trainer-0", state.Observed, "1-12,33-44", 100, 1, "gpu-0-0")),
			node(t, "gpu-d", xeon, place.BestEffort,
				entry(t, "ml/split", state.Observed, "13-14,16-17", 10, 3)),
			node(t, "gpu-a", xeon, place.SingleNUMA,
				entry(t, "ml/wide-0", state.Observed, "1-14,33-46", 100, 1, "gpu-0-0"),
				entry(t, "ml/wide-1", state.Predicted, "16-29,48-61", 100, 2, "gpu-1-0")),
			node(t, "gpu-c", xeon, place.SingleNUMA,
				entry(t, "ml/wide-2", state.Observed, "1-14,33-46", 100, 1, "gpu-0-0"),
				entry(t, "ml/wide-3", state.Observed, "16-29,48-61", 100, 2, "gpu-1-0")),
			node(t, "plain-1", "numa 0 cpus 0-7 memory 32Gi\n", place.Restricted),
		},
		problems: []document.Problem{
			{Node: "edge-2", Reason: "its layout was refused: NUMA node 3: 7 distances for 2 NUMA nodes"},
			{Node: "edge-1", Reason: "no NodeLayout has been published; is tenon-agent running there?"},
		},
		pods: map[string]view.Pod{
			"ml/trainer-9": {ID: id("ml/trainer-9"), Pod: withSidecar, Phase: "Pending"},
			"ml/trainer-0": {ID: id("ml/trainer-0"), Pod: wanting(24, 100, 1), Phase: "Running", Node: "gpu-b"},
			"ml/split":     {ID: id("ml/split"), Pod: wanting(4, 10, 0), Phase: "Running", Node: "gpu-d"},
			"ml/huge":      {ID: id("ml/huge"), Pod: wanting(200, 10, 0), Phase: "Pending"},
			"ml/refused": {ID: id("ml/refused"), Pod: wanting(8, 48, 1), Phase: "Failed", Node: "gpu-a",
				Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality"},
			"ml/lost": {ID: id("ml/lost"), Pod: wanting(8, 48, 1), Phase: "Running", Node: "edge-1"},
			"ml/strict": {ID: id("ml/strict"), Pod: wanting(40, 10, 0), Phase: "Pending",
				Demand: place.Demand{Policy: place.SingleNUMA}},
			"ml/paired": {ID: id("ml/paired"), Pod: wanting(40, 10, 1), Phase: "Pending",
				Misspelt: []string{"nothing reads the annotation tenon.sh/numa-polcy; tenon.sh/numa-policy may be meant"},
				Demand:   place.Demand{Policy: place.SingleNUMA, Align: place.NamesOf("nvidia.com/gpu", "cpu", "memory")}},
			"default/web": {ID: id("default/web"), Phase: "Running", Node: "gpu-a", Pod: &place.Pod{QoS: place.Burstable,
				Containers: []place.Container{{Name: "web", MilliCPU: 250}}}},
			"default/done": {ID: id("default/done"), Phase: "Succeeded", Node: "gpu-a", Pod: wanting(1, 1, 0)},
		},
	}
}

// run runs one command line on a cluster.
func run(t testing.TB, c Cluster, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, &out, &errs, Setup{
		Version:    "v0-test",
		Catalogued: []string{"gpu-8", "xeon-2s"},
		Connect: func(k Kubeconfig) (Cluster, string, error) {
			if c == nil {
				return nil, "", errors.New("no cluster here")
			}
			return c, k.Namespace(), nil
		},
	})
	return out.String(), errs.String(), code
}

func TestCommandsWriteAsDrawn(t *testing.T) {
	c := small(t)
	for file, line := range map[string]string{
		"explain-pending.txt":   "explain pod ml/trainer-9",
		"explain-pending.json":  "explain pod -n ml trainer-9 -o json",
		"explain-bound.txt":     "explain pod ml/trainer-0",
		"explain-bound-all.txt": "explain pod ml/trainer-0 --all",
		"explain-bound.json":    "explain pod ml/trainer-0 -o json",
		"explain-split.txt":     "explain pod ml/split",
		"explain-nowhere.txt":   "explain pod ml/huge",
		"explain-refused.txt":   "explain pod ml/refused",
		"explain-unknown.txt":   "explain pod ml/lost",
		"explain-demand.txt":    "explain pod ml/strict",
		"explain-align.txt":     "explain pod ml/paired",
		"explain-plain.txt":     "explain pod web",
		"explain-done.txt":      "explain pod done",
		"explain.yaml":          "explain pod ml/split -o yaml",
		"explain-names.txt":     "explain pod ml/trainer-9 -o name",
		"map.txt":               "map",
		"map-names.txt":         "map -o name",
		"map-wide.txt":          "map -o wide",
		"map-node.txt":          "map gpu-a",
		"map-node.json":         "map plain-1 -o json",
		"map-file.txt":          "map --machine testdata/machine.txt",
		"explain-slash.txt":     "explain pod/split -n ml",
		"explain-node.txt":      "explain node/gpu-d",
		"explain-workload.txt":  "explain deploy/trainer -n ml",
		"explain-workload.json": "explain statefulset ml/trainer -o json",
		"explain-no-pods.txt":   "explain job ml/nothing",
		"pods.txt":              "pods -A",
		"pods-wide.txt":         "pods -n ml -o wide",
		"pods-misaligned.txt":   "pods -A --misaligned",
		"pods-misaligned.json":  "pods ml/split -o json",
		"pods-none.txt":         "pods -n ml --node gpu-b --misaligned",
		"pods-nosuch.txt":       "pods -n nosuch",
		"pods-names.txt":        "pods -A --node gpu-c -o name",
		"version.txt":           "version",
	} {
		answers(t, c, file, line)
	}
}

// answers compares what a command prints with a golden file: JSON, or lines that a terminal shows.
func answers(t *testing.T, c Cluster, file, line string) {
	t.Helper()
	out, errs, code := run(t, c, strings.Fields(line)...)
	if code != 0 || errs != "" {
		t.Errorf("%s: exit code %d, stderr %q", line, code, errs)
	}
	golden.Check(t, filepath.Join("testdata", file), out)
	if strings.HasSuffix(file, ".txt") {
		if !strings.Contains(line, "-o wide") {
			checkWidth(t, out)
		}
	} else if text, err := yaml.YAMLToJSON([]byte(out)); err != nil || !json.Valid(text) {
		t.Errorf("%s: neither JSON nor YAML", line)
	}
}

func checkWidth(t *testing.T, s string) {
	t.Helper()
	for l := range strings.Lines(s) {
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > textWidth {
			t.Errorf("a line takes %d columns: %s", n, l)
		}
	}
}

func TestErrorsAreWordedAsKubectlDoes(t *testing.T) {
	c := small(t)
	big := filepath.Join(t.TempDir(), "big.txt")
	if err := os.WriteFile(big, bytes.Repeat([]byte("#"), maxMachineBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"explain pod ml/nobody":           `Error from server (NotFound): get pod: pods "nobody" not found`,
		"explain pod ML/x":                `error: "ML" is not the name of a namespace`,
		"explain pod ml/a/b":              `error: "a/b" is not the name of a pod`,
		"explain pod -n db ml/x":          `error: pod "ml/x" is not in the namespace "db" of --namespace`,
		"explain pod ml/trainer-0 -o xml": `error: output format "xml" is not known`,
		"explain pod": "error: want one argument, and there are 0: kubectl tenon " +
			"explain pod [NAMESPACE/]NAME",
		"explain":                                "error: say what to explain",
		"explain x":                              `error: "x": want TYPE/NAME, for example pod/trainer-0`,
		"explain ml/trainer-0":                   `error: "ml" is no type that can be explained`,
		"explain node/nowhere":                   `error: node "nowhere" is not known`,
		"pods ml/split db/x":                     `pods of several namespaces need -A`,
		"pods -A x":                              "error: a NAME and --all-namespaces cannot both be given",
		"map --machine x -w":                     "error: --machine and --watch cannot both be given",
		"map -w":                                 "error: --watch: the cluster cannot be followed",
		"map nowhere":                            `error: node "nowhere" is not known`,
		"map edge-1":                             `error: node "edge-1" cannot be drawn: no NodeLayout`,
		"map gpu-a --machine x":                  "error: a NODE or --selector and --machine cannot both be given",
		"map --color pink":                       `error: --color "pink" is not known`,
		"map --machine testdata/absent":          "error: open machine file: open testdata/absent: no such file or directory",
		"map --machine testdata/version.txt":     `error: machine file testdata/version.txt: line 1: unknown word "kubectl-tenon"`,
		"map --machine " + big:                   "is larger than 33554432 bytes",
		"frobnicate":                             `error: unknown command "frobnicate" for "kubectl tenon"`,
		"map --kubeconfig testdata/absent --bad": "error: unknown flag: --bad",
		"explain node a b": "error: want one argument, and there are 2: " +
			"kubectl tenon explain node NAME",
		"defrag apply": "error: want one argument, and there are 0: " +
			"kubectl tenon defrag apply PLAN",
		"kubelet apply": "error: want one argument, and there are 0: " +
			"kubectl tenon kubelet apply PLAN",
		"check pod.yaml": `kubectl tenon check has no command "pod.yaml"; files are given with -f: ` +
			"kubectl tenon check -f pod.yaml",
		"map -w --bundle b.tgz": "error: --watch and --bundle cannot both be given: a bundle does not change",
		"completion zhs":        `error: unknown command "zhs" for "kubectl tenon completion"`,
		"help chek":             `error: unknown command "chek" for "kubectl tenon"`,
		"help explain nope":     `error: unknown command "nope" for "kubectl tenon explain"`,
	} {
		out, errs, code := run(t, c, strings.Fields(line)...)
		if code != ExitError || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want 2, nothing, %q", line, code, out, errs, want)
		}
	}
	if _, errs, code := run(t, nil, "map"); code != ExitError ||
		errs != "error: connect to the cluster: no cluster here\n" {
		t.Errorf("without a cluster: exit code %d, stderr %q", code, errs)
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || !strings.Contains(c.Example, "kubectl tenon") {
			t.Errorf("%s: help lacks a short text or an example", c.CommandPath())
		}
		path := strings.Fields(strings.TrimPrefix(c.CommandPath(), "kubectl tenon"))
		out, _, code := run(t, nil, append(path, "--help")...)
		if code != 0 || !strings.Contains(out, "Examples:") || !strings.Contains(out, "kubectl tenon") {
			t.Errorf("%s --help: exit code %d, %q", c.CommandPath(), code, out)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newApp(Setup{}).root())
}

func TestColorIsOnlyWhereItIsAskedFor(t *testing.T) {
	c := small(t)
	if out, _, _ := run(t, c, "map", "gpu-a"); strings.Contains(out, "\x1b") {
		t.Error("colour was written to something that is no terminal")
	}
	if out, _, _ := run(t, c, "map", "gpu-a", "--color", "always"); !strings.Contains(out, "\x1b") {
		t.Error("--color always wrote no colour")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("no terminal to be had: %v", err)
	}
	defer terminal.Close()
	t.Setenv("TERM", "xterm")
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		if o := (mapFlags{color: "auto"}).options(terminal); o.Color != (noColor == "") {
			t.Errorf("NO_COLOR=%q: colour on a terminal is %v", noColor, o.Color)
		}
	}
}

func TestManyNodesAreSummarised(t *testing.T) {
	c := small(t)
	for i := range 40 {
		c.nodes = append(c.nodes, node(t, fmt.Sprintf("more-%02d", i), xeon, place.SingleNUMA))
	}
	out, _, _ := run(t, c, "map")
	if strings.Contains(out, "NUMA node 0") || !strings.Contains(out, "--all") {
		t.Errorf("45 nodes were drawn without --all:\n%s", out)
	}
	out, _, _ = run(t, c, "explain", "pod", "ml/trainer-9")
	if !strings.Contains(out, "and on 32 more (--all shows them)") {
		t.Errorf("the answer does not say how many nodes it left out:\n%s", out)
	}
	out, _, _ = run(t, c, "explain", "pod", "ml/trainer-9", "--all")
	if !strings.Contains(out, "more-39") {
		t.Error("--all left a node out")
	}
}

func TestMessagesCannotMoveTheCursor(t *testing.T) {
	c := small(t)
	p := c.pods["ml/refused"]
	p.Message = "evil\x1b[2J\r message"
	c.pods["ml/refused"] = p
	c.problems[0].Reason = "evil\x1b[2J"
	out, _, _ := run(t, c, "explain", "pod", "ml/refused")
	if strings.ContainsAny(out, "\x1b\r") {
		t.Error("a control character reached the terminal")
	}
}

// Every command and every flag is documented where users look for it.
func TestFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/kubectl-tenon.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if flags++; !strings.Contains(string(page), "--"+f.Name) {
				t.Errorf("docs/reference/kubectl-tenon.md does not say what --%s of %s is", f.Name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newApp(Setup{}).root())
	if flags < 20 {
		t.Errorf("%d flags were found", flags)
	}
}
