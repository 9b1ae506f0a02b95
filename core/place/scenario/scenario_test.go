package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place/scenario"
)

func parse(t testing.TB, text string) *scenario.File {
	t.Helper()
	f, err := scenario.Parse("case", text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sameWhenWritten verifies that a scenario is written as a text that reads as the same scenario and plays alike.
func sameWhenWritten(t *testing.T, f *scenario.File) {
	t.Helper()
	text := f.Text()
	again, err := scenario.Parse("written", text)
	if err != nil {
		t.Fatalf("%v in what was written:\n%s", err, text)
	}
	if !reflect.DeepEqual(again.Machine.Spec(), f.Machine.Spec()) {
		t.Fatalf("machine %+v is written as %+v:\n%s", f.Machine.Spec(), again.Machine.Spec(), text)
	}
	if fmt.Sprint(again.Rules, again.ReserveCPUs) != fmt.Sprint(f.Rules, f.ReserveCPUs) ||
		!reflect.DeepEqual(again.Steps, f.Steps) {
		t.Fatalf("written as:\n%s", text)
	}
	if second := again.Text(); second != text {
		t.Fatalf("written twice:\n%s\n%s", text, second)
	}
}

func TestScenarioFilesRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := scenario.Parse(file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		sameWhenWritten(t, f)
		played, err := f.Scenario.Played()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := outputs(played), outputs(string(text)); got != want {
			t.Errorf("%s: written and played it gives\n%s", file, got)
		}
	}
}

func outputs(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "> ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Cores of different threads in one NUMA node, an L3 group over two NUMA nodes, a NUMA node of two sockets: machines
// that need a line per core.
func TestMachinesThatNeedCoreLines(t *testing.T) {
	for _, text := range []string{
		"numa 0\nnuma 1\ncore 0,4 numa 0 socket 0 l3 0\ncore 1 numa 0 socket 0 l3 0\ncore 2 numa 1 socket 0 l3 0\nrules\n",
		"numa 0 memory 1Gi\nnuma 3\ncore 0 numa 0 socket 0 l3 0\n" +
			"core 1 numa 0 socket 1 l3 1\ncore 2,3 numa 3 socket 1 l3 2\nrules\n",
	} {
		f := parse(t, text)
		sameWhenWritten(t, f)
		if !strings.Contains(f.Text(), "core ") {
			t.Errorf("written without lines of cores:\n%s", f.Text())
		}
	}
}

func TestStepsChangeTheNode(t *testing.T) {
	f := parse(t, `
numa 0 cpus 0-3 memory 8Gi
device acme.com/gpu a,b numa 0
rules topology=restricted cpu=static reserve-cpus=1 memory=Static reserve=0:memory:1Gi
admit web : init load cpu=2 memory=4Gi / c cpu=1 memory=1Gi
free
start web
free
unhealthy acme.com/gpu b
admit pair : c cpu=1 memory=1Gi acme.com/gpu=2
healthy acme.com/gpu b
admit again : c cpu=1 memory=1Gi acme.com/gpu=2
remove web
free
`)
	want := `> load: cpus 1-2 memory 3Gi@0
> c: cpus 1 memory 1Gi@0
> numa 0: 1 cpus 3 memory 3Gi acme.com/gpu 2
> numa 0: 1 cpus 3 memory 6Gi acme.com/gpu 2
> refused TopologyAffinityError
> cannot align container "c" (wants 2 acme.com/gpu; node has 1 free)
> c: cpus 3 memory 1Gi@0 acme.com/gpu a,b@0
> numa 0: 2 cpus 1-2 memory 6Gi acme.com/gpu 0
`
	if got := outputs(f.Play()); got != want {
		t.Errorf("played:\n%s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "numa 0 cpus 0-3 memory 8Gi\n"
	for text, want := range map[string]string{
		head + "admit a : c":                                           "case:2: \"admit\" comes before the rules",
		head + "rules\nrules":                                          "case:3: rules are given twice",
		head + "rules\nadmit a : c\nadmit a : c":                       "case:4: pod a is admitted twice",
		head + "rules\nadmit a : c cpu=-1":                             "is not a number",
		head + "rules\nadmit a : c acme.com/gpu=99999999999":           "is not a number",
		head + "rules\nadmit a : c memory=1Gi memory=2Gi":              "given twice",
		head + "rules\nadmit a : c hugepages-1Gi=1 hugepages-1024Mi=1": "given twice",
		head + "rules\nadmit a : c / c":                                "named twice",
		head + "rules\nadmit a : cpu=1":                                "no name",
		head + "rules\nadmit a :":                                      "want admit NAME",
		head + "rules\nremove b":                                       "earlier pod",
		head + "rules\nhealthy acme.com/gpu":                           "want admit",
		head + "rules options=full-pcpus":                              "unknown option",
		head + "rules reserve=0:memory":                                "want NUMA:KIND:SIZE",
		head + "rules reserve=0:swap:1Gi":                              "do not know",
		head + "rules reserved=1 reserve-cpus=1":                       "both given",
		head + "rules reserve-cpus=9":                                  "reserve 9 CPUs of 4",
		head + "rules max-numas=-1":                                    "is not a number",
		head + "rules magic":                                           "do not know \"magic\"",
		head + "core 9 numa 0 socket 0\nrules":                         "case:2: core: want",
		head + "core 9 numa 0 socket x l3 0\nrules":                    "socket",
		head + "core 9 numa 7 socket 0 l3 0\nrules":                    "machine has no NUMA node 7",
		head + "numa 0 cpus 9\nrules":                                  "named twice",
		strings.Repeat("\n", scenario.MaxLines):                        "the most is",
	} {
		if _, err := scenario.Parse("case", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// A scenario with a known reason for failing shrinks to nothing but that reason.
func TestShrinkLeavesWhatMatters(t *testing.T) {
	f := parse(t, `
# Much ado.
numa 0 socket 0 cpus 0-7/8-15 l3 2 memory 64Gi hugepages-1Gi 8
numa 8 socket 1 cpus 16-23/24-31 l3 2 memory 64Gi hugepages-1Gi 8
numa 40 memory 32Gi
distances 10 20 30
distances 20 10 30
distances 30 30 10
device acme.com/gpu a,b,c numa 0
device acme.com/gpu d,e numa 8 unhealthy
device acme.com/nic n numa 0,8
rules topology=restricted scope=pod prefer-closest cpu=static reserve-cpus=2 options=full-pcpus-only memory=Static reserve=0:memory:1Gi,8:memory:1Gi

admit one : c cpu=4 memory=2Gi
admit two burstable : c cpu=4 memory=2Gi
unhealthy acme.com/gpu c
admit three : init i cpu=2 memory=1Gi / c cpu=4 memory=2Gi acme.com/gpu=3 acme.com/nic=1 / d cpu=6 memory=1Gi
remove one
admit four : c cpu=8 memory=8Gi hugepages-1Gi=2Gi
`)
	// The fault: a container with at least two GPUs, on a machine with several NUMA nodes.
	fails := func(s *scenario.Scenario) bool {
		for _, st := range s.Steps {
			for _, c := range st.Pod.Containers {
				for _, d := range c.Devices {
					if d.Resource == "acme.com/gpu" && d.N >= 2 && len(s.Machine.NUMAs()) > 1 {
						return true
					}
				}
			}
		}
		return false
	}
	before := f.Text()
	small := scenario.Shrink(&f.Scenario, fails, 5000)
	if !fails(small) {
		t.Fatal("what is left does not fail")
	}
	want := `# Much ado.
numa 0 socket 0 cpus 23
numa 1
rules topology=restricted scope=container

admit three : c cpu=1 acme.com/gpu=2
`
	if got := small.Text(); got != want {
		t.Errorf("left over:\n%s", got)
	}
	if f.Text() != before {
		t.Error("the scenario that was shrunk has changed")
	}
	if got := scenario.Shrink(&f.Scenario, fails, 0); got.Text() != before {
		t.Error("without tries the scenario is changed")
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("numa 0\ncore 0,4 numa 0 socket 0 l3 0\nrules reserve-cpus=1 cpu=static\n" +
		"admit a : init i cpu=1500m / c\nstart a\nunhealthy x y")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse("case", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "case:") {
				t.Fatalf("error %q does not name the file", err)
			}
			return
		}
		sameWhenWritten(t, s)
		n := s.Begin()
		for _, st := range s.Steps {
			n.Do(st)
		}
	})
}
