// Package fields finds the fields of a KubeletConfiguration that no kubelet has.
//
// A kubelet ignores them and starts: what they were to set keeps its default (pkg/kubelet/kubeletconfig/util/codec,
// DecodeKubeletConfiguration). Invariant: a name counts as known only if the API of this program's Kubernetes has it,
// written with the same capitals. A name of a later release is unknown here, so it is a reason for a warning, and never
// for a refusal.
package fields

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/printable"
)

// Unknown is a field that the kubelet ignores.
type Unknown struct {
	// Path is where it is, such as "logging.flushFrequenzy".
	Path string
	Line int
	// Near is the known field that its name is nearest to, with its path; empty where none is near.
	Near string
}

// String says the field with its line, and which one may be meant.
func (u Unknown) String() string {
	out := fmt.Sprintf("line %d: the kubelet has no field %s and ignores it", u.Line, u.Path)
	if u.Near != "" {
		out += "; " + u.Near + " may be meant"
	}
	return out
}

// Bounds on what is walked and returned.
const (
	maxDepth   = 16
	maxNodes   = 10000
	maxUnknown = 20
	maxName    = 60
)

// Of returns the unknown fields of a KubeletConfiguration as YAML or JSON, in the order of the text, at most 20. Text
// that is no YAML has none: whoever decodes it says why.
func Of(data []byte) []Unknown {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	w := &walk{}
	w.value(doc.Content[0], reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), "", 0)
	return w.found
}

type walk struct {
	found []Unknown
	nodes int
}

// value compares a value with its type. Values of other types than structs have no fields, and the kubelet says itself
// where a value is not of its type.
func (w *walk) value(n *yaml.Node, of reflect.Type, path string, depth int) {
	if w.nodes++; w.nodes > maxNodes || depth > maxDepth || len(w.found) >= maxUnknown {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			w.value(item, of.Elem(), fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case of.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			w.value(n.Content[i], of.Elem(), path+"."+clip(n.Content[i-1].Value), depth+1)
		}
	case of.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		w.fields(n, of, path, depth)
	}
}

func (w *walk) fields(n *yaml.Node, of reflect.Type, path string, depth int) {
	known := map[string]reflect.Type{}
	names(of, known)
	if len(known) == 0 {
		return // a type that reads itself, such as a quantity
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			w.merged(value, of, path, depth)
			continue
		}
		here := strings.TrimPrefix(path+"."+clip(key.Value), ".")
		if t, ok := known[key.Value]; ok {
			w.value(value, t, here, depth+1)
			continue
		}
		if len(w.found) < maxUnknown {
			w.found = append(w.found, Unknown{Path: here, Line: key.Line, Near: nearest(key.Value, path, known)})
		}
	}
}

// merged are the mappings of a merge key.
func (w *walk) merged(n *yaml.Node, of reflect.Type, path string, depth int) {
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			w.value(one, of, path, depth+1)
		}
		return
	}
	w.value(n, of, path, depth+1)
}

// names are the fields of a struct by their names in JSON, those of embedded structs with them.
func names(of reflect.Type, out map[string]reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous && (rest == "inline" || rest == ""):
			names(f.Type, out)
		case name != "" && name != "-" && f.IsExported():
			out[name] = f.Type
		}
	}
}

// options are fields of which every kubelet has a map: what is in it stands beside it where its indentation is lost.
var options = map[string]string{
	"full-pcpus-only": "cpuManagerPolicyOptions", "distribute-cpus-across-numa": "cpuManagerPolicyOptions",
	"align-by-socket": "cpuManagerPolicyOptions", "distribute-cpus-across-cores": "cpuManagerPolicyOptions",
	"strict-cpu-reservation":           "cpuManagerPolicyOptions",
	"prefer-align-cpus-by-uncorecache": "cpuManagerPolicyOptions",
	"prefer-closest-numa-nodes":        "topologyManagerPolicyOptions",
	"max-allowable-numa-nodes":         "topologyManagerPolicyOptions",
	"memory.available":                 "evictionHard", "nodefs.available": "evictionHard",
}

// flags are the kubelet's flags of fields that have other names (cmd/kubelet/app/options/options.go).
var flags = map[string]string{"reservedcpus": "reservedSystemCPUs", "reserved": "systemReserved",
	"maxpodspernode": "maxPods"}

// nearest returns the field that a name may mean.
func nearest(name, path string, known map[string]reflect.Type) string {
	if in := options[name]; in != "" {
		return in + "." + name
	}
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	best, least := flags[plain(name)], 1+min(len(name), maxName)/5
	if _, ok := known[best]; ok {
		return join(path, best)
	}
	best = ""
	for other := range known {
		if d := distance(plain(clip(name)), plain(other), least+1); d < least || d == least && (best == "" || other < best) {
			best, least = other, d
		}
	}
	if best == "" {
		return ""
	}
	return join(path, best)
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// distance counts the letters by which two names differ, up to a bound (Levenshtein).
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := last
			if a[i] != b[j] {
				next = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// clip keeps texts short when a name is not.
func clip(s string) string { return printable.Clip(s, maxName) }
