package schedulers

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/document"
)

// Set returns the text of the configuration with the plugin turned on or off, and validates it. If nothing changes,
// it returns the same text. profile is the name of the profile to change. If profile is "", Set changes all profiles
// that have the plugin or arguments for it, or the only profile.
func (c *Configuration) Set(on bool, profile string) (string, error) {
	e := editor{lines: strings.SplitAfter(c.text, "\n")}
	var err error
	if c.Type == document.Volcano {
		err = e.setVolcano(c.root, on)
	} else {
		err = e.setProfiles(c, on, profile)
	}
	if err != nil || !e.changed {
		return c.text, err
	}
	out, err := e.text(c.root)
	if err != nil {
		return "", err
	}
	after, err := Parse(out)
	if err != nil {
		return "", fmt.Errorf("validate the changed configuration: %w", err)
	}
	if profile == "" && after.Enabled() != on {
		return "", errors.New("validate the changed configuration: the plugin is not as it was asked for")
	}
	return out, nil
}

// editor changes a tree of YAML and, if possible, the lines that the tree was read from.
type editor struct {
	lines   []string // with their line ends; a removed line is empty
	changed bool
	rewrite bool // text writes the tree anew: the lines cannot be changed one by one
}

// text returns the changed lines if they parse to the changed tree. Otherwise it writes the tree anew, with its
// comments and order.
func (e *editor) text(root *yaml.Node) (string, error) {
	var want, got any
	if err := root.Decode(&want); err != nil {
		return "", fmt.Errorf("read the changed configuration: %w", err)
	}
	text := strings.Join(e.lines, "")
	if !e.rewrite && yaml.Unmarshal([]byte(text), &got) == nil && reflect.DeepEqual(got, want) {
		return text, nil
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return "", fmt.Errorf("write the changed configuration: %w", err)
	}
	return out.String(), enc.Close()
}

// setVolcano adds the plugin to the tier with the plugin "predicates", or to the last tier if there is none. If on is
// false, it removes the plugin from all tiers.
func (e *editor) setVolcano(root *yaml.Node, on bool) error {
	tiers := value(root, "tiers")
	if tiers == nil || tiers.Kind != yaml.SequenceNode || len(tiers.Content) == 0 {
		return errors.New("the configuration of Volcano has no tiers")
	}
	var all, placing *yaml.Node
	for _, t := range tiers.Content {
		all = value(t, "plugins")
		i := indexNamed(all, func(name string) bool { return name == NUMAAware })
		switch {
		case i >= 0 && on:
			return nil
		case i >= 0:
			if len(all.Content) == 1 {
				return fmt.Errorf("%s is alone in its tier: remove the tier by hand", NUMAAware)
			}
			e.remove(nil, all, i)
		}
		if indexNamed(all, func(name string) bool { return name == "predicates" }) >= 0 {
			placing = all
		}
	}
	if !on {
		return nil
	}
	if placing == nil {
		placing = all
	}
	e.add(nil, placing, []pair{{"name", NUMAAware}, {"arguments", []pair{{"weight", weight}}}})
	return nil
}

// setProfiles turns the plugin on or off in the profiles that Set describes.
func (e *editor) setProfiles(c *Configuration, on bool, profile string) error {
	all := value(c.root, "profiles")
	if all == nil || len(all.Content) != len(c.Profiles) || len(c.Profiles) == 0 {
		return errors.New("the KubeSchedulerConfiguration has no profiles")
	}
	found := false
	for i, node := range all.Content {
		p := c.Profiles[i]
		chosen := p.SchedulerName == profile ||
			profile == "" && (p.Plugin != "" || len(c.Profiles) == 1)
		if !chosen {
			continue
		}
		found = true
		if on == p.Enabled {
			continue
		}
		if on {
			e.enable(node, p.Plugin)
		} else {
			e.disable(node)
		}
	}
	if !found && profile != "" {
		return fmt.Errorf("there is no profile %s", profile)
	}
	if !found && on {
		return errors.New("no profile has arguments for the plugin: say which one gets it")
	}
	return nil
}

// disable removes the plugin from every extension point of a profile.
func (e *editor) disable(profile *yaml.Node) {
	plugins := value(profile, "plugins")
	if plugins == nil {
		return
	}
	for k := 1; k < len(plugins.Content); k += 2 {
		point := plugins.Content[k]
		enabled := value(point, "enabled")
		for i := indexNamed(enabled, numaPlugin); i >= 0; i = indexNamed(enabled, numaPlugin) {
			e.remove(key(point, "enabled"), enabled, i)
		}
	}
}

// enable adds the plugin at multiPoint of a profile. If name is "", it adds the plugin by its default name.
func (e *editor) enable(profile *yaml.Node, name string) {
	if name == "" {
		name = config.Tenon
	}
	item := []pair{{"name", name}, {"weight", weight}}
	at := profile
	for _, step := range []string{"plugins", "multiPoint", "enabled"} {
		next := value(at, step)
		if next == nil || next.Kind == yaml.ScalarNode {
			e.rewrite = true // there are no lines to add to
			kind := yaml.MappingNode
			if step == "enabled" {
				kind = yaml.SequenceNode
			}
			if next == nil {
				next = &yaml.Node{}
				at.Content = append(at.Content, scalar(step), next)
			}
			*next = yaml.Node{Kind: kind}
		}
		if step == "enabled" {
			e.add(key(at, step), next, item)
		}
		at = next
	}
}

