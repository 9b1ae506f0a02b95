package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/internal/golden"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/fields"
)

// stages are the real stages, but Cluster reads an export of kubectl.
func stages(exported []byte) Stages {
	return Stages{
		Cluster: func(_ context.Context, k Kubeconfig) (Stage, []document.Problem, string, error) {
			if exported == nil {
				return nil, nil, "", errors.New("no cluster here")
			}
			s, problems, err := export(exported)
			return s, problems, k.Namespace(), err
		},
		Export: export,
		Moving: moving,
		Claims: func(ctx context.Context, _ Kubeconfig, s Stage, f ClaimFiles) (Stage, error) {
			return s.(*stage.Stage).Finding(ctx, nil, f.Namespace, f.Files), nil
		},
		Vary: func(s Stage, v whatif.Variation) (Stage, []string, error) {
			out, altered, err := s.(*stage.Stage).Vary(v)
			if err != nil {
				return nil, nil, err
			}
			return out, altered, nil
		},
		Machines: func(list []whatif.Machine) (Stage, error) {
			s, err := stage.Machines(list)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Kubelet: func(config []byte, m *topo.Machine) (place.Rules, whatif.Amounts, error) {
			s, err := kubelet.SetUp(config, m, place.DefaultRelease)
			return s.Rules, s.Allocatable, err
		},
		Ignored: func(config []byte) (out []string) {
			for _, f := range fields.Of(config) {
				out = append(out, f.String())
			}
			return out
		},
	}
}

func export(data []byte) (Stage, []document.Problem, error) {
	s, problems, err := stage.Export(data)
	if err != nil {
		return nil, nil, err
	}
	return s, problems, nil
}

// simulate runs one command line.
func simulate(t testing.TB, exported []byte, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	s := Setup{Stages: stages(exported)}
	args = append([]string{"simulate"}, args...)
	if stdin == "" {
		code = Run(t.Context(), args, &out, &errs, s)
		return out.String(), errs.String(), code
	}
	return runWith(t, s, stdin, args...)
}

// runWith runs one command line with a text on stdin.
func runWith(t testing.TB, s Setup, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newApp(s).root()
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	if err := root.ExecuteContext(t.Context()); err != nil {
		written := false
		if code, written = exitCode(err); !written {
			errs.WriteString(errorText(err) + "\n")
		}
	}
	return out.String(), errs.String(), code
}

const lab = "../../lab/machines/"

// A cluster of three nodes with NUMA nodes of 32 CPUs and two GPUs each, and one node without a report. wide-0 and
// wide-1 are on gpu-a, which has not reported wide-1 yet; trainer-0 is on gpu-b; gpu-c is empty and cordoned.
func gpuCluster(t testing.TB) []byte {
	t.Helper()
	var items []any
	add := func(kind, api string, o any) {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		m["kind"], m["apiVersion"] = kind, api
		items = append(items, m)
	}
	pods := map[string]v1.Pod{}
	for _, x := range []struct{ name, node, cpu, memory, gpu string }{
		{"wide-0", "gpu-a", "28", "100Gi", "1"}, {"wide-1", "gpu-a", "28", "100Gi", "1"},
		{"trainer-0", "gpu-b", "24", "100Gi", "1"},
		{"web-0", "gpu-b", "500m", "1Gi", ""}, {"waits", "", "100", "1Gi", ""},
	} {
		pods["ml/"+x.name] = runningPod(x.name, x.node, x.cpu, x.memory, x.gpu)
		add("Pod", "v1", pods["ml/"+x.name])
	}
	for _, n := range []*state.Node{
		node(t, "gpu-a", xeon, place.SingleNUMA, entry(t, "ml/wide-0", state.Observed, "1-14,33-46", 100, 1, "gpu-0-0")),
		node(t, "gpu-b", xeon, place.SingleNUMA, entry(t, "ml/trainer-0", state.Observed, "1-12,33-44", 100, 1, "gpu-0-0")),
		node(t, "gpu-c", xeon, place.SingleNUMA),
	} {
		add("NodeLayout", "tenon.sh/v1alpha1", v1alpha1.FromCore(n.Name, n.Machine, n.Rules, n.Entries, nil))
	}
	for _, name := range []string{"edge-1", "gpu-a", "gpu-b", "gpu-c"} {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.Unschedulable = name == "gpu-c"
		n.Status.Allocatable = amountsOf("62", "382Gi", "4")
		if name == "edge-1" {
			n.Status.Allocatable = amountsOf("8", "16Gi", "")
		}
		n.Status.Allocatable["pods"] = resource.MustParse("110")
		add("Node", "v1", n)
	}
	items = append(items, map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
		"metadata": map[string]any{"name": "unused"}})
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func amountsOf(cpu, memory, gpu string) v1.ResourceList {
	out := v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	if gpu != "" {
		out["nvidia.com/gpu"] = resource.MustParse(gpu)
	}
	return out
}

func runningPod(name, on, cpu, memory, gpu string) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-of-" + name)}}
	p.Spec.NodeName = on
	a := amountsOf(cpu, memory, gpu)
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: a, Limits: a}}}
	if gpu == "" {
		p.Spec.Containers[0].Resources.Limits = nil
	}
	p.Status.Phase = v1.PodRunning
	return p
}

