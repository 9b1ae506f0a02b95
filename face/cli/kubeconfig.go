package cli

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is which cluster a person chose on the command line; empty fields are left to the
// kubeconfig file, which is found as kubectl finds it.
type Kubeconfig struct {
	Path      string
	Context   string
	Namespace string
}

func (k *Kubeconfig) bind(f *pflag.FlagSet) {
	f.StringVar(&k.Path, "kubeconfig", "", "path to the kubeconfig file to use")
	f.StringVar(&k.Context, "context", "", "name of the kubeconfig context to use")
	f.StringVarP(&k.Namespace, "namespace", "n", "", "namespace of the pod")
}

// Load reads the kubeconfig and returns how to reach its cluster, and the namespace it chooses.
func (k Kubeconfig) Load() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: k.Context,
		Context:        clientcmdapi.Context{Namespace: k.Namespace},
	})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	return config, namespace, nil
}
