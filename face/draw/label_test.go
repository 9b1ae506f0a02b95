package draw

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// drawMachine draws an empty machine.
func drawMachine(t *testing.T, text string, static bool, width int) string {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	n := &state.Node{Name: "node", Machine: m}
	n.Rules.CPU.Static, n.Rules.Memory.Static = static, static
	n.Usage = place.NewUsage(m, n.Rules)
	var b bytes.Buffer
	if err := Map(&b, n, Options{Width: width}); err != nil {
		t.Fatal(err)
	}
	checkWidth(t, b.String(), width)
	return b.String()
}

// odd has memory sizes as real kernels report them: without the memory that the firmware keeps.
const odd = `
numa 0 socket 0 cpus 0-3 memory 131893936Ki hugepages-2Mi 1000
numa 1 socket 0 cpus 4-7 memory 132117008Ki hugepages-2Mi 1
numa 2 socket 1 cpus 8-11 memory 132117004Ki hugepages-1Gi 3
numa 3 socket 1 cpus 12-15 memory 1056964608Ki
`

func TestNoLabelIsLost(t *testing.T) {
	for width := 40; width <= 220; width++ {
		for _, static := range []bool{false, true} {
			out := drawMachine(t, odd, static, width)
			for label, want := range map[string]int{"│ memory ": 4, "│ hugepages-2Mi ": 2, "│ hugepages-1Gi ": 1, "│ CPUs ": 4} {
				if got := strings.Count(out, label); got != want {
					t.Fatalf("width %d: %q is there %d times, want %d:\n%s", width, label, got, want, out)
				}
			}
		}
	}
}

// The label of a row determines the CPUs of its cells.
func TestRowsSayTheirCPUs(t *testing.T) {
	for text, want := range map[string][]string{
		"numa 0 cpus 0-19":                    {"  0 · · ·"},
		"numa 0 cpus 0,2,4,6/1,3,5,7":         {" 0+2 · · · ·", " 1+2 · · · ·", "+ step between CPUs: 8+2 is 8, 10, 12"},
		"numa 0 cpus 0,1,5,7":                 {" 0 · · · ·", "   0-1,5,7"},
		"numa 0 cpus 100,120,140,160,180,200": {" 100+20 · · ·"},
		"numa 0 cpus 9":                       {" 9 ·"},
	} {
		for _, width := range []int{40, 80, 120, 200} {
			out := drawMachine(t, text, true, width)
			for _, w := range want {
				if width > 40 && !strings.Contains(out, strings.TrimLeft(w, " ")) {
					t.Errorf("%q at %d columns: %q is not in\n%s", text, width, w, out)
				}
			}
			if strings.Contains(out, "…") {
				t.Errorf("%q at %d columns is cut:\n%s", text, width, out)
			}
		}
	}
}

// The box of memory that is not ordinary names the memory's owner, and has its own sign for the free part.
func TestMemoryKindsDiffer(t *testing.T) {
	out := drawMachine(t, `
numa 0 cpus 0-3 memory 64Gi
numa 1 memory 64Gi memory-kind dax
numa 2 memory 64Gi memory-kind gpu
numa 3 memory 64Gi memory-kind movable
`, true, 160)
	for _, want := range []string{"DAX memory only", "GPU memory only", "movable memory only", "│ DAX memory ",
		"│ GPU memory ",
		"│ ------", "│ ======", "│ ~~~~~~", "- free DAX memory (PMEM, CXL, HBM)", "= free GPU memory",
		"~ free movable memory"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// numaNodes returns n NUMA nodes with distances.
func numaNodes(n int, distance func(i, j int) int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d memory 1Gi\ndistances", i, i/8, i)
		for j := range n {
			fmt.Fprintf(&b, " %d", distance(i, j))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestDistancesOfManyNUMANodesAreShort(t *testing.T) {
	apart := func(i, j int) int { return max(i-j, j-i) }
	for name, c := range map[string]struct {
		distance func(i, j int) int
		want     string
	}{
		"groups of eight": {func(i, j int) int {
			switch {
			case i == j:
				return 10
			case i/8 == j/8:
				return 12
			}
			return 32
		}, " NUMA nodes 8-15  12 to each other · 32 to NUMA nodes 0-7,16-63"},
		"a line": {func(i, j int) int { return 10 + 2*apart(i, j) }, " NUMA nodes 0,63  12 to 136"},
		"no symmetry": {func(i, j int) int { return 10 + min(1, apart(i, j))*((i*7919+j*104729)%200) },
			"\n NUMA nodes 1,10,19,28,37,46  11 to 206\n"},
		"another way back": {func(i, j int) int { return 10 + min(1, apart(i, j))*(1+i) },
			" NUMA node 15  26\n and of 48 more sets of NUMA nodes\n"},
	} {
		out := drawMachine(t, numaNodes(64, c.distance), true, 80)
		_, table, _ := strings.Cut(out, " distances")
		if lines := strings.Count(table, "\n"); lines > 40 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d lines, or %q is not in\n%s", name, lines, c.want, table)
		}
	}
}
