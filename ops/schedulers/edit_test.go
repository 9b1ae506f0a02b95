package schedulers

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const volcanoText = `# The order of actions matters.
actions: "enqueue, allocate, backfill"

tiers:
- plugins:
  - name: priority   # first
  # - name: numa-aware
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
  - name: predicates
  # binpack packs.
  - name: binpack
    arguments:
      binpack.weight: 5

# The end.
`

const kubeText = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
# Each binding is a request.
clientConnection:
  qps: 500

profiles:
- schedulerName: tenon-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Tenon # places
        weight: 10
  pluginConfig:
  - name: Tenon
    args:
      apiVersion: tenon.sh/v1alpha1
      kind: TenonArgs
      turnTimeoutSeconds: 30 # seconds
`

func set(t *testing.T, text string, on bool, profile string) string {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Set(on, profile)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Turning the plugin on and off changes a few lines; all others stay unchanged, including comments and empty lines.
func TestOnlyThePluginsLinesChange(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		on   bool
		diff string
	}{
		"volcano on": {volcanoText, true, "+   - name: numa-aware\n+     arguments:\n+       weight: 10\n"},
		"tenon off": {kubeText, false, "-       enabled:\n" +
			"-       - name: Tenon # places\n-         weight: 10\n+       enabled: []\n"},
		"two plugins": {strings.Replace(kubeText, "      - name: Tenon # places",
			"      - name: NodeAffinity\n      - name: Tenon", 1), false, "-       - name: Tenon\n-         weight: 10\n"},
		"no line at the end": {strings.TrimSuffix(volcanoText, "\n\n# The end.\n"), true,
			"+   - name: numa-aware\n+     arguments:\n+       weight: 10\n"},
	} {
		out := set(t, c.text, c.on, "")
		if got := Diff(c.text, out); strings.TrimSuffix(got, "+ \n") != c.diff {
			t.Errorf("%s: diff\n%swant\n%s", name, got, c.diff)
		}
		if again := set(t, out, c.on, ""); again != out {
			t.Errorf("%s: once more it changes\n%s", name, Diff(out, again))
		}
	}
}

func TestOffAndOnAgainIsAsBefore(t *testing.T) {
	plain := strings.Replace(kubeText, " # places", "", 1)
	if got := set(t, set(t, plain, false, ""), true, ""); got != plain {
		t.Errorf("differs:\n%s", Diff(plain, got))
	}
	if got := set(t, set(t, volcanoText, true, ""), false, ""); got != volcanoText {
		t.Errorf("differs:\n%s", Diff(volcanoText, got))
	}
}

// If lines cannot be told apart, the text is written anew, with order and comments.
func TestFlowStyleIsWrittenAnew(t *testing.T) {
	text := "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1 # stays\n" +
		"profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: Tenon}]}}}, {schedulerName: b}]\n"
	off := set(t, text, false, "a")
	c, err := Parse(off)
	if err != nil || c.Enabled() || !strings.Contains(off, "# stays") ||
		strings.Index(off, "kind") > strings.Index(off, "apiVersion") {
		t.Fatalf("off: %v\n%s", err, off)
	}
	b := set(t, off, true, "b")
	if c, err = Parse(b); err != nil || c.Profiles[0].Enabled || !c.Profiles[1].Enabled {
		t.Errorf("profile b: %v\n%s", err, b)
	}
}

func TestConfigurationsThatAreNotUnderstoodAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":        "no mapping",
		"- a":     "no mapping",
		"a: [":    "read YAML",
		"kind: X": "neither",
		"kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nprofils: []\n": "profils",
		strings.Replace(kubeText, "turnTimeoutSeconds", "turnTimeout", 1):                             "turnTimeout",
		"actions: a\ntiers:\n- plugins: []\n":                                                         "no plugins",
		"actions: a\ntiers:\n- plugins:\n  - nam: x\n":                                                "no name",
		strings.Repeat("#", maxText+1):                                                                "at most",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want one with %q", text, err, want)
		}
	}
	c, err := Parse("kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\n" +
		"profiles:\n- schedulerName: a\n- schedulerName: b\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(true, ""); err == nil || !strings.Contains(err.Error(), "say which one") {
		t.Errorf("two profiles without arguments: error %v", err)
	}
	if _, err := c.Set(true, "z"); err == nil {
		t.Error("a profile that is not there is taken")
	}
}

// Whatever surrounds the plugin, every other plugin and comment is still there afterwards.
func TestNothingElseIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("actions: \"a, b\"\ntiers:\n")
		name := rapid.StringMatching(`[a-z]{1,6}`)
		var kept []string
		for range rapid.IntRange(1, 4).Draw(t, "tiers") {
			indent := rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent")
			b.WriteString("- plugins:\n")
			for range rapid.IntRange(1, 4).Draw(t, "plugins") {
				comment := "# c-" + name.Draw(t, "comment")
				plugin := "p-" + name.Draw(t, "plugin")
				kept = append(kept, comment, plugin)
				b.WriteString("  " + indent + comment + "\n  " + indent + "- name: " + plugin + "\n")
				if rapid.Bool().Draw(t, "arguments") {
					b.WriteString("    " + indent + "arguments:\n      " + indent + "x: |\n        " + indent + "y\n")
				}
			}
		}
		c, err := Parse(b.String())
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		out, err := c.Set(true, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range kept {
			if !strings.Contains(out, k) {
				t.Fatalf("%s is lost in\n%s", k, out)
			}
		}
	})
}

// Any content of a ConfigMap is either refused, or has the plugin in the requested state afterwards.
func FuzzSet(f *testing.F) {
	for _, text := range []string{volcanoText, kubeText, "tiers: [{plugins: [{name: numa-aware}, {name: a}]}]",
		"tiers: &a [{plugins: [{name: x}, *a]}]", "kind: KubeSchedulerConfiguration\nprofiles: [null]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		on := !c.Enabled()
		out, err := c.Set(on, "")
		if err != nil || len(c.Profiles) == 0 {
			return
		}
		after, err := Parse(out)
		if err != nil || after.Enabled() != on && out != text {
			t.Errorf("%v: enabled %v in\n%s\nof\n%s", err, after.Enabled(), out, text)
		}
	})
}
