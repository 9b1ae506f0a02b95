package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/profiles"
	"github.com/tenon-numa/tenon/test/bench/upstream"
)

// preemption has the arguments of preemption by profile, for the profiles that preempt with the plugin.
type preemption map[string]*schedapi.DefaultPreemptionArgs

// configure writes the configuration of a scheduler with the plugin. If the test case has a configuration of its own,
// that is the base, and each of its profiles gets the plugin's entry of the deployed configuration. Otherwise it is
// the deployed configuration. A single profile gets the name that upstream's pods request. For [upstream.Tenon] the
// profiles are completed as tenon-scheduler completes them, and the result has the arguments of preemption; it is nil
// for other schedulers.
func configure(j upstream.Job) (preemption, error) {
	deployed, err := load(j.Deployed)
	if err != nil {
		return nil, err
	}
	c := deployed
	if j.Base != "" {
		if c, err = load(j.Base); err != nil {
			return nil, err
		}
		if err := enable(c.Profiles, deployed.Profiles[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", j.Deployed, err)
		}
	}
	if len(c.Profiles) == 1 {
		c.Profiles[0].SchedulerName = "default-scheduler"
	}
	var p preemption
	if j.Subject == upstream.Tenon {
		if err := profiles.Complete(c.Profiles, klog.Background()); err != nil {
			return nil, err
		}
		p = profiles.Preemptors(c.Profiles, klog.Background())
	}
	return p, write(j.Scheduler, c)
}

// openGates sets the feature gates of the test cases in a file, before profiles are completed: which plugins these need
// depends on gates.
func openGates(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read test cases: %w", err)
	}
	var cases []struct {
		FeatureGates map[string]bool `json:"featureGates"`
	}
	if err := yaml.Unmarshal(data, &cases); err != nil {
		return fmt.Errorf("read test cases %s: %w", file, err)
	}
	for _, c := range cases {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(c.FeatureGates); err != nil {
			return fmt.Errorf("test cases %s: %w", file, err)
		}
	}
	return nil
}

// enable adds the plugin to all profiles, with the entry and the arguments that it has in another profile.
func enable(all []schedapi.KubeSchedulerProfile, like schedapi.KubeSchedulerProfile) error {
	entry := slices.IndexFunc(like.Plugins.MultiPoint.Enabled, func(p schedapi.Plugin) bool {
		return p.Name == config.Tenon
	})
	args := slices.IndexFunc(like.PluginConfig, func(c schedapi.PluginConfig) bool { return c.Name == config.Tenon })
	if entry < 0 || args < 0 {
		return errors.New("the profile does not enable " + config.Tenon + " at multiPoint, with arguments")
	}
	for i := range all {
		if all[i].Plugins == nil {
			all[i].Plugins = &schedapi.Plugins{}
		}
		at := &all[i].Plugins.MultiPoint
		at.Enabled = append(at.Enabled, like.Plugins.MultiPoint.Enabled[entry])
		all[i].PluginConfig = append(all[i].PluginConfig, like.PluginConfig[args])
	}
	return nil
}

// load reads a scheduler's configuration, with kube-scheduler's defaults.
func load(file string) (*schedapi.KubeSchedulerConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", file, err)
	}
	c, ok := obj.(*schedapi.KubeSchedulerConfiguration)
	if !ok || len(c.Profiles) == 0 {
		return nil, fmt.Errorf("read configuration %s: no KubeSchedulerConfiguration with profiles", file)
	}
	return c, nil
}

// write writes a scheduler's configuration. Its profiles have all plugins that they need, so that the defaults, with
// which a file is read, add none: DynamicResources beside the plugin that wraps it, for example.
func write(file string, c *schedapi.KubeSchedulerConfiguration) error {
	for i := range c.Profiles {
		if p := c.Profiles[i].Plugins; p != nil && len(p.MultiPoint.Enabled) > 0 {
			p.MultiPoint.Disabled = []schedapi.Plugin{{Name: "*"}}
		}
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		return errors.New("write configuration: no serializer of YAML")
	}
	var out bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(c, &out); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