// pair is a key and its value: a string, a number or pairs.
type pair struct {
	key   string
	value any
}

// node returns a value as a node of YAML; see pair for the values.
func node(v any) *yaml.Node {
	switch v := v.(type) {
	case []pair:
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, p := range v {
			out.Content = append(out.Content, scalar(p.key), node(p.value))
		}
		return out
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)}
	}
	return scalar(fmt.Sprint(v))
}

func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// write returns pairs as lines of YAML, each with indent before it.
func write(all []pair, indent string) (out []string) {
	for _, p := range all {
		if inner, ok := p.value.([]pair); ok {
			out = append(out, indent+p.key+":\n")
			out = append(out, write(inner, indent+"  ")...)
			continue
		}
		out = append(out, fmt.Sprintf("%s%s: %v\n", indent, p.key, p.value))
	}
	return out
}

// add appends an item to a list, in the tree and, if possible, in the lines. key is the node of the list's key. It is
// needed for an empty list, which is written as [] behind its key; otherwise it may be nil.
func (e *editor) add(key, list *yaml.Node, item []pair) {
	e.changed = true
	indent, after := 0, 0 // column of the item's dash, and number of the line before it
	switch {
	case len(list.Content) == 0 && key != nil && key.Line > 0 && strings.Contains(e.line(key.Line), "[]"):
		indent, after = key.Column-1, key.Line
		e.lines[key.Line-1] = strings.Replace(e.line(key.Line), " []", "", 1)
	case len(list.Content) > 0 && list.Style&yaml.FlowStyle == 0 && list.Column > 0:
		indent, after = list.Column-1, lastLine(list)
	default:
		e.rewrite = true
	}
	if !e.rewrite && after <= len(e.lines) {
		if l := e.line(after); !strings.HasSuffix(l, "\n") {
			e.lines[after-1] = l + "\n"
		}
		block := write(item, strings.Repeat(" ", indent+2))
		block[0] = strings.Repeat(" ", indent) + "- " + strings.TrimLeft(block[0], " ")
		e.lines[after-1] += strings.Join(block, "")
	}
	list.Style &^= yaml.FlowStyle
	list.Content = append(list.Content, node(item))
}

// remove removes the item at position i of a list, in the tree and in the lines. key is the node of the list's key.
// It is needed for a list that becomes empty, which is then written as []; otherwise it may be nil.
func (e *editor) remove(key, list *yaml.Node, i int) {
	e.changed = true
	item := list.Content[i]
	for n := item.Line; n > 0 && n <= lastLine(item) && n <= len(e.lines); n++ {
		e.lines[n-1] = ""
	}
	list.Content = slices.Delete(list.Content, i, i+1)
	if list.Style&yaml.FlowStyle != 0 {
		e.rewrite = true
	}
	if len(list.Content) > 0 || key == nil {
		return
	}
	l := e.line(key.Line)
	if before, after, ok := strings.Cut(l, key.Value+":"); ok {
		e.lines[key.Line-1] = before + key.Value + ": []" + after
	}
	list.Style |= yaml.FlowStyle
}

func (e *editor) line(n int) string { return e.lines[n-1] }

// lastLine returns the number of the last line of a node. For folded and quoted scalars of several lines the number
// is too small; then method text finds that the lines do not give the tree, and writes the tree anew.
func lastLine(n *yaml.Node) int {
	out := n.Line
	if n.Style&yaml.LiteralStyle != 0 {
		out += strings.Count(strings.TrimRight(n.Value, "\n"), "\n") + 1
	}
	for _, c := range n.Content {
		out = max(out, lastLine(c))
	}
	return out
}

// value returns the value of a key of a mapping, or nil.
func value(n *yaml.Node, name string) *yaml.Node {
	if i := keyAt(n, name); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// key returns the node of a key of a mapping, or nil.
func key(n *yaml.Node, name string) *yaml.Node {
	if i := keyAt(n, name); i >= 0 {
		return n.Content[i]
	}
	return nil
}

func keyAt(n *yaml.Node, name string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// indexNamed returns the index of the first item of a list whose name accept accepts; -1 if there is none.
func indexNamed(list *yaml.Node, accept func(string) bool) int {
	if list == nil || list.Kind != yaml.SequenceNode {
		return -1
	}
	return slices.IndexFunc(list.Content, func(item *yaml.Node) bool {
		name := value(item, "name")
		return name != nil && accept(name.Value)
	})
}

// Diff returns the lines from the first difference to the last one: first the lines of before, as "- line", and then
// the lines of after, as "+ line". It returns "" for equal texts.
func Diff(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out strings.Builder
	for _, l := range a {
		out.WriteString("- " + l + "\n")
	}
	for _, l := range b {
		out.WriteString("+ " + l + "\n")
	}
	return out.String()
}
