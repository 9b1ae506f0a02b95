package schedulers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tenon-numa/tenon/api/document"
)

// maxArguments bounds the arguments of one change.
const maxArguments = 64

// SetArguments returns the text of the configuration with some arguments of the plugin changed. It validates the
// result as the plugin does when it starts. A nil value removes an argument; arguments that are not named stay.
// profile chooses one of several profiles; if it is empty, SetArguments changes the only profile with arguments for
// the plugin.
func (c *Configuration) SetArguments(profile string, arguments map[string]any) (string, error) {
	if c.Type == document.Volcano {
		return "", errors.New("only a KubeSchedulerConfiguration's arguments can change: edit those of Volcano by hand")
	}
	if len(arguments) == 0 || len(arguments) > maxArguments {
		return "", fmt.Errorf("want 1..%d arguments", maxArguments)
	}
	args, err := c.arguments(profile)
	if err != nil {
		return "", err
	}
	e := editor{lines: strings.SplitAfter(c.text, "\n")}
	for _, name := range inOrder(args, arguments) {
		if name == "apiVersion" || name == "kind" {
			return "", fmt.Errorf("%s is no argument", name)
		}
		if err := e.argument(args, name, arguments[name]); err != nil {
			return "", fmt.Errorf("argument %s: %w", name, err)
		}
	}
	out, err := e.text(c.root)
	if err != nil {
		return "", err
	}
	if _, err := Parse(out); err != nil {
		return "", fmt.Errorf("validate the changed configuration: %w", err)
	}
	return out, nil
}

// arguments returns the mapping of the plugin's arguments in the profile with the given name, or in the only profile
// that has arguments if the name is "". It returns an error if there is no such profile, or more than one.
func (c *Configuration) arguments(profile string) (*yaml.Node, error) {
	all := value(c.root, "profiles")
	if all == nil || len(all.Content) != len(c.Profiles) {
		return nil, errors.New("the KubeSchedulerConfiguration has no profiles")
	}
	var found *yaml.Node
	for i, node := range all.Content {
		configs := value(node, "pluginConfig")
		k := indexNamed(configs, numaPlugin)
		if k < 0 || profile != "" && c.Profiles[i].SchedulerName != profile {
			continue
		}
		if found != nil {
			return nil, errors.New("several profiles have arguments for the plugin: name one of them")
		}
		if found = value(configs.Content[k], "args"); found == nil || found.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("profile %s: the plugin's args are no mapping", c.Profiles[i].SchedulerName)
		}
	}
	if found == nil {
		return nil, errors.New("no such profile has arguments for the plugin")
	}
	return found, nil
}

// argument sets one argument to v, or removes it if v is nil, and changes only its own lines. If the lines do not
// allow that, as in a mapping within braces, it marks the configuration to be written anew, with its comments and
// order.
func (e *editor) argument(args *yaml.Node, name string, v any) error {
	at := keyAt(args, name)
	if v == nil {
		if at >= 0 {
			e.cut(args, at)
			args.Content = slices.Delete(args.Content, at, at+2)
		}
		return nil
	}
	var to yaml.Node
	if err := to.Encode(v); err != nil {
		return fmt.Errorf("write as YAML: %w", err)
	}
	block, err := blockOf(name, v)
	if err != nil {
		return err
	}
	if at < 0 {
		e.paste(args, lastLine(args), block)
		args.Content = append(args.Content, scalar(name), &to)
		return nil
	}
	from := args.Content[at+1]
	if from.Kind != yaml.ScalarNode || to.Kind != yaml.ScalarNode || !e.replace(from, &to) {
		e.cut(args, at)
		e.paste(args, args.Content[at].Line, block)
	}
	to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	args.Content[at+1] = &to
	return nil
}

// inOrder returns the names of arguments in the order in which they are to be changed: removed ones first, then
// replaced ones, and last new ones, whose lines come after all others.
func inOrder(args *yaml.Node, arguments map[string]any) []string {
	rank := func(name string) int {
		switch {
		case arguments[name] == nil:
			return 0
		case keyAt(args, name) >= 0:
			return 1
		}
		return 2
	}
	return slices.SortedFunc(maps.Keys(arguments), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}

// blockOf returns a mapping with one key, as lines of YAML.
func blockOf(name string, v any) (string, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(map[string]any{name: v}), enc.Close()); err != nil {
		return "", fmt.Errorf("write as YAML: %w", err)
	}
	return out.String(), nil
}

// cut removes the lines of the key at position at of a mapping, and the lines of its value. If the mapping is within
// braces or has no other key, it only marks the configuration to be written anew.
func (e *editor) cut(mapping *yaml.Node, at int) {
	first, last := mapping.Content[at].Line, lastLine(mapping.Content[at+1])
	if mapping.Style&yaml.FlowStyle != 0 || len(mapping.Content) == 2 || first < 1 || last > len(e.lines) {
		e.rewrite = true
		return
	}
	for n := first; n <= last; n++ {
		e.lines[n-1] = ""
	}
}

// paste inserts a block of lines, indented like the keys of the mapping, behind the line whose number is given by
// after. If the mapping is within braces or empty, it only marks the configuration to be written anew.
func (e *editor) paste(mapping *yaml.Node, after int, block string) {
	if mapping.Style&yaml.FlowStyle != 0 || len(mapping.Content) == 0 || after < 1 || after > len(e.lines) {
		e.rewrite = true
		return
	}
	if l := e.line(after); l != "" && !strings.HasSuffix(l, "\n") {
		e.lines[after-1] = l + "\n"
	}
	for line := range strings.Lines(block) {
		e.lines[after-1] += strings.Repeat(" ", mapping.Content[0].Column-1) + line
	}
}

// replace overwrites one plain scalar, from, by another one, to, within its line. It returns false, and changes
// nothing, if a scalar is not plain or the line does not have it.
func (e *editor) replace(from, to *yaml.Node) bool {
	if from.Style != 0 || to.Style != 0 || from.Line < 1 || from.Line > len(e.lines) {
		return false
	}
	line := e.line(from.Line)
	if from.Column < 1 || from.Column > len(line) || !strings.HasPrefix(line[from.Column-1:], from.Value) {
		return false
	}
	e.lines[from.Line-1] = line[:from.Column-1] + to.Value + line[from.Column-1+len(from.Value):]
	return true
}
