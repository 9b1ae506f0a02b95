package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// doubtful is a cluster of two nodes: the kubelet of one may deviate from the prediction, and the kubelet of the other
// would not start again.
func doubtful(t *testing.T) cluster {
	c := small(t)
	for _, n := range c.nodes {
		switch n.Name {
		case "gpu-b":
			n.Inexact = []state.Inexact{{Code: state.RulesFromFiles,
				Message: "the kubelet's configz endpoint does not answer"},
				{Code: state.UnhealthyDevices, Message: "nvidia.com/gpu: 4 in capacity, 3 listed"}}
		case "plain-1":
			n.Rules.CPU.StrictReservation = true
			all := place.Holding{Container: "main", CPUs: n.Machine.CPUs().Minus(n.Rules.CPU.Reserved)}
			n.Entries = []state.Entry{{Pod: id("ml/full"), Holdings: []place.Holding{all}}}
			n.Usage = place.NewUsage(n.Machine, n.Rules).Hold(all)
		}
	}
	return c
}

func TestNodesThatMaySurpriseAreMarked(t *testing.T) {
	c := doubtful(t)
	for file, line := range map[string]string{
		"inexact-map.txt":     "map",
		"inexact-node.json":   "map plain-1 -o json",
		"inexact-explain.txt": "explain pod ml/trainer-9",
	} {
		answers(t, c, file, line)
	}
	out, _, _ := run(t, c, "explain", "pod", "ml/trainer-9", "-o", "json")
	var doc explanationDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, v := range doc.Verdicts {
		if len(v.Inexact) > 0 {
			marked++
		}
	}
	if marked != 1 {
		t.Errorf("%d verdicts are marked as inexact, want 1", marked)
	}
}

// Texts that nodes and users choose reach a terminal only as printable text.
func TestNothingRawReachesTheTerminal(t *testing.T) {
	const hostile = "x\x1b[31m\x07\r\nFORGED\u202e\u009b2J\xff\x00\x7f"
	c := doubtful(t)
	n := c.nodes[0]
	n.Inexact = append(n.Inexact, state.Inexact{Code: hostile, Message: hostile})
	n.Entries = append(n.Entries, state.Entry{Pod: state.PodID{UID: hostile, Namespace: hostile, Name: hostile},
		Holdings: []place.Holding{{Container: hostile, CPUs: idset.Of[idset.CPU](20)}}})
	odd := *n
	odd.Name = hostile
	c.nodes = append(c.nodes, &odd)
	c.problems = append(c.problems, document.Problem{Node: hostile, Reason: hostile})
	p := c.pods["ml/refused"]
	p.Reason, p.Message = hostile, hostile
	p.Pod.Containers[0].Name = hostile
	c.pods["ml/refused"] = p
	c.pods["default/"+hostile] = p
	for _, args := range [][]string{{"map"}, {"map", "--all"}, {"map", "gpu-b"}, {"map", hostile}, {"map", "no" + hostile},
		{"explain", "pod", "ml/refused"}, {"explain", "pod", "ml/refused", "--all"}, {"explain", "pod", hostile},
		{"explain", hostile},
		{"map", "--machine", hostile}, {"map", "-o", hostile}, {hostile}, {"map", "--" + hostile}} {
		out, errs, _ := run(t, c, args...)
		for at, r := range out + errs {
			text := (out + errs)[max(0, at-60):min(len(out+errs), at+20)]
			if _, width := utf8.DecodeRuneInString((out + errs)[at:]); r == utf8.RuneError && width == 1 || r != '\n' &&
				!unicode.IsPrint(r) {
				t.Errorf("%q: %q in %q", args, r, text)
				break
			}
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
				t.Errorf("%q: a forged line: %s", args, line)
			}
		}
	}
}
