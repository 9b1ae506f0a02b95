package nrt_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	reader "github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/nrt"
)

// An object that is written here, read by cluster/nrt and written again has the same zones.
func TestWhatIsWrittenIsReadBack(t *testing.T) {
	for _, n := range []*state.Node{packets(t), holes(t), plain(t)} {
		if text := thereAndBack(n); text != "" {
			t.Errorf("%s: %s", n.Name, text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		if n.Machine.CPUs().SubsetOf(n.Rules.CPU.Reserved) {
			t.Skip("without any CPU to give out a static CPU manager looks like none")
		}
		if text := thereAndBack(n); text != "" {
			t.Fatal(text)
		}
	})
}

// thereAndBack writes a node, reads it and writes what was read; the zones must be the same.
func thereAndBack(n *state.Node) string {
	first := nrt.FromCore(n)
	r, err := reader.Read(first)
	if err != nil {
		return err.Error()
	}
	usage := place.NewUsage(r.Machine, r.Rules).Hold(r.Held...)
	second := nrt.FromCore(&state.Node{Name: n.Name, Machine: r.Machine, Rules: r.Rules, Usage: usage})
	a, _ := json.Marshal(first.Zones)
	b, _ := json.Marshal(second.Zones)
	switch {
	case string(a) != string(b):
		return fmt.Sprintf("wrote\n%s\nand after reading it\n%s", a, b)
	case r.Rules.Topology.Policy != n.Rules.Topology.Policy || r.Rules.Topology.Scope != n.Rules.Topology.Scope:
		return fmt.Sprintf("policy %v became %v", n.Rules.Topology, r.Rules.Topology)
	case r.Fingerprint != nrt.Fingerprint(n) || len(r.Conditions) > 0:
		return fmt.Sprintf("fingerprint %s became %s, conditions %q", nrt.Fingerprint(n), r.Fingerprint, r.Conditions)
	}
	return ""
}
