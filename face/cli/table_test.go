package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// tableText returns a table as text, without "-o wide".
func tableText(t interface{ Fatal(...any) }, x table) string {
	var out bytes.Buffer
	if err := x.write(&out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Names of an ordinary length leave the last column room, and stay distinct where they differ only near their end.
func TestTablesFitLongNames(t *testing.T) {
	const pod = "ml-platform/trainer-llama-70b-trainer-%d"
	const on = "prod-eu-west-gpu-worker-1%d.example.net"
	for name, test := range map[string]struct {
		heads string
		row   func(i int) []string
		lines int // of each row, at most
	}{
		"moves": {"MOVE|POD|PRIORITY|COST|FROM|TO", func(i int) []string {
			return []string{fmt.Sprint(i), fmt.Sprintf(pod, i), "0", "1", fmt.Sprintf(on, i), fmt.Sprintf(on, i) + ", NUMA 0"}
		}, 3},
		"top": {"NODE|CPUS|MEMORY|8 CPU|16 CPU|4 CPU, 1 GPU|8 CPU, 2 GPU", func(i int) []string {
			return []string{fmt.Sprintf(on, i), "12/62", "100Gi/382Gi", "4", "2", "0", "8"}
		}, 1},
		"pods": {"POD|CONTAINER|NODE|NUMA|DISTANCE|ALIGNED|BEST|NOW", func(i int) []string {
			return []string{fmt.Sprintf(pod, i), "trainer", fmt.Sprintf(on, i), "0-1", "10-21", "no", "1", "nowhere"}
		}, 1},
		"kubelet plan": {"ORDER|NODE|START AGAIN|REFUSED|WAIT MEANWHILE|REMOVE", func(i int) []string {
			return []string{fmt.Sprint(i), fmt.Sprintf(on, i), "1", "0", "1 of 1", "cpu_manager_state · memory_manager_state"}
		}, 2},
	} {
		x := table{heads: strings.Split(test.heads, "|")}
		for i := range 4 {
			x.rows = append(x.rows, test.row(i))
		}
		text := tableText(t, x)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > textWidth {
				t.Errorf("%s: %d columns: %s", name, n, l)
			}
		}
		for at, head := range x.heads[:len(x.heads)-1] {
			cells := map[string]bool{}
			for _, l := range lines[1:] {
				cell := cellsOf(l, columnStarts(lines[0]))[at]
				cells[cell] = cell != ""
			}
			if (head == "POD" || head == "NODE" || head == "FROM") && len(cells) < 4 {
				t.Errorf("%s: %d names in column %s:\n%s", name, len(cells), head, text)
			}
		}
		if most := 1 + 4*test.lines; len(lines) > most {
			t.Errorf("%s: %d lines, want at most %d:\n%s", name, len(lines), most, text)
		}
	}
}

// A column of lists keeps all their items: a row goes on in further lines.
func TestListsInTablesAreWhole(t *testing.T) {
	x := table{heads: []string{"NODE", "PODS", "MISSING"}}
	var pods []string
	for i := range 6 {
		pods = append(pods, fmt.Sprintf("ml/a-%d", i))
	}
	x.rows = [][]string{{"prod-eu-west-gpu-worker-11.example.net", strings.Join(pods, joint),
		strings.Repeat("cpu 4, memory 8Gi on NUMA node 0"+joint, 4) + "-"}, {"a", "-", "-"}}
	text := tableText(t, x)
	for _, p := range pods {
		if !strings.Contains(text, p) {
			t.Errorf("no %s in\n%s", p, text)
		}
	}
}

// Any table of names and amounts fits, if its columns can be as narrow as twelve letters.
func TestAnyTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 6).Draw(t, "columns")
		x := table{heads: strings.Split("A|B|C|D|E|F", "|")[:columns]}
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			x.rows = append(x.rows, rapid.SliceOfN(rapid.StringMatching(`([a-z]{1,60}( · |, | )?){1,4}`), columns,
				columns).Draw(t, "row"))
		}
		for l := range strings.Lines(tableText(t, x)) {
			if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > textWidth {
				t.Fatalf("%d columns: %s", n, l)
			}
		}
	})
}
