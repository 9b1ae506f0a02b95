package house_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

const machinePage = "docs/reference/machine-files.md"

// A person copies the page's example, and it is a machine.
func TestTheExampleOfAMachineFileIsRead(t *testing.T) {
	examples := blocks(document(t, machinePage), "machine")
	if len(examples) != 1 {
		t.Fatalf("%s has %d examples, want one", machinePage, len(examples))
	}
	if _, err := topo.ParseMachine(examples[0]); err != nil {
		t.Errorf("%s: %v", machinePage, err)
	}
}

// The page names every word that the parser reads, and its bounds.
func TestTheFormOfMachineFilesIsDescribed(t *testing.T) {
	source := document(t, "core/topo/text.go")
	page, words := document(t, machinePage), 0
	literal := regexp.MustCompile(`(?:case |== |HasPrefix\(word, )"([a-z0-9-]+)"`)
	for _, m := range literal.FindAllStringSubmatch(source, -1) {
		words++
		if !strings.Contains(page, "`"+m[1]) {
			t.Errorf("%s does not name the word %q", machinePage, m[1])
		}
	}
	if words < 12 {
		t.Errorf("%d words are found in the parser, want at least 12", words)
	}
	for list := topo.EmptyList; list <= topo.UnknownID; list++ {
		if !strings.Contains(page, "`list "+list.String()+"`") {
			t.Errorf("%s does not name the list %v", machinePage, list)
		}
	}
	for _, kind := range []topo.MemoryKind{topo.GPUMemory, topo.DAXMemory, topo.MovableMemory} {
		if !strings.Contains(page, "`"+string(kind)+"`") {
			t.Errorf("%s does not name the kind of memory %s", machinePage, kind)
		}
	}
	for what, bound := range map[string]int{"| CPUs | 1 to %d": topo.MaxCPUs, "| NUMA nodes | 1 to %d": topo.MaxNUMAs,
		"sockets | 0 to %d": idset.Max, "| devices of a resource | %d": topo.MaxDevices, "| distance | 0 to %d": topo.MaxDist,
		"devices | %d each": topo.MaxKinds, "device | %d bytes": topo.MaxName, "| `root` | %d bytes": topo.MaxRoot} {
		if !strings.Contains(page, fmt.Sprintf(what, bound)) {
			t.Errorf("%s does not say "+what, machinePage, bound)
		}
	}
}
