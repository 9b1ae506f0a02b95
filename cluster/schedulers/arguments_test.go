package schedulers

import (
	"strings"
	"testing"
)

func TestArgumentsChangeInTheirLines(t *testing.T) {
	for _, c := range []struct {
		arguments map[string]any
		old, new  string // lines
		lacks     string
	}{
		{map[string]any{"turnTimeoutSeconds": 60}, "turnTimeoutSeconds: 30 # seconds", "turnTimeoutSeconds: 60 # seconds",
			""},
		{map[string]any{"unknownNodes": "Refuse"}, "turnTimeoutSeconds: 30 # seconds", "unknownNodes: Refuse", ""},
		{map[string]any{"turnTimeoutSeconds": nil}, "kind: TenonArgs", "", "turnTimeoutSeconds"},
		{map[string]any{"scoringStrategy": map[string]any{"type": "LeastAllocated"}}, "# Each binding is a request.",
			"type: LeastAllocated", ""},
	} {
		conf, err := Parse(kubeText)
		if err != nil {
			t.Fatal(err)
		}
		got, err := conf.SetArguments("", c.arguments)
		if err != nil {
			t.Errorf("%v: %v", c.arguments, err)
			continue
		}
		if !strings.Contains(got, c.new) || c.lacks != "" && strings.Contains(got, c.lacks) ||
			!strings.Contains(got, "# places") || !strings.Contains(got, "# Each binding is a request.") {
			t.Errorf("%v gives\n%s", c.arguments, got)
		}
		if c.arguments["turnTimeoutSeconds"] == 60 && got != strings.Replace(kubeText, c.old, c.new, 1) {
			t.Errorf("other lines changed:\n%s", got)
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
