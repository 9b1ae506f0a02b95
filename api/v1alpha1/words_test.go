package v1alpha1

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestFormsAreTheirPatterns(t *testing.T) {
	for _, f := range []form{word, graphic, label, dotted} {
		re := regexp.MustCompile(f.pattern())
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.OneOf(rapid.StringMatching(`[-+.:_/ aZ09]{0,6}`), rapid.String()).Draw(t, "text")
			if got, want := f.has(s), re.MatchString(s); got != want {
				t.Fatalf("%q: %v, and %s says %v", s, got, f.pattern(), want)
			}
		})
	}
}

// hostile has texts that change a terminal, or that mislead a reader.
var hostile = []string{"a\x1b]0;x\ab", "a\rb", "a\nb", "a\x7fb", "a\u009bb", "a\u202eb", "a\u2066b", "a\u2028b",
	"a\ufeffb", "a\xffb", "a b", "a\x00b"}

// No text from a node reaches a log or a terminal unquoted.
func TestHostileTextsAreRefusedAndQuoted(t *testing.T) {
	fields := map[string]func(l *NodeLayout, s string){
		"namespace":       func(l *NodeLayout, s string) { l.Holdings[0].Namespace = s },
		"pod":             func(l *NodeLayout, s string) { l.Holdings[0].Name = s },
		"uid":             func(l *NodeLayout, s string) { l.Holdings[0].UID = s },
		"container":       func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Name = s },
		"container kind":  func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Kind = s },
		"cpus":            func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].CPUs = IDList(s) },
		"memory kind":     func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Memory[0].Kind = s },
		"memory numas":    func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Memory[0].NUMAs = IDList(s) },
		"held resource":   func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Devices[0].Resource = s },
		"held device":     func(l *NodeLayout, s string) { l.Holdings[0].Containers[0].Devices[0].IDs[0] = s },
		"resource":        func(l *NodeLayout, s string) { l.Machine.Devices[0].Resource = s },
		"device":          func(l *NodeLayout, s string) { l.Machine.Devices[0].Groups[0].IDs[0] = s },
		"root":            func(l *NodeLayout, s string) { l.Machine.Devices[0].Groups[0].Root = s },
		"page size":       func(l *NodeLayout, s string) { l.Machine.NUMAs[0].Hugepages[0].Size = s },
		"driver":          func(l *NodeLayout, s string) { l.Machine.Functions = []Function{{Driver: s}} },
		"virtual driver":  func(l *NodeLayout, s string) { l.Machine.Functions = []Function{{VirtualDriver: s}} },
		"address":         func(l *NodeLayout, s string) { l.Machine.Functions = []Function{{Address: s}} },
		"class":           func(l *NodeLayout, s string) { l.Machine.Functions = []Function{{Class: s}} },
		"function":        func(l *NodeLayout, s string) { l.Machine.Functions = []Function{{ID: s}} },
		"agent":           func(l *NodeLayout, s string) { l.Agent.ID = s },
		"policy":          func(l *NodeLayout, s string) { l.Rules.TopologyManagerPolicy = s },
		"scope":           func(l *NodeLayout, s string) { l.Rules.TopologyManagerScope = s },
		"cpu policy":      func(l *NodeLayout, s string) { l.Rules.CPUManagerPolicy = s },
		"memory policy":   func(l *NodeLayout, s string) { l.Rules.MemoryManagerPolicy = s },
		"reserved cpus":   func(l *NodeLayout, s string) { l.Rules.ReservedCPUs = IDList(s) },
		"reserved memory": func(l *NodeLayout, s string) { l.Rules.ReservedMemory = []ReservedMemory{{Kind: s}} },
		"group":           func(l *NodeLayout, s string) { l.MemoryGroups = []MemoryGroup{{Group: IDList(s)}} },
		"free memory": func(l *NodeLayout, s string) {
			l.MemoryGroups = []MemoryGroup{{Group: "0", Free: []FreeMemory{{Kind: s}}}}
		},
		"version":   func(l *NodeLayout, s string) { l.Kubelet.Version = s },
		"gate":      func(l *NodeLayout, s string) { l.Kubelet.FeatureGates = []FeatureGate{{Name: s}} },
		"code":      func(l *NodeLayout, s string) { l.Inexact = []Inexact{{Code: s}} },
		"malformed": func(l *NodeLayout, s string) { l.Malformed = s },
	}
	for name, set := range fields {
		for _, s := range hostile {
			l := big(t)
			set(l, s)
			_, err := l.Core()
			if err == nil {
				t.Errorf("%s: %q is accepted", name, s)
				continue
			}
			if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
				t.Errorf("%s: the error %q has %q as it is", name, err, err.Error()[i:])
			}
		}
	}
	for _, s := range hostile {
		l := big(t)
		if l.Inexact = []Inexact{{Code: "a", Message: s}}; s == "a b" {
			continue
		}
		if _, err := l.Core(); err == nil {
			t.Errorf("message: %q is accepted", s)
		}
	}
}

// fieldSchema is the checked part of an OpenAPI schema.
type fieldSchema struct {
	Type       string                  `json:"type"`
	Format     string                  `json:"format"`
	Pattern    string                  `json:"pattern"`
	Enum       []any                   `json:"enum"`
	MaxLength  *int64                  `json:"maxLength"`
	MaxItems   *int64                  `json:"maxItems"`
	Maximum    *float64                `json:"maximum"`
	Properties map[string]*fieldSchema `json:"properties"`
	Items      *fieldSchema            `json:"items"`
}

// The definition bounds every text and every list that an agent may send, and gives every text a form.
func TestDefinitionBoundsEverything(t *testing.T) {
	data, err := os.ReadFile("../../deploy/crd/tenon.sh_nodelayouts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema *fieldSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	texts := 0
	var walk func(path string, s *fieldSchema)
	walk = func(path string, s *fieldSchema) {
		switch {
		case s.Type == "array":
			if s.MaxItems == nil {
				t.Errorf("%s: the list has no bound", path)
			}
			walk(path+"[]", s.Items)
		case s.Type == "string" && s.Format != "date-time" && len(s.Enum) == 0:
			texts++
			if s.MaxLength == nil && s.Pattern != `^(memory|hugepages-[1-9][0-9]*(Ki|Mi|Gi|Ti)?)$` {
				t.Errorf("%s: the text has no bound", path)
			}
			if s.Pattern == "" {
				t.Errorf("%s: the text has no form", path)
				return
			}
			re := regexp.MustCompile(s.Pattern)
			for _, h := range hostile {
				if re.MatchString(h) && (h != "a b" || !strings.HasSuffix(path, "[].message")) {
					t.Errorf("%s: %q is accepted", path, h)
				}
			}
		}
		for name, p := range s.Properties {
			if at := path + "." + name; at != ".apiVersion" && at != ".kind" && at != ".metadata" && at != ".status" {
				walk(at, p)
			}
		}
	}
	top := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	walk("", top)
	if texts < 20 {
		t.Errorf("only %d texts were found", texts)
	}
	if most := top.Properties["sequence"].Maximum; most == nil || int64(*most) != MaxSequence {
		t.Errorf("the greatest sequence is %v, want %d", most, int64(MaxSequence))
	}
}
