package chart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// property is a value of the chart, or a group of them, as the schema declares it.
type property struct {
	name, description string
	value             *yaml.Node // the default; nil for a group
	kind              string     // the type, as it is shown
	members           []property // of a group
}

// properties returns the values of a schema in the schema's order. A property without a default is a group, and must
// have properties. A property without a description is an error, because users see the descriptions.
func properties(schema []byte) ([]property, error) {
	var doc yaml.Node // JSON is YAML, and this decoder keeps the order
	if err := yaml.Unmarshal(schema, &doc); err != nil {
		return nil, fmt.Errorf("read the schema of values: %w", err)
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("the schema of values is empty")
	}
	return readGroup(doc.Content[0], "")
}

func readGroup(n *yaml.Node, at string) (out []property, err error) {
	list := field(n, "properties")
	if list == nil {
		return nil, fmt.Errorf("schema: %s has no properties", at)
	}
	for i := 0; i+1 < len(list.Content); i += 2 {
		name, v := list.Content[i].Value, list.Content[i+1]
		p := property{name: name, kind: allowedValues(v), value: field(v, "default")}
		if d := field(v, "description"); d != nil {
			p.description = d.Value
		}
		path := strings.TrimPrefix(at+"."+name, ".")
		if p.value == nil {
			if p.members, err = readGroup(v, path); err != nil {
				return nil, err
			}
		}
		if p.description == "" {
			return nil, fmt.Errorf("schema: %s has no description", path)
		}
		out = append(out, p)
	}
	return out, nil
}

// field returns a field of a mapping, or nil.
func field(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// allowedValues returns a short text on the allowed values.
func allowedValues(n *yaml.Node) string {
	if enum := field(n, "enum"); enum != nil {
		var all []string
		for _, v := range enum.Content {
			all = append(all, "`"+v.Value+"`")
		}
		return strings.Join(all, " or ")
	}
	t := field(n, "type")
	if t == nil {
		return ""
	}
	kind := t.Value
	if t.Kind == yaml.SequenceNode {
		var all []string
		for _, v := range t.Content {
			all = append(all, v.Value)
		}
		kind = strings.Join(all, " or ")
	}
	least, most := field(n, "minimum"), field(n, "maximum")
	if least != nil && most != nil {
		kind += ", " + least.Value + " to " + most.Value
	}
	return kind
}

// Values returns the chart's values.yaml: the defaults of the schema, each below its description.
func Values(schema []byte) ([]byte, error) {
	all, err := properties(schema)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Made of values.schema.json by `tools/release/run chart`; change that file.\n")
	if err := writeValues(&b, all, ""); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeValues(b *bytes.Buffer, all []property, indent string) error {
	for i, p := range all {
		if indent == "" || i > 0 && (len(p.members) > 0 || len(all[i-1].members) > 0) {
			b.WriteString("\n")
		}
		for _, line := range wrap(p.description, 116-len(indent)) {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
		}
		if len(p.members) > 0 {
			fmt.Fprintf(b, "%s%s:\n", indent, p.name)
			if err := writeValues(b, p.members, indent+"  "); err != nil {
				return err
			}
			continue
		}
		text, err := yamlText(p)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			b.WriteString(indent + line)
		}
	}
	return nil
}

// yamlText returns a value as YAML. It is one line, unless the value is a mapping with fields or a list of mappings.
func yamlText(p property) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(map[string]*yaml.Node{p.name: unstyled(p.value)}); err != nil {
		return "", fmt.Errorf("write value %s: %w", p.name, err)
	}
	return b.String(), nil
}

// unstyled returns a value without the style of JSON. Strings have quotes only if YAML needs them. Lists that are
// empty or begin with a scalar are in one line; other lists and mappings are in several.
func unstyled(n *yaml.Node) *yaml.Node {
	out := *n
	out.Style = 0
	if n.Kind == yaml.SequenceNode && (len(n.Content) == 0 || n.Content[0].Kind == yaml.ScalarNode) {
		out.Style = yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "" {
		out.Style = yaml.DoubleQuotedStyle
	}
	out.Content = nil
	for _, c := range n.Content {
		out.Content = append(out.Content, unstyled(c))
	}
	return &out
}

// wrap breaks a text into lines of at most width bytes. A longer word has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// Table returns the documentation of all values, as a table of Markdown.
func Table(schema []byte) ([]byte, error) {
	all, err := properties(schema)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("| value | default | type | meaning |\n|---|---|---|---|\n")
	writeRows(&b, all, "")
	return b.Bytes(), nil
}

func writeRows(b *bytes.Buffer, all []property, at string) {
	for _, p := range all {
		path := strings.TrimPrefix(at+"."+p.name, ".")
		if len(p.members) > 0 {
			writeRows(b, p.members, path)
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, inlineCode(p.value), p.kind, p.description)
	}
}

// inlineCode returns a default in one line as code in Markdown, or "" if it is empty.
func inlineCode(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		if n.Value == "" {
			return ""
		}
		return "`" + n.Value + "`"
	}
	if len(n.Content) == 0 {
		return ""
	}
	flow := *n
	var clean func(*yaml.Node)
	clean = func(n *yaml.Node) {
		n.Style = yaml.FlowStyle
		if n.Kind == yaml.ScalarNode {
			n.Style = 0
		}
		n.Content = slices.Clone(n.Content)
		for i, c := range n.Content {
			own := *c
			clean(&own)
			n.Content[i] = &own
		}
	}
	clean(&flow)
	text, err := yaml.Marshal(&flow)
	if err != nil {
		return "" // a node that was read can be written
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}