var progressLine = regexp.MustCompile(`(?m)^simulate: pod \d+( of \d+)?\n`)

func TestSimulationsWriteAsDrawn(t *testing.T) {
	cluster := gpuCluster(t)
	if out, _, code := simulate(t, cluster, "", "--pending"); code != ExitNo ||
		strings.Contains(out, "no room is kept") || !strings.Contains(out, "Pod ml/waits has no place") {
		t.Errorf("--pending: exit code %d, %s", code, out)
	}
	for file, c := range map[string]struct {
		line string
		code int
	}{
		"simulate-machines.txt": {"-f testdata/simulate-train.yaml --machines " + lab + "gpu-8.txt=2 --kubelet-config " +
			lab + "gpu-8.yaml", ExitNo},
		"simulate-fits.txt": {"-f testdata/simulate-train.yaml --machines " + lab + "gpu-8.txt=3 --kubelet-config " +
			lab + "gpu-8.yaml", 0},
		"simulate-max.txt": {"-f testdata/simulate-train.yaml --count max --machines " + lab +
			"gpu-8.txt=100 --kubelet-config " + lab + "gpu-8.yaml", 0},
		"simulate-cluster.txt":  {"-f testdata/simulate-train.yaml", ExitNo},
		"simulate-pod.txt":      {"--pod ml/wide-1 --count 3", ExitNo},
		"simulate-podmax.txt":   {"--pod ml/wide-1 --count max", 0},
		"simulate-without.txt":  {"--without gpu-a", ExitNo},
		"simulate-without2.txt": {"--without gpu-b", ExitNo},
		"simulate-refuse.txt":   {"-f testdata/simulate-one.yaml --unknown-nodes Refuse", ExitNo},
		"simulate-map.txt": {"-f testdata/simulate-one.yaml --map --machines testdata/simulate-pair.txt " +
			"--topology-manager-policy single-numa-node --cpu-manager-policy static --reserved-cpus 0 " +
			"--memory-manager-policy Static --reserved-memory 0:memory=1Gi", 0},
		"simulate.json": {"-f testdata/simulate-one.yaml --count 3 -o json --machines testdata/simulate-pair.txt " +
			"--kubelet-config testdata/simulate-kubelet.yaml", ExitNo},
	} {
		out, errs, code := simulate(t, cluster, "", strings.Fields(c.line)...)
		errs = progressLine.ReplaceAllString(errs, "") // on a slow machine
		if code != c.code || errs != "" {
			t.Errorf("%s: exit code %d, want %d; stderr %q", c.line, code, c.code, errs)
		}
		golden.Check(t, filepath.Join("testdata", file), out)
		if strings.HasSuffix(file, ".txt") {
			checkWidth(t, out)
		} else if !json.Valid([]byte(out)) {
			t.Errorf("%s: not JSON", c.line)
		}
	}
}

