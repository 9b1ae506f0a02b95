package ledger_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/state"
)

// Scenario files are testdata/RULE.txt. Each shows one rule of docs/design/order.md on one node. A file begins with a
// comment, the machine and its rules, as package core/place/scenario reads them. The steps follow:
//
//	reserve P REQUEST             the scheduler reserves the node for pod P
//	turn P                        the scheduler asks whether P may be bound now; if so, the API server has its binding
//	decline P                     P certainly was not bound after its turn
//	unreserve P                   the scheduler gives P up, and it is unknown whether the node received it
//	bound P                       the scheduler's watch shows the binding of P
//	foreign P [REQUEST]           the scheduler's watch shows that another scheduler has bound P
//	status P STATUS               the watch shows the status that the kubelet wrote: admitted (it has a start time),
//	                              running (its init containers have ended), ended or rejected
//	vanish P                      the watch shows that the object of P is gone, and no status shows that P has ended
//	overdue P                     a minute has passed since the watch showed that P was admitted, or is gone
//	restart                       the scheduler restarts with an empty ledger, and reads what the API server has
//	forget                        the report of the node is deleted
//
//	admit P [REQUEST] [KEYWORD]   the kubelet admits P or rejects it, and has written no status yet. With a request,
//	                              another scheduler has bound P. With last-devices, the kubelet takes the last free
//	                              devices.
//	start P                       the kubelet starts the app containers of P: it takes the memory of init containers back
//	end P                         P ends on the kubelet, which has written no status yet
//	rules RULES                   the kubelet restarts with other rules
//	write R [WHAT]                the agent writes report R, and the scheduler has not read it yet
//	deliver R                     the scheduler reads report R
//	report [WHAT]                 the agent writes a report, and the scheduler reads it. WHAT is: without P ... (these
//	                              pods are missing), or amounts (an exporter reports only amounts of each NUMA node)
//
//	fits REQUEST                  asks whether another pod would fit
//	show                          prints what the ledger has about the node
//
// REQUEST is cpu=4 memory=1Gi and so on for a pod of one container, or else [WORD]... : CONTAINER / CONTAINER as in
// core/place/scenario. With created=N the pod was created in second N; without, in second 0.
//
// Lines that begin with "> " are the output of the step before them. The line "node:" shows how certain the ledger is
// of the node; it is printed when that changes. `go test ./core/ledger -run Scenarios -update` writes the output:
// read each line of it before you commit it.

var update = flag.Bool("update", false, "rewrite the output lines of the scenario files")

const (
	// minScenarios is the least number of files.
	minScenarios = 20
	// minOutput is the least number of output lines in a file.
	minOutput = 5
)

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < minScenarios {
		t.Fatalf("%d scenario files, want at least %d (%v)", len(files), minScenarios, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := playFile(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(got, "\n> "); n < minOutput || !strings.HasPrefix(got, "# ") ||
				!strings.Contains(got, "docs/design/order.md, ") {
				t.Errorf("%d lines of output, want at least %d, below a comment that names a section of "+
					"docs/design/order.md", n, minOutput)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s:%d: the steps give\n%s", file, firstDifference(got, string(text)), got)
			}
		})
	}
}

func TestScenariosRefuseUnknownSteps(t *testing.T) {
	const head = "numa 0 cpus 0-3 memory 8Gi\nrules cpu=static\n"
	for text, want := range map[string]string{
		"turn a":                                    `case:1: "turn" comes before the rules`,
		head + "bind a":                             `case:3: do not know "bind"`,
		head + "turn a":                             "case:3: turn: pod a does not exist",
		head + "reserve":                            "want a pod",
		head + "reserve a":                          "pod a needs a request",
		head + "reserve a gpus=4":                   `do not know "gpus"`,
		head + "reserve a cpu=1 created=x":          "created",
		head + "reserve a cpu=1\nstatus a ready":    `do not know status "ready"`,
		head + "reserve a cpu=1\nstatus a admitted": "pod a is not on the kubelet",
		head + "admit a cpu=1\nstatus a ended":      "pod a is on the kubelet",
		head + "deliver x":                          "no report x",
		head + "report without a":                   "pod a does not exist",
		head + "report with a":                      `do not know "with a"`,
		head + "rules cpu=dynamic":                  `do not know "cpu=dynamic"`,
		head + "admit a cpu=1\nadmit a":             "pod a is on the kubelet",
	} {
		if _, err := playFile("case", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// playFile does the steps of a scenario and returns its text with the output that results.
func playFile(file, text string) (string, error) {
	var out, head []string
	var w *cluster
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "> ") {
			continue
		}
		out = append(out, line)
		code, _, _ := strings.Cut(line, "#")
		words := strings.Fields(code)
		if len(words) == 0 {
			continue
		}
		var err error
		switch {
		case w != nil:
			var lines []string
			if lines, err = w.step(words[0], words[1:]); err == nil {
				for _, l := range append(lines, w.changes()...) {
					out = append(out, "> "+l)
				}
			}
		case !slices.Contains([]string{"numa", "device", "distances", "core", "rules"}, words[0]):
			err = fmt.Errorf("%q comes before the rules", words[0])
		default:
			if head = append(head, code); words[0] == "rules" {
				w, err = newCluster(head)
			}
		}
		if err != nil {
			return "", fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return strings.Join(out, "\n"), nil
}

func firstDifference(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// newCluster returns the cluster of a scenario before its first step. The last line of the head has the rules.
func newCluster(head []string) (*cluster, error) {
	f, err := scenario.Parse("head", strings.Join(head, "\n"))
	if err != nil {
		return nil, err
	}
	machine := strings.Join(head[:len(head)-1], "\n")
	return &cluster{head: machine, machine: f.Machine, rules: f.Rules, book: ledger.New(),
		written: map[string]state.Layout{}, last: describe(nil)}, nil
}

// readPod reads a request.
func (w *cluster) readPod(name string, request []string) (*member, error) {
	p := &member{name: name, id: state.PodID{UID: name, Namespace: "default", Name: name}}
	var words []string
	for _, r := range request {
		if second, ok := strings.CutPrefix(r, "created="); ok {
			if _, err := fmt.Sscan(second, &p.created); err != nil {
				return nil, fmt.Errorf("created=%s: %w", second, err)
			}
			continue
		}
		words = append(words, r)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("pod %s needs a request", name)
	}
	if !slices.Contains(words, ":") {
		words = append([]string{":", "c"}, words...)
	}
	f, err := scenario.Parse("pod", w.head+"\nrules\nadmit "+name+" "+strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	p.spec, p.demand = &f.Steps[0].Pod, f.Steps[0].Demand
	return p, nil
}

// changeRules lets the kubelet restart with other rules.
func (w *cluster) changeRules(words []string) error {
	f, err := scenario.Parse("rules", w.head+"\nrules "+strings.Join(words, " "))
	if err == nil {
		w.rules = f.Rules
	}
	return err
}

// member is a pod of a scenario.
type member struct {
	name    string
	id      state.PodID
	spec    *place.Pod
	demand  place.Demand
	created int64
	bound   bool // the API server has its binding
	// known: its status has a start time. running: its app containers have started. over: it has ended, was rejected,
	// or its object is gone. reported: a report was read since its status had a start time. due: a minute has passed.
	known, running, over, reported, due bool
}
