package schedulers

import (
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

// SetArguments returns the text of the configuration with some arguments of the plugin changed. It validates the result
// as the plugin does when it starts. A nil value removes an argument; arguments that are not named stay. profile
// chooses one of several profiles; if it is empty, the only profile with arguments for the plugin.
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
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
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

// arguments returns the mapping of the plugin's arguments in a profile.
func (c *Configuration) arguments(profile string) (*yaml.Node, error) {
	all := value(c.root, "profiles")
	if all == nil || len(all.Content) != len(c.Profiles) {
		return nil, errors.New("the KubeSchedulerConfiguration has no profiles")
	}
	var found *yaml.Node
	for i, node := range all.Content {
		configs := value(node, "pluginConfig")
		k := named(configs, numaPlugin)
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

// argument sets or removes one argument. A plain value replaces another in its line. For any other change the
// configuration is written anew, with its comments and order.
func (e *editor) argument(args *yaml.Node, name string, v any) error {
	at := keyAt(args, name)
	switch {
	case v == nil && at < 0:
		return nil
	case v == nil:
		args.Content = slices.Delete(args.Content, at, at+2)
		e.rewrite = true
		return nil
	}
	var to yaml.Node
	if err := to.Encode(v); err != nil {
		return fmt.Errorf("write as YAML: %w", err)
	}
	if at < 0 {
		args.Content = append(args.Content, scalar(name), &to)
		e.rewrite = true
		return nil
	}
	from := args.Content[at+1]
	if from.Kind != yaml.ScalarNode || to.Kind != yaml.ScalarNode || !e.replace(from, &to) {
		e.rewrite = true
	}
	to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	args.Content[at+1] = &to
	return nil
}

// replace writes a plain scalar over another one, and reports whether that was possible.
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
