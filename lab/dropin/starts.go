package dropin

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// resources is the function with which the kubelet's command reads reservations. The command does not export it.
//
//go:linkname resources k8s.io/kubernetes/cmd/kubelet/app.parseResourceList
func resources(m map[string]string) (v1.ResourceList, error)

// gates are the feature gates that permit options of the managers, with their defaults in Kubernetes.
var gates = map[string]bool{"CPUManagerPolicyAlphaOptions": false, "CPUManagerPolicyBetaOptions": true,
	"TopologyManagerPolicyAlphaOptions": false, "TopologyManagerPolicyBetaOptions": true}

// Start reads a configuration file as a kubelet does, starts the kubelet's managers on a machine, and stops them. It
// returns nil if a kubelet would start with this file, and otherwise the kubelet's error. A panic of the kubelet
// becomes an error. Start sets the process's feature gates that permit options of the managers. The managers' files
// are in dir.
func Start(ctx context.Context, dir, file string, m *topo.Machine) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the kubelet panics: %v", why)
		}
	}()
	none := filepath.Join(dir, "none")
	if err := os.Mkdir(none, 0o700); err != nil {
		return err
	}
	c, err := Merge(ctx, file, none)
	if err != nil {
		return err
	}
	for _, list := range []map[string]string{c.SystemReserved, c.KubeReserved} {
		if _, err := resources(list); err != nil {
			return err
		}
	}
	if c.EvictionHard == nil { // cmd/kubelet/app/server.go, loadConfigFile
		c.EvictionHard = maps.Clone(eviction.DefaultEvictionHard)
	}
	set := maps.Clone(gates)
	for name := range set {
		if on, ok := c.FeatureGates[name]; ok {
			set[name] = on
		}
	}
	if err := kubelet.SetFeatureGates(&configv1beta1.KubeletConfiguration{FeatureGates: set}); err != nil {
		return err
	}
	if err := validate(c); err != nil { // NewManagers replaces some settings, and so does not validate these
		return err
	}
	managers, err := kubelet.NewManagers(ctx, dir, m, c, func() []*v1.Pod { return nil })
	if err != nil {
		return err
	}
	return managers.Stop()
}

// validate runs the kubelet's own validation, without its check of the host's cgroups, because that host is the lab's
// computer.
func validate(c *configv1beta1.KubeletConfiguration) error {
	s, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return fmt.Errorf("make kubelet scheme: %w", err)
	}
	internal := &config.KubeletConfiguration{}
	if err := s.Convert(c, internal, nil); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	internal.FailCgroupV1 = false
	return validation.ValidateKubeletConfiguration(internal, utilfeature.DefaultFeatureGate)
}
