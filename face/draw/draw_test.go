package draw

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
)

const gi = 1 << 30

// drawn is the input of one picture: a machine's text, the settings of its kubelet, and the holdings of pods.
type drawn struct {
	machine string
	rules   place.Rules
	entries []state.Entry
}

func (d drawn) node(t testing.TB, name string) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine(d.machine)
	if err != nil {
		t.Fatalf("machine of %s: %v", name, err)
	}
	u := place.NewUsage(m, d.rules)
	for _, e := range d.entries {
		u = u.Hold(e.Holdings...)
	}
	return &state.Node{Name: name, Machine: m, Rules: d.rules, Entries: d.entries, Usage: u}
}

func pod(name string, s state.Source, hs ...place.Holding) state.Entry {
	ns, n, _ := strings.Cut(name, "/")
	return state.Entry{Pod: state.PodID{UID: name, Namespace: ns, Name: n}, Source: s, Holdings: hs}
}

func cpus(t testing.TB, list string) idset.Set[idset.CPU] {
	t.Helper()
	s, err := idset.Parse[idset.CPU](list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hold returns a container with CPUs, and with memory on the NUMA nodes at the positions of a mask.
func hold(t testing.TB, list string, memGi int64, on topo.Mask, devs ...place.DeviceBlock) place.Holding {
	h := place.Holding{Container: "main", CPUs: cpus(t, list), Devices: devs}
	if memGi > 0 {
		h.Memory = []place.Block{{Kind: topo.Memory, NUMAs: on, Bytes: memGi * gi}}
	}
	return h
}

func devices(resource string, on topo.Mask, ids ...string) place.DeviceBlock {
	return place.DeviceBlock{Resource: resource, IDs: ids, NUMAs: on}
}

func static(t testing.TB, p place.Policy, reserved string, mem ...place.Reserved) place.Rules {
	return place.Rules{
		Topology: place.TopologyRules{Policy: p},
		CPU:      place.CPURules{Static: true, Reserved: cpus(t, reserved)},
		Memory:   place.MemoryRules{Static: true, Reserved: mem},
	}
}

func keeps(numa idset.NUMA, bytes int64) place.Reserved {
	return place.Reserved{NUMA: numa, Kind: topo.Memory, Bytes: bytes}
}

func pictures(t testing.TB) map[string]drawn {
	gpu := func(on topo.Mask, ids ...string) place.DeviceBlock { return devices("nvidia.com/gpu", on, ids...) }
	huge := hold(t, "20-27,52-59", 96, 2)
	huge.Memory = append(huge.Memory, place.Block{Kind: "hugepages-1Gi", NUMAs: 2, Bytes: 8 * gi})
	xeonRules := static(t, place.SingleNUMA, "0,32", keeps(0, 2*gi), keeps(1, 2*gi))
	xeonRules.CPU.FullPCPUsOnly = true
	epycRules := static(t, place.Restricted, "0,64", keeps(0, gi))
	epycRules.CPU.PreferAlignByUncoreCaches = true
	return map[string]drawn{
		"laptop": {
			machine: "numa 0 cpus 0-3/4-7 memory 16Gi\n",
			rules:   place.Rules{},
		},
		"xeon": {
			machine: `
numa 0 socket 0 cpus 0-15/32-47 memory 192Gi hugepages-1Gi 16
numa 1 socket 1 cpus 16-31/48-63 memory 192Gi hugepages-1Gi 16
distances 10 21
distances 21 10
device nvidia.com/gpu gpu-0-0,gpu-0-1 numa 0
device nvidia.com/gpu gpu-1-0,gpu-1-1 numa 1
device example.com/nic nic-0,nic-1,nic-2,nic-3 numa 0
`,
			rules: xeonRules,
			entries: []state.Entry{
				pod("ml/trainer-0", state.Observed, hold(t, "1-4,33-36", 48, 1, gpu(1, "gpu-0-1"))),
				pod("db/postgres-primary-0", state.Observed, huge),
				pod("ml/trainer-1", state.Predicted, hold(t, "5-8,37-40", 48, 1, gpu(1, "gpu-0-0"),
					devices("example.com/nic", 1, "nic-0"))),
			},
		},
		"epyc": {
			machine: epyc(),
			rules:   epycRules,
			entries: []state.Entry{
				pod("web/cache-0", state.Observed, hold(t, "1-7,65-71", 20, 1)),
				pod("hpc/solver-rank-0", state.Observed, hold(t, "8-23,72-87", 100, 6)),
				pod("hpc/solver-rank-1", state.Observed, hold(t, "24-27,88-91", 16, 8)),
				pod("web/front-77c9d", state.Predicted, hold(t, "32-33,96-97", 4, 16)),
			},
		},
		"gpubox": {
			machine: `
numa 0 socket 0 cpus 0-55/112-167 l3 1 memory 1024Gi
numa 1 socket 1 cpus 56-111/168-223 l3 1 memory 1024Gi
distances 10 21
distances 21 10
device nvidia.com/gpu GPU-0a,GPU-0b,GPU-0c numa 0
device nvidia.com/gpu GPU-0d numa 0 unhealthy
device nvidia.com/gpu GPU-1a,GPU-1b,GPU-1c,GPU-1d numa 1
device nvidia.com/mlnxnics mlx5_0,mlx5_1,mlx5_2,mlx5_3 numa 0
device nvidia.com/mlnxnics mlx5_4,mlx5_5,mlx5_6,mlx5_7 numa 1
device example.com/nvswitch switch-0 numa 0-1
device example.com/fuse f0,f1,f2 numa none
`,
			rules: static(t, place.BestEffort, "0,56,112,168", keeps(0, 8*gi), keeps(1, 8*gi)),
			entries: []state.Entry{
				pod("llm/pretrain-worker-0", state.Observed, hold(t, "1-32,113-144", 512, 1,
					gpu(1, "GPU-0a", "GPU-0b"), devices("nvidia.com/mlnxnics", 1, "mlx5_0", "mlx5_1"))),
				pod("llm/pretrain-worker-1", state.Observed, hold(t, "57-104,169-216", 768, 2,
					gpu(2, "GPU-1a", "GPU-1b", "GPU-1c", "GPU-1d"),
					devices("nvidia.com/mlnxnics", 2, "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"))),
				pod("llm/inference-6d5f7c9b4-x2x8q", state.Predicted, hold(t, "33-40,145-152", 64, 1,
					gpu(1, "GPU-0c"), devices("example.com/fuse", 0, "f1"))),
			},
		},
		"sparse": {
			machine: `
numa 0 socket 0 cpus 0-9/40-49 memory 256Gi
numa 8 socket 8 cpus 10-19/50-59 memory 256Gi
numa 250 memory 16Gi
numa 252 memory 16Gi
numa 255
distances 10 40 80 80 80
distances 40 10 80 80 80
distances 80 80 10 80 80
distances 80 80 80 10 80
distances 80 80 80 80 10
device example.com/accel a0,a1 numa 250
`,
			rules: static(t, place.SingleNUMA, "0,40", keeps(0, gi)),
			entries: []state.Entry{
				pod("sim/fold", state.Observed, hold(t, "10-14,50-54", 200, 2)),
				pod("sim/hbm", state.Observed, hold(t, "", 6, 4, devices("example.com/accel", 4, "a1"))),
			},
		},
	}
}

func epyc() string {
	return `
numa 0 socket 0 cpus 0-7/64-71 l3 2 memory 32Gi
numa 1 socket 0 cpus 8-15/72-79 l3 2 memory 64Gi
numa 2 socket 0 cpus 16-23/80-87 l3 2 memory 64Gi
numa 3 socket 0 cpus 24-31/88-95 l3 2 memory 64Gi
numa 4 socket 1 cpus 32-39/96-103 l3 2 memory 64Gi
numa 5 socket 1 cpus 40-47/104-111 l3 2 memory 64Gi
numa 6 socket 1 cpus 48-55/112-119 l3 2 memory 64Gi
numa 7 socket 1 cpus 56-63/120-127 l3 2 memory 64Gi
distances 10 12 12 12 32 32 32 32
distances 12 10 12 12 32 32 32 32
distances 12 12 10 12 32 32 32 32
distances 12 12 12 10 32 32 32 32
distances 32 32 32 32 10 12 12 12
distances 32 32 32 32 12 10 12 12
distances 32 32 32 32 12 12 10 12
distances 32 32 32 32 12 12 12 10
device amd.com/gpu g0 numa 0
device amd.com/gpu g6 numa 6
`
}

func TestMapLooksAsDrawn(t *testing.T) {
	for name, d := range pictures(t) {
		for _, color := range []bool{false, true} {
			var b bytes.Buffer
			if err := Map(&b, d.node(t, name), Options{Color: color}); err != nil {
				t.Fatal(err)
			}
			file := name + ".txt"
			if color {
				file = name + ".ansi"
			}
			golden.Check(t, filepath.Join("testdata", file), b.String())
		}
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

func checkWidth(t interface{ Fatalf(string, ...any) }, s string, width int) {
	for l := range strings.Lines(ansi.ReplaceAllString(s, "")) {
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > width {
			t.Fatalf("a line takes %d columns of %d: %s", n, width, l)
		}
	}
}

// The picture keeps to every width, colour changes only the colour, and drawing twice gives the same text.
func TestMapKeepsItsWidthAtAnyWidth(t *testing.T) {
	all := pictures(t)
	names := []string{"laptop", "xeon", "epyc", "gpubox", "sparse"}
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom(names).Draw(r, "machine")
		width := rapid.IntRange(minWidth, 260).Draw(r, "width")
		n := all[name].node(t, name)
		texts := [3]bytes.Buffer{}
		for i, color := range []bool{false, true, true} {
			if err := Map(&texts[i], n, Options{Width: width, Color: color}); err != nil {
				r.Fatal(err)
			}
		}
		checkWidth(r, texts[1].String(), width)
		if texts[1].String() != texts[2].String() {
			r.Fatal("the same node was drawn in two ways")
		}
		var bare strings.Builder
		for l := range strings.Lines(ansi.ReplaceAllString(texts[1].String(), "")) {
			bare.WriteString(strings.TrimRight(l, " \n") + "\n")
		}
		if bare.String() != texts[0].String() {
			r.Fatalf("colour changed the text:\n%s\n%s", bare.String(), texts[0].String())
		}
	})
}

// The picture counts as free what package place counts as free.
func TestMapAgreesWithUsage(t *testing.T) {
	for name, d := range pictures(t) {
		n := d.node(t, name)
		p := newPicture(n)
		for i := range n.Machine.NUMAs() {
			for _, u := range p.memory[i] {
				if want := n.Usage.FreeMemory(i, u.kind); u.free != want {
					t.Errorf("%s: NUMA node at %d: %s free is drawn as %d, usage has %d", name, i, u.kind, u.free, want)
				}
				sum := u.reserved + u.free
				for _, s := range u.shares {
					sum += s.bytes
				}
				if sum != u.capacity {
					t.Errorf("%s: NUMA node at %d: %s adds up to %d of %d", name, i, u.kind, sum, u.capacity)
				}
			}
		}
	}
}

func TestManyOfEverythingStaysReadable(t *testing.T) {
	var text strings.Builder
	for i := range 64 {
		text.WriteString("numa " + itoa(i) + " cpus " + itoa(i*16) + "-" + itoa(i*16+15) + " memory 4Gi\n")
	}
	for i := range 1000 {
		text.WriteString("device example.com/kvm kvm" + itoa(i) + " numa none\n")
	}
	d := drawn{machine: text.String(), rules: static(t, place.SingleNUMA, "0")}
	for i := range 50 {
		d.entries = append(d.entries, pod("many/pod-"+itoa(i), state.Observed, hold(t, itoa(i+1), 1, 1<<uint(i))))
	}
	var b bytes.Buffer
	if err := Map(&b, d.node(t, "big"), Options{}); err != nil {
		t.Fatal(err)
	}
	checkWidth(t, b.String(), DefaultWidth)
	for _, want := range []string{"many/pod-49", "·×1000", "1000 of 1000 free"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the map does not say %q", want)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func TestRoomThatIsKeptIsNamed(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-3 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	kept := state.Promised{For: "ml/job", Pod: &place.Pod{}}
	n := &state.Node{Name: "n", Machine: m, Usage: place.NewUsage(m, place.Rules{}),
		Promised: []state.Promised{kept, {For: "ci/x", Pod: &place.Pod{}}, kept}}
	var out bytes.Buffer
	if err := Map(&out, n, Options{}); err != nil {
		t.Fatal(err)
	}
	want := "room is kept for 1 pod of request ci/x\nroom is kept for 2 pods of request ml/job\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("the map has no %q:\n%s", want, out.String())
	}
}

func TestNodeWithoutMachineIsAnError(t *testing.T) {
	err := Map(&bytes.Buffer{}, &state.Node{Name: "blank"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "blank") {
		t.Errorf("got %v, want an error that names the node", err)
	}
}

func TestNamesCannotMoveTheCursor(t *testing.T) {
	d := pictures(t)["xeon"]
	d.entries[0].Pod.Name = "evil\x1b[2J\r\nname"
	var b bytes.Buffer
	if err := Map(&b, d.node(t, "xeon\x07"), Options{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\x07") {
		t.Error("a control character of a name reached the terminal")
	}
}

func TestColorIsNotForFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ColorWanted(f) || ColorWanted(nil) {
		t.Error("colour is wanted where nobody sees it")
	}
}

func TestColorIsForTerminalsThatWantIt(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("no terminal to be had: %v", err)
	}
	defer terminal.Close()
	for _, c := range []struct {
		noColor, term string
		want          bool
	}{
		{"", "xterm-256color", true},
		{"1", "xterm-256color", false},
		{"", "dumb", false},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got := ColorWanted(terminal); got != c.want {
			t.Errorf("NO_COLOR=%q TERM=%q: colour wanted %v, want %v", c.noColor, c.term, got, c.want)
		}
	}
}