// The documents show the golden output of the simulations.
func TestTheDocumentShowsTheGoldenSimulations(t *testing.T) {
	for page, files := range map[string][]string{
		"howto/plan-capacity.md": {"simulate-machines.txt", "simulate-train.yaml"},
		"howto/make-room.md":     {"defrag.txt"},
		"reference/kubectl-tenon.md": {"simulate.json", "simulate-kubelet.yaml", "simulate-one.yaml",
			"simulate-pair.txt"},
	} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			want, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, append(append([]byte("\n"), bytes.TrimSpace(want)...), "\n```"...)) {
				t.Errorf("docs/%s does not show testdata/%s", page, file)
			}
		}
	}
}

func TestWorkloadsFromStdin(t *testing.T) {
	text, err := os.ReadFile("testdata/simulate-one.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := simulate(t, nil, string(text)+"---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
		"-f", "-", "--machines", "testdata/simulate-pair.txt", "--topology-manager-policy", "none")
	if code != 0 || !strings.Contains(out, "Pod ml/one") ||
		errs != "Warning: -, document 2: Service web (v1) has no pods that are known here\n" {
		t.Errorf("exit code %d, stdout\n%s\nstderr %q", code, out, errs)
	}
}

// The number of pods that still fit is an answer, and never an error.
func TestExitCodes(t *testing.T) {
	file := t.TempDir() + "/d.yaml"
	const text = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n" +
		"      containers:\n      - {name: c, image: i, resources: {limits: {cpu: %d, memory: 1Gi}}}\n"
	for _, c := range []struct {
		cpus int
		args string
		want int
	}{{100, "", ExitNo}, {100, "--count max", 0}, {1, "", 0}, {1, "--count max", 0}, {1, "--count 0", ExitError}} {
		if err := os.WriteFile(file, fmt.Appendf(nil, text, c.cpus), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-f", file, "--machines", "testdata/simulate-pair.txt=3"}, strings.Fields(c.args)...)
		out, errs, code := simulate(t, nil, "", args...)
		if code != c.want {
			t.Errorf("%d cpus %s: exit code %d, want %d\n%s%s", c.cpus, c.args, code, c.want, out, errs)
		}
		if c.cpus == 1 && c.args == "" && !strings.Contains(out, "DaemonSet default/d   3        3        -") {
			t.Errorf("not one pod on each of three nodes:\n%s", out)
		}
	}
}

// The namespace of the command line applies to objects without one. The program computes nothing from a configuration
// with which no kubelet starts, and names a field that kubelets ignore.
func TestConfigurationsOfKubeletsAreJudged(t *testing.T) {
	dir := t.TempDir()
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n" +
		"reservedSystemCPUs: 0-1\n"
	for text, want := range map[string]string{
		"cpuManagerPolicyOptions:\n  distribute-cpus-across-numa: 'true'\nfull-pcpus-only: 'true'\n": "Warning: kubelet " +
			"configuration " + dir + "/k.yaml, line 7: the kubelet has no field full-pcpus-only and ignores it; " +
			"cpuManagerPolicyOptions.full-pcpus-only may be meant\n",
		"topologyManagerPolicy: restricted\nreservedCpus: 0-1\n": "line 6: the kubelet has no field reservedCpus",
		"memoryManagerPolicy: Static\nsystemReserved: {memory: 1Gi}\n" +
			"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n": "error: kubelet configuration " + dir +
			"/k.yaml for machine gpu-8: reservedMemory: its sum is 1Gi, and the kubelet keeps 1124Mi from pods",
		"cpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-cores: 'true'}\n": "exclude each other",
	} {
		file := filepath.Join(dir, "k.yaml")
		if err := os.WriteFile(file, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, code := simulate(t, nil, "", "-f", "testdata/simulate-train.yaml", "--machines", lab+"gpu-8.txt=1",
			"--kubelet-config", file, "--count", "max")
		if !strings.Contains(strings.Join(strings.Fields(errs), " "), strings.Join(strings.Fields(want), " ")) ||
			(code == ExitError) != !strings.Contains(errs, "Warning") {
			t.Errorf("%s: exit code %d,\n%s\nwant %q", text, code, errs, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	const text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x%s}\nspec: {containers: [{name: c, image: i}]}\n"
	for _, c := range []struct{ own, flag, want string }{{"", "", "default"}, {"", "db", "db"},
		{", namespace: ml", "db", "ml"}} {
		args := []string{"-f", "-", "--machines", "testdata/simulate-pair.txt"}
		if c.flag != "" {
			args = append(args, "-n", c.flag)
		}
		if out, errs, _ := simulate(t, nil, fmt.Sprintf(text, c.own), args...); !strings.Contains(out, "Pod "+c.want+"/x") {
			t.Errorf("%+v: %s%s", c, out, errs)
		}
	}
}

func TestErrorsOfSimulate(t *testing.T) {
	cluster := gpuCluster(t)
	const one, pair = "-f testdata/simulate-one.yaml ", "--machines testdata/simulate-pair.txt "
	for line, want := range map[string]string{
		"": "error: say what to place: -f FILE, --pod NAME, " +
			"--pending or --without NODE",
		one + pair + "--nodes x":            "error: --machines and --nodes cannot both be given",
		"--pod x --count 1 " + pair:         "error: --machines have no pods",
		"--pod ml/wide-9":                   "error: --pod: pod ml/wide-9 is not there; wide-0 may be meant",
		"--pod db/wide-0":                   "error: --pod: pod db/wide-0 is not there; there is ml/wide-0",
		"--without node/gpu_a":              `error: --without: node "gpu_a" is not there; gpu-a may be meant`,
		"--pending --add node/gpu_a":        `node "gpu_a" is not there; gpu-a may be meant`,
		"--pending --option full-pcpu-only": `error: --option "full-pcpu-only" is not known; full-pcpus-only may be meant`,
		"--without gpu-a --count 3":         "error: --count needs",
		one + "--without gpu-a --count max": "error: --count max and --without cannot both be given",
		one + "--count some":                `error: --count "some": want 1..100000 or max`,
		one + "--count 0":                   `error: --count "0": want 1..100000 or max`,
		one + "--count 100001":              `error: --count "100001"`,
		one +
			"--strategy Best": `error: --strategy "Best" is not known: want one of Tenon, LeastAllocated`,
		one +
			"--unknown-nodes Maybe": `error: --unknown-nodes "Maybe" is not known: want one of Allow, AllowWithoutDemand, Refuse`,
		one + "--coarse-nodes Maybe": `error: --coarse-nodes "Maybe" is not known`,
		one + "-o xml":               `error: output format "xml" is not known`,
		one + "--color pink":         `error: --color "pink" is not known`,
		"-f testdata/absent.yaml": "error: open workload file: open " +
			"testdata/absent.yaml: no such file or directory",
		"-f testdata/simulate-pair.txt": "error: workload file testdata/simulate-pair.txt: " +
			"document 1: ",
		"--without nowhere": `error: --without: node "nowhere" is not there`,
		"--pod ml/nobody --count 1": "error: --pod: pod ml/nobody is " +
			"not there",
		"--pod ML/x --count 1": `error: "ML" is not the name of a namespace`,
		one + "--kubelet-config x": "error: the kubelet's " +
			"configuration is of --machines or --add, and there are none",
		one + "--reserved-cpus 0": "error: the kubelet's " +
			"configuration is of --machines or --add, and there are none",
		one + "--nodes testdata/simulate.json": "error: nodes file " +
			"testdata/simulate.json: ",
		one + "--machines testdata/absent": "error: open machine file: ",
		one +
			"--machines testdata/simulate-pair.txt=0": `error: machine "testdata/simulate-pair.txt=0": want FILE, FILE=COPIES with 1..100000 of them, or FILE=min`,
		one + "--machines testdata/simulate-pair.txt=30000": "error: machine simulate-pair: 30000 copies: want 1..20000",
		one + pair + pair: `error: two nodes are named "simulate-pair"`,
		one + pair + "--kubelet-config a --kubelet-config b": "error: 2 --kubelet-config for " +
			"1 machines: want one for all, or one for each",
		one + pair + "--kubelet-config testdata/simulate-pair.txt": "error: kubelet configuration " +
			"testdata/simulate-pair.txt for machine simulate-pair: parse: ",
		one + pair + "--kubelet-config testdata/simulate-kubelet.yaml --reserved-cpus 0": "error: --kubelet-config and " +
			"flags of the kubelet cannot both be given",
		one + pair +
			"--topology-manager-policy some": `error: flags of the kubelet for machine simulate-pair: topologyManagerPolicy: unknown value "some": want none, best-`,
		one + pair + "--cpu-manager-policy static": "error: flags of the kubelet for " +
			"machine simulate-pair: cpuManagerPolicy: static needs reservedSystemCPUs",
		one + pair + "--cpu-manager-policy static --reserved-cpus 99": "error: flags of the kubelet for " +
			"machine simulate-pair: reservedSystemCPUs: machine has no cpu 99",
		one + pair + "--memory-manager-policy Static --reserved-memory " +
			"0=1Gi": `error: --reserved-memory: "0=1Gi": want NUMA:KIND=AMOUNT`,
		one + pair + "--memory-manager-policy Static --reserved-memory " +
			"0:memory": `error: --reserved-memory: "memory": want KIND=AMOUNT`,
		one + pair + "--memory-manager-policy Static --reserved-memory 7:memory=1Gi": "error: flags of the kubelet for " +
			"machine simulate-pair: reservedMemory: ",
	} {
		out, errs, code := simulate(t, cluster, "", strings.Fields(line)...)
		if code != ExitError || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want 2, nothing, %q", line, code, out, errs, want)
		}
	}
	if _, errs, code := simulate(t, nil, "", strings.Fields(one)...); code != ExitError ||
		errs != "error: read the cluster: no cluster here\n" {
		t.Errorf("without a cluster: exit code %d, stderr %q", code, errs)
	}
}

// plain is a stage made of plain data.
type plain struct {
	nodes []whatif.Node
	pod   *whatif.Workload
}

func (p plain) Nodes() []whatif.Node { return p.nodes }
func (p plain) Workloads([]byte, string) ([]*whatif.Workload, whatif.Left, error) {
	return nil, whatif.Left{}, errors.New("no files here")
}
func (p plain) Like(string, string) (*whatif.Workload, error) { return p.pod, nil }
func (p plain) On(string) ([]*whatif.Workload, int, error)    { return nil, 0, nil }
func (p plain) Usual() []*place.Pod                           { return nil }
func (p plain) Pending() []*whatif.Workload                   { return nil }
func (p plain) Waiting() int                                  { return 0 }

// Nodes that report only amounts are named, and taken after all others.
func TestCoarseNodesAreNamed(t *testing.T) {
	all := whatif.Amounts{"cpu": 62000, "memory": 380 * gi, "nvidia.com/gpu": 4, "pods": 110}
	exact, coarse := node(t, "exact", xeon, place.SingleNUMA), node(t, "coarse", xeon, place.SingleNUMA)
	coarse.Quality = state.Estimated
	s := plain{
		nodes: []whatif.Node{{Name: "coarse", State: coarse, Allocatable: all},
			{Name: "exact", State: exact, Allocatable: all}},
		pod: &whatif.Workload{Kind: "Pod", Namespace: "ml", Name: "x", Count: 1,
			Want: &whatif.Want{Pod: wanting(20, 10, 1), Needs: whatif.Amounts{"cpu": 20000, "memory": 10 * gi,
				"nvidia.com/gpu": 1, "pods": 1}}},
	}
	from := Stages{Cluster: func(context.Context, Kubeconfig) (Stage, []document.Problem, string, error) {
		return s,
			nil, "ml", nil
	}}
	for flag, want := range map[string][]string{
		"Allow": {"Pod ml/x   3        3        -          exact 2 · coarse 1\n", "coarse (coarse)   0 → 1",
			"1 node reports only amounts per NUMA node; the CPUs and devices of pods there are made up: coarse\n"},
		"Refuse": {"Pod ml/x   3        2        1          exact 2\n",
			"  node coarse: node has a NodeResourceTopology and no layout\n",
			"pods that need alignment do not go there: coarse\n"},
	} {
		var out, errs bytes.Buffer
		Run(t.Context(), []string{"simulate", "--pod", "x", "--count", "3", "--coarse-nodes", flag}, &out, &errs,
			Setup{Stages: from})
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("--coarse-nodes %s does not say %q:\n%s%s", flag, w, out.String(), errs.String())
			}
		}
		checkWidth(t, out.String())
	}
}

// The kubeconfig's namespace is only a default: a pod may be in another one.
func TestAPodOfAnotherNamespaceIsReplicated(t *testing.T) {
	s := plain{nodes: []whatif.Node{{Name: "exact", State: node(t, "exact", xeon, place.SingleNUMA),
		Allocatable: whatif.Amounts{"cpu": 62000, "memory": 380 * gi, "pods": 110}}},
		pod: &whatif.Workload{Kind: "Pod", Namespace: "ml", Name: "x", Count: 1,
			Want: &whatif.Want{Pod: wanting(20, 10, 0), Needs: whatif.Amounts{"cpu": 20000, "memory": 10 * gi, "pods": 1}}}}
	from := Stages{Cluster: func(context.Context, Kubeconfig) (Stage, []document.Problem, string, error) {
		return s, nil, "default", nil
	}}
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"simulate", "--pod", "ml/x", "--count", "1"}, &out, &errs, Setup{Stages: from})
	if code != 0 || !strings.Contains(out.String(), "Pod ml/x") {
		t.Errorf("exit code %d:\n%s%s", code, &out, &errs)
	}
}

