package schedulers

import (
	"strings"
	"testing"
)

// The lines of other arguments, and of everything else, stay as they are: people compare what is proposed to them.
func TestArgumentsChangeInTheirLines(t *testing.T) {
	strategy := map[string]any{"scoringStrategy": map[string]any{"type": "LeastAllocated"}}
	const block = "      scoringStrategy:\n        type: MostAllocated # of all\n        resources:\n" +
		"        - name: cpu\n          weight: 1\n"
	for _, c := range []struct {
		text      string
		arguments map[string]any
		diff      string
	}{
		{kubeText, map[string]any{"turnTimeoutSeconds": 60},
			"-       turnTimeoutSeconds: 30 # seconds\n+       turnTimeoutSeconds: 60 # seconds\n"},
		{kubeText, map[string]any{"unknownNodes": "Refuse"}, "+       unknownNodes: Refuse\n"},
		{kubeText, map[string]any{"turnTimeoutSeconds": nil}, "-       turnTimeoutSeconds: 30 # seconds\n"},
		{kubeText, map[string]any{"turnTimeoutSeconds": nil, "silentNodes": "Refuse", "unknownNodes": "Refuse"},
			"-       turnTimeoutSeconds: 30 # seconds\n+       silentNodes: Refuse\n+       unknownNodes: Refuse\n"},
		{kubeText, strategy, "+       scoringStrategy:\n+         type: LeastAllocated\n"},
		{kubeText + block, strategy, "-         type: MostAllocated # of all\n-         resources:\n" +
			"-         - name: cpu\n-           weight: 1\n+         type: LeastAllocated\n"},
		{strings.TrimSuffix(kubeText, "\n"), map[string]any{"unknownNodes": "Refuse"},
			"+       unknownNodes: Refuse\n+ \n"},
	} {
		conf, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := conf.SetArguments("", c.arguments)
		if err != nil {
			t.Errorf("%v: %v", c.arguments, err)
			continue
		}
		if diff := Diff(c.text, got); diff != c.diff {
			t.Errorf("%v: diff\n%swant\n%s", c.arguments, diff, c.diff)
		}
	}
}

// Within braces there are no lines to change: everything is written anew, and keeps its comments.
func TestArgumentsWithinBraces(t *testing.T) {
	before, _, _ := strings.Cut(kubeText, "    args:\n")
	conf, err := Parse(before + "    args: {kind: TenonArgs}\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := conf.SetArguments("", map[string]any{"silentNodes": "Refuse"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"{kind: TenonArgs, silentNodes: Refuse}", "# places", "# Each binding is a request."} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		text, profile string
		arguments     map[string]any
		want          string
	}{
		{kubeText, "", nil, "want 1..64"},
		{kubeText, "", map[string]any{"kind": "x"}, "no argument"},
		{kubeText, "", map[string]any{"nonsense": 1}, "nonsense"},
		{kubeText, "", map[string]any{"turnTimeoutSeconds": "soon"}, "validate"},
		{kubeText, "", map[string]any{"turnTimeoutSeconds": -5}, "validate"},
		{kubeText, "other", map[string]any{"turnTimeoutSeconds": 5}, "no such profile"},
		{volcanoText, "", map[string]any{"weight": 5}, "by hand"},
	} {
		conf, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := conf.SetArguments(c.profile, c.arguments); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v does not say %q; %s", c.arguments, err, c.want, out)
		}
	}
}
