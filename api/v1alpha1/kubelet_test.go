package v1alpha1

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/state"
)

func TestReasonsSurviveTheWire(t *testing.T) {
	l := big(t)
	want := []state.Inexact{
		{Code: state.UnknownKubeletVersion, Message: `kubelet "v1.35.2" is not of release 1.36`},
		{Code: state.UnhealthyDevices},
		{Code: "a-code-of-a-later-release", Message: "~"},
	}
	l.Inexact = FromInexact(want)
	got, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Inexact, want) {
		t.Errorf("reasons %v became %v", want, got.Inexact)
	}
}

// A layout of an agent that omits the kubelet's version does not count as one of the modelled version.
func TestSilentAgentsAreInexact(t *testing.T) {
	for _, c := range []struct {
		what string
		set  func(l *NodeLayout)
		want int
	}{
		{"no agent", func(*NodeLayout) {}, 0},
		{"silent", func(l *NodeLayout) { l.Agent.ID = "a" }, 1},
		{"a version", func(l *NodeLayout) { l.Agent.ID, l.Kubelet.Version = "a", "v1.36.3" }, 0},
		{"says that it is not known", func(l *NodeLayout) {
			l.Agent.ID, l.Inexact = "a", []Inexact{{Code: string(state.UnknownKubeletVersion), Message: "m"}}
		}, 1},
	} {
		l := big(t)
		c.set(l)
		got, err := l.Core()
		if err != nil || len(got.Inexact) != c.want || c.want > 0 && got.Inexact[0].Code != state.UnknownKubeletVersion {
			t.Errorf("%s: %v, %v", c.what, got.Inexact, err)
		}
	}
}

// Whatever text a reason has, the agent's own layout stays valid.
func TestReasonsAreMadeToFit(t *testing.T) {
	l := big(t)
	var in []state.Inexact
	for range 2 * MaxInexact {
		in = append(in, state.Inexact{Code: state.KubeletUnusable, Message: "\x1b[31m\u202e" +
			strings.Repeat("ä", MaxMessage)})
	}
	l.Inexact = FromInexact(in)
	got, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Inexact) != MaxInexact || len(got.Inexact[0].Message) != MaxMessage ||
		strings.ContainsRune(got.Inexact[0].Message, '\x1b') {
		t.Errorf("%d reasons, the first is %q", len(got.Inexact), got.Inexact[0].Message)
	}
}

func TestBadKubeletsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(*NodeLayout)
		want []string
	}{
		{"version", func(l *NodeLayout) { l.Kubelet.Version = "v1.36\x1b[2J" }, []string{"kubelet", "version",
			`"v1.36\x1b[2J"`}},
		{"long version", func(l *NodeLayout) { l.Kubelet.Version = strings.Repeat("1", 65) },
			[]string{"version", "65", "64"}},
		{"gate", func(l *NodeLayout) { l.Kubelet.FeatureGates = []FeatureGate{{Name: "A=true\r"}} },
			[]string{"featureGates", `"A=true\r"`}},
		{"gate twice", func(l *NodeLayout) {
			l.Kubelet.FeatureGates = []FeatureGate{{Name: "A"}, {Name: "A", Enabled: true}}
		}, []string{"featureGates", `"A" is named twice`}},
		{"gates", func(l *NodeLayout) { l.Kubelet.FeatureGates = make([]FeatureGate, 65) }, []string{"featureGates", "65"}},
		{"code", func(l *NodeLayout) { l.Inexact = []Inexact{{Code: "Unknown"}} }, []string{"inexact", "[0]", `"Unknown"`}},
		{"no code", func(l *NodeLayout) { l.Inexact = []Inexact{{Code: "a"}, {}} }, []string{"inexact", "[1]", "code"}},
		{"message", func(l *NodeLayout) { l.Inexact = []Inexact{{Code: "a", Message: "x\a"}} }, []string{"message", `"x\a"`}},
		{"reasons", func(l *NodeLayout) { l.Inexact = make([]Inexact, 33) }, []string{"inexact", "33"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := big(t)
			c.harm(l)
			_, err := l.Core()
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range append(c.want, "node-a") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// The definition refuses what Core refuses.
func TestDefinitionHasTheSamePatterns(t *testing.T) {
	data, err := os.ReadFile("../../deploy/crd/tenon.sh_nodelayouts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{versionForm.String(), gateForm.String(), codeForm.String(), messageForm.String()} {
		if !strings.Contains(string(data), "pattern: "+form+"\n") {
			t.Errorf("no field of the definition has the pattern %s", form)
		}
	}
}