// A long simulation shows its progress, and ends when it is cancelled.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	p := progressOn(ctx, &out)
	p.all = 10
	if err := p.step(); err != nil || out.Len() > 0 {
		t.Errorf("the first step says %q, error %v", out.String(), err)
	}
	p.next = time.Now().Add(-time.Second)
	if err := p.step(); err != nil || out.String() != "simulate: pod 2 of 10\n" {
		t.Errorf("after a while it says %q, error %v", out.String(), err)
	}
	cancel()
	if err := p.step(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: error %v", err)
	}
}

// The bound holds for all pods of a simulation together, whatever their source.
func TestSimulationsAreBounded(t *testing.T) {
	many := strings.Repeat("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  replicas: 60000\n"+
		"  selector: {matchLabels: {a: b}}\n"+
		"  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n", 2)
	if _, errs, code := simulate(t, nil, many, "-f", "-", "--machines", "testdata/simulate-pair.txt"); code != ExitError ||
		!strings.HasSuffix(errs, "error: more than 100000 pods\n") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	// A kubelet takes 110 pods. Of a pod without demands, 110 fit.
	out, errs, code := simulate(t, nil, many[:strings.LastIndex(many, "---")], "-f", "-", "--count", "max", "--machines",
		"testdata/simulate-pair.txt", "--topology-manager-policy", "none")
	if code != 0 || errs != "" || !strings.Contains(out, "Deployment default/x   110 ") {
		t.Errorf("exit code %d, stderr %q:\n%s", code, errs, out)
	}
}

