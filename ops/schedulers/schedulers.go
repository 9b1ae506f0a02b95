// Package schedulers reads the configuration of the schedulers of a cluster. It turns their NUMA plugin on and off,
// and changes the plugin's arguments. The schedulers are Volcano and kube-schedulers with Tenon.
//
// Invariant: every request is made with the rights of one identity. A configuration is changed as YAML: comments,
// order and all other lines stay unchanged. If its lines cannot be changed one by one, only comments and order stay.
// The new text is parsed and validated before it is written, and replaces only the version that was read. A
// kube-scheduler's Deployment then replaces its pods one after the other. The package refuses configurations that it
// cannot parse and texts beyond a bound, and chooses no scheduler if there are several.
package schedulers

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerapi "k8s.io/kube-scheduler/config/v1"
	strict "sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/document"
)

// NUMAAware is the name of Volcano's plugin.
const NUMAAware = "numa-aware"

// weight is the weight that a plugin gets when it is turned on.
const weight = 10

// maxText bounds a configuration, in bytes. An API server accepts objects of about a megabyte.
const maxText = 256 << 10

// Configuration is the configuration of one scheduler.
type Configuration struct {
	// Type is KubeScheduler or Volcano.
	Type     document.SchedulerType
	Profiles []document.SchedulerProfile

	text string
	root *yaml.Node // the top mapping of the text
}

// Parse reads the configuration of a scheduler, and validates it. It returns an error if the text is no configuration
// of kube-scheduler or Volcano.
func Parse(text string) (*Configuration, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the configuration has %d bytes, at most %d are read", len(text), maxText)
	}
	root, err := mapping(text)
	if err != nil {
		return nil, err
	}
	c := &Configuration{text: text, root: root}
	switch {
	case value(root, "kind") != nil && value(root, "kind").Value == "KubeSchedulerConfiguration":
		c.Type = document.KubeScheduler
		return c, c.readKubeScheduler()
	case value(root, "tiers") != nil:
		c.Type = document.Volcano
		return c, c.readVolcano()
	}
	return nil, fmt.Errorf("this is neither a KubeSchedulerConfiguration nor a configuration of Volcano (with tiers)")
}

// mapping reads a text that is one YAML mapping.
func mapping(text string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read YAML: the configuration is no mapping")
	}
	return doc.Content[0], nil
}

// Enabled reports whether at least one profile has the plugin.
func (c *Configuration) Enabled() bool {
	for _, p := range c.Profiles {
		if p.Enabled {
			return true
		}
	}
	return false
}

// Plugin returns the name of the plugin in the configuration, or its default name if the configuration does not have
// it.
func (c *Configuration) Plugin() string {
	if c.Type == document.Volcano {
		return NUMAAware
	}
	for _, p := range c.Profiles {
		if p.Plugin != "" {
			return p.Plugin
		}
	}
	return config.Tenon
}

// numaPlugin reports whether a name is one of the names of Tenon's plugin.
func numaPlugin(name string) bool { return name == config.Tenon || name == config.Match }

// readKubeScheduler decodes the profiles. Like kube-scheduler, it returns an error for an unknown field.
func (c *Configuration) readKubeScheduler() error {
	var all schedulerapi.KubeSchedulerConfiguration
	if err := strict.UnmarshalStrict([]byte(c.text), &all); err != nil {
		return fmt.Errorf("read KubeSchedulerConfiguration: %w", err)
	}
	for i := range all.Profiles {
		p, err := profile(&all.Profiles[i])
		if err != nil {
			return err
		}
		c.Profiles = append(c.Profiles, p)
	}
	return nil
}

// profile returns how a profile configures the plugin. Enabled is false if no extension point has the plugin, even if
// the profile has arguments for it.
func profile(p *schedulerapi.KubeSchedulerProfile) (out document.SchedulerProfile, err error) {
	out = document.SchedulerProfile{SchedulerName: "default-scheduler", Arguments: map[string]any{}}
	if p.SchedulerName != nil {
		out.SchedulerName = *p.SchedulerName
	}
	for _, set := range pluginSets(p.Plugins) {
		for _, x := range set.Enabled {
			if numaPlugin(x.Name) {
				out.Enabled, out.Plugin = true, x.Name
				if x.Weight != nil {
					out.Weight = *x.Weight
				}
			}
		}
	}
	for _, c := range p.PluginConfig {
		if !numaPlugin(c.Name) || len(c.Args.Raw) == 0 {
			continue
		}
		args, err := config.Decode(c.Name, &runtime.Unknown{Raw: c.Args.Raw})
		if err != nil {
			return out, fmt.Errorf("profile %s: %w", out.SchedulerName, err)
		}
		if out.Plugin == "" {
			out.Plugin = c.Name
		}
		out.Strategy = args.Strategy.Type
		if err := strict.Unmarshal(c.Args.Raw, &out.Arguments); err != nil {
			return out, fmt.Errorf("profile %s: arguments of %s: %w", out.SchedulerName, c.Name, err)
		}
	}
	return out, nil
}

// pluginSets returns the plugins of a profile at each extension point.
func pluginSets(p *schedulerapi.Plugins) []schedulerapi.PluginSet {
	if p == nil {
		return nil
	}
	return []schedulerapi.PluginSet{p.MultiPoint, p.PreEnqueue, p.QueueSort, p.PreFilter, p.Filter, p.PostFilter,
		p.PreScore, p.Score, p.Reserve, p.Permit, p.PreBind, p.Bind, p.PostBind}
}

// volcano is the part of Volcano's configuration that is read and validated.
type volcano struct {
	Actions string `json:"actions"`
	Tiers   []struct {
		Plugins []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"plugins"`
	} `json:"tiers"`
}

// readVolcano stores one profile, "volcano", because a configuration of Volcano has no others. Fields that are not
// known here are ignored.
func (c *Configuration) readVolcano() error {
	var all volcano
	if err := strict.Unmarshal([]byte(c.text), &all); err != nil {
		return fmt.Errorf("read configuration of Volcano: %w", err)
	}
	out := document.SchedulerProfile{SchedulerName: "volcano", Plugin: NUMAAware, Arguments: map[string]any{}}
	for i, t := range all.Tiers {
		if len(t.Plugins) == 0 {
			return fmt.Errorf("read configuration of Volcano: tier %d has no plugins", i+1)
		}
		for k, p := range t.Plugins {
			switch p.Name {
			case "":
				return fmt.Errorf("read configuration of Volcano: plugin %d of tier %d has no name", k+1, i+1)
			case NUMAAware:
				out.Enabled = true
				if p.Arguments != nil {
					out.Arguments = p.Arguments
				}
			}
		}
	}
	c.Profiles = []document.SchedulerProfile{out}
	return nil
}
