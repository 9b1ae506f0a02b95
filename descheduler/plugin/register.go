package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/api/v1alpha2"
	"sigs.k8s.io/descheduler/pkg/descheduler/scheme"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
	"sigs.k8s.io/descheduler/pkg/framework/types"
)

// Name is the name of the plugin in policies.
const Name = "TenonMakeRoom"

// Host has what the plugin must know about its program and a plugin's handle does not have. All functions are called
// when the descheduler builds the plugin.
type Host struct {
	// Config returns the descheduler's own client configuration.
	Config func() (*rest.Config, error)
	// Policy returns the descheduler's policy. The plugin reads its limits on evictions.
	Policy func() (*api.DeschedulerPolicy, error)
}

// AddTo adds the plugin to the descheduler's command. Its Host reads the flags of the command.
func AddTo(cmd *cobra.Command) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil { // makes the registry
				return err
			}
		}
		Register(pluginregistry.PluginRegistry, hostOf(cmd.Flags()))
		return nil
	}
}

// Register adds the plugin to a registry.
func Register(r pluginregistry.Registry, h Host) {
	build := func(ctx context.Context, args runtime.Object, handle types.Handle) (types.Plugin, error) {
		return newPlugin(args, handle, h)
	}
	pluginregistry.Register(Name, build, &makeRoom{}, &MakeRoomArgs{}, Validate, SetDefaults, r)
}

// hostOf returns what the flags of the descheduler say.
func hostOf(flags *pflag.FlagSet) Host {
	value := func(name string) string {
		if f := flags.Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return Host{
		// --kubeconfig and --client-connection-kubeconfig set the same variable.
		Config: func() (*rest.Config, error) { return connection(value("client-connection-kubeconfig")) },
		Policy: func() (*api.DeschedulerPolicy, error) { return policy(value("policy-config-file")) },
	}
}

// connection returns the client configuration of a kubeconfig, or of the pod if the path is "", as the descheduler
// connects.
func connection(kubeconfig string) (cfg *rest.Config, err error) {
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig of the descheduler: %w", err)
	}
	return rest.AddUserAgent(cfg, "descheduler"), nil
}

// policy reads the descheduler's policy file.
func policy(file string) (*api.DeschedulerPolicy, error) {
	if file == "" {
		return nil, errors.New("the descheduler has no --policy-config-file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	out := &api.DeschedulerPolicy{}
	decoder := scheme.Codecs.UniversalDecoder(v1alpha2.SchemeGroupVersion, api.SchemeGroupVersion)
	if err := runtime.DecodeInto(decoder, data, out); err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", file, err)
	}
	return out, nil
}