// as returns a pod with one Guaranteed container and annotations.
func as(limits, annotations string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "annotations": {` + annotations +
		`}}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {` + limits + `}}}]}}`
}

// For each machine of the lab: how many pods fit on an empty one, and the reason against the next pod.
func TestHowOftenShapesFit(t *testing.T) {
	for _, c := range []struct {
		machine, pod string
		fits         int
		code         place.Code
		resource     string
		have         int64
	}{
		// Two NUMA nodes of four GPUs, 112 CPUs and 1020 GiB; the system keeps four CPUs of the first one. Each pod
		// goes to one NUMA node.
		{"gpu-8", as(`"cpu": 8, "memory": "8Gi", "nvidia.com/gpu": 4`, ""), 2, place.Lacking, "nvidia.com/gpu", 0},
		{"gpu-8", as(`"cpu": 8, "memory": "8Gi", "nvidia.com/gpu": 5`, ""), 0, place.OneNUMA, "nvidia.com/gpu", 4},
		{"gpu-8", as(`"cpu": 60, "memory": "8Gi", "nvidia.com/gpu": 2`, ""), 2, place.OneNUMA, "cpu", 52},
		{"gpu-8", as(`"cpu": 1, "memory": "600Gi"`, ""), 2, place.Group, "memory", 840 * gi},
		{"gpu-8", as(`"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1`, ""), 8, place.Lacking, "nvidia.com/gpu", 0},
		// Two NUMA nodes of 27 whole cores, 32 GiB of large pages and four functions for pods.
		{"xeon-2s", as(`"cpu": 12, "memory": "4Gi", "hugepages-1Gi": "8Gi", "intel.com/sriov_vf": 3`, ""), 2, place.Lacking,
			"intel.com/sriov_vf", 2},
		{"xeon-2s", as(`"cpu": 20, "memory": "1Gi"`, ""), 4, place.OneNUMA, "cpu", 14},
		{"xeon-2s", as(`"cpu": 2, "memory": "1Gi", "hugepages-1Gi": "12Gi"`, ""), 4, place.Group, "hugepages-1Gi", 16 * gi},
		{"xeon-2s", as(`"cpu": 3, "memory": "1Gi"`, ""), 0, place.SMT, "cpu", 108},
		// Eight NUMA nodes of 32 CPUs and 64 GiB; the system keeps four CPUs and 4 GiB of the first one. Each pod takes
		// as few NUMA nodes as possible.
		{"epyc-nps4", as(`"cpu": 12, "memory": "1Gi"`, ""), 16, place.OneNUMA, "cpu", 8},
		{"epyc-nps4", as(`"cpu": 40, "memory": "1Gi"`, ""), 0, place.Widths, "memory", 2},
		{"epyc-nps4", as(`"cpu": 40, "memory": "100Gi"`, ""), 4, place.Group, "memory", 108 * gi},
		// Two NUMA nodes of 60 CPUs for pods. The kubelet aligns pods where possible, and admits the others, too.
		{"sparse", as(`"cpu": 35, "memory": "1Gi"`, ""), 3, place.Lacking, "cpu", 15},
		{"sparse", as(`"cpu": 35, "memory": "1Gi"`, `"tenon.sh/numa-policy": "single-numa-node"`), 2, place.Demanded, "", 2},
	} {
		out, errs, code := simulate(t, nil, c.pod, "-f", "-", "--count", "max", "-o", "json",
			"--machines", lab+c.machine+".txt", "--kubelet-config", lab+c.machine+".yaml")
		var got simulationDocument
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%s: exit code %d, %v: %s", c.pod, code, err, errs)
		}
		w := got.Rounds[0].Workloads[0]
		if len(w.Refusals) != 1 || len(w.Refusals[0].Reasons) == 0 {
			t.Errorf("%s: %s: refused for %+v, want one kind of refusal", c.machine, c.pod, w.Refusals)
			continue
		}
		if r := w.Refusals[0].Reasons[0]; w.Placed != c.fits || place.Code(r.Code) != c.code || r.Resource != c.resource ||
			r.Have != c.have {
			t.Errorf("%s: %s: %d fit, then %s (%s, %s has %d); want %d, %s of %s with %d", c.machine, c.pod, w.Placed, r.Text,
				r.Code, r.Resource, r.Have,
				c.fits, c.code, c.resource, c.have)
		}
	}
}

func FuzzReservedMemory(f *testing.F) {
	f.Add("0:memory=2Gi,hugepages-1Gi=1Gi;1:memory=2Gi")
	f.Fuzz(func(t *testing.T, text string) {
		numas, sum, err := reservedMemory(text)
		if err != nil {
			return
		}
		if sum.Sign() < 0 || len(numas) != strings.Count(text, ";")+1 {
			t.Errorf("%q is %v, %s in all", text, numas, sum.String())
		}
	})
}
