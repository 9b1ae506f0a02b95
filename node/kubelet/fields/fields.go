// Package fields finds the parts of a KubeletConfiguration's text that a kubelet ignores: fields that no kubelet has,
// the earlier value of a repeated key, and documents after the first.
//
// A kubelet starts all the same (pkg/kubelet/kubeletconfig/util/codec, DecodeKubeletConfiguration). Invariant: a name
// counts as known only if the API of this program's Kubernetes has it, written with the same capitals. A name of a
// later release is unknown here, so it is a reason for a warning, and never for a refusal.
package fields

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/printable"
)

// Ignored is one part of the text that the kubelet ignores.
type Ignored struct {
	Line int
	// Text describes it.
	Text string
}

// String is the text with its line.
func (i Ignored) String() string { return fmt.Sprintf("line %d: %s", i.Line, i.Text) }

// Bounds on what is walked and returned.
const (
	maxDepth   = 16    // levels of nested values
	maxNodes   = 10000 // values in the text
	maxIgnored = 20    // ignored parts
	maxName    = 60    // bytes of a name
)

// Of returns the parts of a KubeletConfiguration, in YAML or JSON, that a kubelet ignores: at most 20, in the order of
// the text. It returns nil for text that is not YAML, because the decoder reports that error.
func Of(data []byte) []Ignored {
	var doc yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	w := &walk{json: bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))}
	w.value(doc.Content[0], reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), "", 0)
	w.addFollowing(in)
	return w.found
}

type walk struct {
	found []Ignored
	nodes int
	json  bool // the kubelet decodes the text as JSON
}

func (w *walk) add(line int, format string, args ...any) {
	if len(w.found) < maxIgnored {
		w.found = append(w.found, Ignored{line, fmt.Sprintf(format, args...)})
	}
}

// addFollowing adds one finding if more text follows the first document. The kubelet does not read it, so it need not
// be YAML.
func (w *walk) addFollowing(in *yaml.Decoder) {
	for range maxIgnored {
		var doc yaml.Node
		err := in.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			w.add(1, "the kubelet reads the first document only, and more text follows it")
			return
		case len(doc.Content) > 0 && doc.Content[0].Tag != "!!null":
			w.add(doc.Content[0].Line, "the kubelet reads the first document only, and ignores this one")
			return
		}
	}
}

// addRepeated adds a finding if a mapping has the key for the second time. before has the last occurrence of each
// earlier key. The kubelet takes the last value. In JSON, however, it decodes repeated mappings and lists into the
// same value one after the other, which joins them.
func (w *walk) addRepeated(key *yaml.Node, before map[string]*yaml.Node, value *yaml.Node, path string) {
	earlier := before[key.Value]
	before[key.Value] = key
	switch {
	case earlier == nil:
	case w.json && value.Kind != yaml.ScalarNode:
		w.add(key.Line, "%s is there again, after line %d: the kubelet joins both", path, earlier.Line)
	default:
		w.add(key.Line, "%s is there again: the kubelet takes this one, and ignores that of line %d", path, earlier.Line)
	}
}

// value looks for ignored parts in a value of the given type. It skips a value that does not have the type, because the
// kubelet itself refuses it.
func (w *walk) value(n *yaml.Node, typ reflect.Type, path string, depth int) {
	if w.nodes++; w.nodes > maxNodes || depth > maxDepth || len(w.found) >= maxIgnored {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			w.value(item, typ.Elem(), fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case typ.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		before := map[string]*yaml.Node{}
		for i := 1; i < len(n.Content); i += 2 {
			key, here := n.Content[i-1], path+"."+clip(n.Content[i-1].Value)
			if key.Tag != "!!merge" {
				w.addRepeated(key, before, n.Content[i], here)
			}
			w.value(n.Content[i], typ.Elem(), here, depth+1)
		}
	case typ.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		w.fields(n, typ, path, depth)
	}
}

// fields looks for unknown and repeated keys in a mapping that the kubelet decodes into a struct of the given type.
func (w *walk) fields(n *yaml.Node, typ reflect.Type, path string, depth int) {
	known := map[string]reflect.Type{}
	names(typ, known)
	if len(known) == 0 {
		return // a type that decodes itself, such as a quantity
	}
	before := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			w.merged(value, typ, path, depth)
			continue
		}
		here := strings.TrimPrefix(path+"."+clip(key.Value), ".")
		if t, ok := known[key.Value]; ok {
			w.addRepeated(key, before, value, here)
			w.value(value, t, here, depth+1)
			continue
		}
		text := "the kubelet has no field " + here + " and ignores it"
		if near := nearest(key.Value, path, known); near != "" {
			text += "; " + near + " may be meant"
		}
		w.add(key.Line, "%s", text)
	}
}

// merged looks for ignored parts in the mapping, or the list of mappings, of a merge key (<<).
func (w *walk) merged(n *yaml.Node, typ reflect.Type, path string, depth int) {
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			w.value(one, typ, path, depth+1)
		}
		return
	}
	w.value(n, typ, path, depth+1)
}

// names adds to out the types of a struct's fields by their names in JSON, including the fields of embedded structs.
func names(typ reflect.Type, out map[string]reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous && (rest == "inline" || rest == ""):
			names(f.Type, out)
		case name != "" && name != "-" && f.IsExported():
			out[name] = f.Type
		}
	}
}

// options has, for keys that belong into a field of type map, the name of this field. If the indentation of such a
// key is lost, it stands beside the field instead of in it.
var options = map[string]string{
	"full-pcpus-only": "cpuManagerPolicyOptions", "distribute-cpus-across-numa": "cpuManagerPolicyOptions",
	"align-by-socket": "cpuManagerPolicyOptions", "distribute-cpus-across-cores": "cpuManagerPolicyOptions",
	"strict-cpu-reservation":           "cpuManagerPolicyOptions",
	"prefer-align-cpus-by-uncorecache": "cpuManagerPolicyOptions",
	"prefer-closest-numa-nodes":        "topologyManagerPolicyOptions",
	"max-allowable-numa-nodes":         "topologyManagerPolicyOptions",
	"memory.available":                 "evictionHard", "nodefs.available": "evictionHard",
}

// flags has the configuration fields for flags of the kubelet and for other common names
// (cmd/kubelet/app/options/options.go). The keys have the form of printable.Plain.
var flags = map[string]string{"reservedcpus": "reservedSystemCPUs", "reserved": "systemReserved",
	"maxpodspernode": "maxPods"}

// nearest returns the field that an unknown name may mean, with its path; "" if none is similar.
func nearest(name, path string, known map[string]reflect.Type) string {
	if field := options[name]; field != "" {
		return field + "." + name
	}
	best := flags[printable.Plain(name)]
	if _, ok := known[best]; !ok {
		best = printable.Nearest(name, slices.Collect(maps.Keys(known)))
	}
	if best == "" {
		return ""
	}
	return join(path, best)
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// clip shortens a name for a finding.
func clip(s string) string { return printable.Clip(s, maxName) }
