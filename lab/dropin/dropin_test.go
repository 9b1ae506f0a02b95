package dropin

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/ops/rollout"
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
		compareMerged(t, files)
	})
}

// Drop-in files as people write them, with keys twice, further documents and JSON, mean to the agent what they mean to
// the kubelet.
func TestDropInTextsAreReadAsByTheKubelet(t *testing.T) {
	klog.SetLogger(logr.Discard())
	home := t.TempDir()
	taken := 0
	for i := range *startsN {
		w := &writing{drawn: &drawn{rand.New(rand.NewPCG(*startsSeed, uint64(i)))}, noGates: true}
		dir := filepath.Join(home, fmt.Sprint(i))
		files := kubelet.Files{File: filepath.Join(dir, "config.yaml"), Dir: filepath.Join(dir, "d")}
		write(t, files.File, noPolicies)
		write(t, filepath.Join(files.Dir, "a.conf"), w.text())
		if compareMerged(t, files) {
			taken++
		}
	}
	t.Logf("%d of %d are taken", taken, *startsN)
	if taken < *startsN/10 || taken > *startsN*9/10 {
		t.Error("the texts are too much alike")
	}
}

const noPolicies = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// tester is a test of package testing or rapid.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// compareMerged fails if the agent reads files otherwise than the kubelet, and reports whether the kubelet takes them.
func compareMerged(t tester, files kubelet.Files) bool {
	t.Helper()
	theirs, err := Merge(t.Context(), files.File, files.Dir)
	ours, oursErr := files.Configuration(t.Context())
	if err != nil {
		if oursErr == nil {
			t.Fatalf("%s: the kubelet says %v, the agent %+v", files.File, err, ours)
		}
		return false
	}
	answer, err := json.Marshal(map[string]any{"kubeletconfig": theirs})
	if err != nil {
		t.Fatal(err)
	}
	want, wantErr := kubelet.ParseEffective(answer)
	if (wantErr == nil) != (oursErr == nil) || wantErr == nil &&
		fmt.Sprint(want.Rules, want.ReserveCPUs) != fmt.Sprint(ours.Rules, ours.ReserveCPUs) {
		t.Fatalf("%s: the kubelet's\n%+v (%v)\nthe agent's\n%+v (%v)", files.File, want, wantErr, ours, oursErr)
	}
	return true
}

const dropInMachine = `numa 0 socket 0 cpus 0-7 memory 64Gi hugepages-2Mi 512
numa 1 socket 1 cpus 8-15 memory 64Gi hugepages-2Mi 512`

func drawRules(t *rapid.T, name string) place.Rules {
	on := func(what string) bool { return rapid.Bool().Draw(t, name+" "+what) }
	r := place.Rules{Topology: place.TopologyRules{
		Policy: place.Policy(rapid.IntRange(0, 3).Draw(t, name+" policy")), PreferClosest: on("closest"),
		Scope:    place.Scope(rapid.IntRange(0, 1).Draw(t, name+" scope")),
		MaxNUMAs: rapid.SampledFrom([]int{0, 0, 9, 16}).Draw(t, name+" NUMA nodes")}}
	r.CPU.Reserved = idset.Of(idset.CPU(rapid.IntRange(0, 15).Draw(t, name+" reserved")))
	if r.CPU.Static = on("static CPUs"); r.CPU.Static {
		r.CPU.FullPCPUsOnly, r.CPU.StrictReservation, r.CPU.AlignBySocket = on("full"), on("strict"), on("socket")
	}
	if r.Memory.Static = on("static memory"); r.Memory.Static {
		for _, x := range []place.Reserved{{NUMA: 0, Kind: "hugepages-2Mi"}, {NUMA: 0, Kind: topo.Memory},
			{NUMA: 1, Kind: topo.Memory}} {
			if x.Bytes = rapid.Int64Range(0, 1<<34).Draw(t, fmt.Sprint(name, x)); x.Bytes > 1<<33 || x.NUMA > 0 {
				r.Memory.Reserved = append(r.Memory.Reserved, x)
			}
		}
	}
	return r
}

// A kubelet that has a file of the first rules and the drop-in file of a plan has the second rules, to the byte. Under
// policy none it has no CPU option: it would not start with one, not even with one that is turned off.
func TestADropInMakesTheRulesOfThePlan(t *testing.T) {
	m, err := topo.ParseMachine(dropInMachine)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		from := &state.Node{Name: "n", Machine: m, Rules: drawRules(t, "from")}
		to := &state.Node{Name: "n", Machine: m, Rules: drawRules(t, "to")}
		first, err := rollout.DropIn(&state.Node{Name: "n", Machine: m}, from)
		if err != nil {
			t.Fatal(err)
		}
		if from.Rules.CPU.Static && rapid.Bool().Draw(t, "an option that is off") {
			first = strings.Replace(first, "cpuManagerPolicyOptions:\n",
				"cpuManagerPolicyOptions:\n  distribute-cpus-across-numa: \"false\"\n", 1)
		}
		second, err := rollout.DropIn(from, to)
		if err != nil {
			t.Fatal(err)
		}
		files := kubelet.Files{File: filepath.Join(home, "config.yaml"), Dir: filepath.Join(home, "d")}
		write(t, files.File, first)
		write(t, filepath.Join(files.Dir, "90-plan.conf"), second)
		theirs, err := Merge(t.Context(), files.File, files.Dir)
		if err != nil {
			t.Fatalf("the kubelet does not merge the files: %v\n%s\n%s", err, first, second)
		}
		if len(theirs.CPUManagerPolicyOptions) > 0 && !to.Rules.CPU.Static {
			t.Fatalf("policy none with %v:\n%s\n%s", theirs.CPUManagerPolicyOptions, first, second)
		}
		answer, err := json.Marshal(map[string]any{"kubeletconfig": theirs})
		if err != nil {
			t.Fatal(err)
		}
		got, err := kubelet.ParseEffective(answer)
		if to.Rules.Memory.Static && len(to.Rules.Memory.Reserved) == 0 {
			return // refused, and the plan reports that
		}
		if err != nil || !got.Rules.Equal(to.Rules) {
			t.Fatalf("the kubelet has\n%+v (%v), want\n%+v\n%s\n%s", got.Rules, err, to.Rules, first, second)
		}
	})
}

func write(t tester, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
