package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/test/bench/upstream"
)

const deployed = "../../../../deploy/scheduler/scheduler.yaml"

// Upstream's code reads the file that configure writes. It would measure kube-scheduler alone if the file did not have
// the plugin.
func TestConfigurationHasThePlugin(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base.yaml")
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
		"- schedulerName: default-scheduler\n  plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}\n"
	if err := os.WriteFile(base, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, j := range []upstream.Job{{Subject: upstream.Tenon}, {Subject: upstream.Alone},
		{Subject: upstream.Tenon, Base: base}} {
		j.Deployed, j.Scheduler = deployed, filepath.Join(t.TempDir(), "scheduler.yaml")
		p, err := configure(j)
		if err != nil {
			t.Fatal(err)
		}
		c, err := load(j.Scheduler)
		if err != nil {
			t.Fatal(err)
		}
		if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
			t.Error(err)
		}
		profile := c.Profiles[0]
		weight := slices.ContainsFunc(profile.Plugins.MultiPoint.Enabled, func(p schedapi.Plugin) bool {
			return p.Name == config.Tenon && p.Weight == 10
		})
		args := slices.IndexFunc(profile.PluginConfig, func(p schedapi.PluginConfig) bool { return p.Name == config.Tenon })
		if profile.SchedulerName != "default-scheduler" || !weight || args < 0 {
			t.Fatalf("%s: profile %q, weight of the plugin is the deployed one: %v, arguments at %d", j.Subject,
				profile.SchedulerName, weight, args)
		}
		a, err := config.Decode(config.Tenon, profile.PluginConfig[args].Args)
		if err != nil || a.UnknownNodes != config.Allow {
			t.Errorf("%s: arguments %+v (%v)", j.Subject, a, err)
		}
		spreads := slices.ContainsFunc(profile.Plugins.MultiPoint.Enabled, func(p schedapi.Plugin) bool {
			return p.Name == "PodTopologySpread"
		})
		if spreads != (j.Base == "") {
			t.Errorf("%s after %q: PodTopologySpread is enabled: %v", j.Subject, j.Base, spreads)
		}
		if preempts := p["default-scheduler"] != nil; preempts != (j.Subject == upstream.Tenon) {
			t.Errorf("%s: the plugin preempts: %v", j.Subject, preempts)
		}
	}
}
