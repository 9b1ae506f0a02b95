package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the cluster that a user selects by kubectl's flags. The kubeconfig file decides what no flag selects.
// Load finds this file as kubectl does.
type Kubeconfig struct {
	path   string
	chosen clientcmd.ConfigOverrides
	bundle string
	// fileNamespace is the namespace that the kubeconfig selects; "" until simulate has read the cluster. It is only
	// a default, because NAMESPACE/NAME may name another namespace.
	fileNamespace string
	// named are the namespaces of the pods that the command line names as NAMESPACE/NAME.
	named []string
}

// Named returns the namespaces of the pods that the command line names as NAMESPACE/NAME. A user who may not list the
// pods of all namespaces may perhaps list the pods of these.
func (k Kubeconfig) Named() []string { return k.named }

// Namespace returns the value of --namespace; "" if it is not given.
func (k Kubeconfig) Namespace() string { return k.chosen.Context.Namespace }

// bind declares the flags. The ConfigFlags of k8s.io/cli-runtime declare the same flags, but link the clients of
// every API and kustomize. That would double the size and the memory of the program.
func (k *Kubeconfig) bind(f *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	f.StringVar(&k.path, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests.")
	clientcmd.BindOverrideFlags(&k.chosen, f, names)
	f.StringVar(&k.bundle, "bundle", "", `File of "kubectl tenon bundle", in place of a cluster.`)
}

// Bundle returns the path of the archive that replaces the cluster; "" if none is given.
func (k Kubeconfig) Bundle() string { return k.bundle }

func (k Kubeconfig) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.path
	return rules
}

func (k Kubeconfig) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules(), &k.chosen)
}

// noCluster returns the error for kubeconfig files that name no cluster, or do not exist.
func noCluster(files []string) error {
	var there []string
	for _, f := range files {
		if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
			there = append(there, f)
		}
	}
	why := "there is no kubeconfig " + strings.Join(files, ", ")
	if len(there) > 0 {
		why = "no cluster is named in " + strings.Join(there, ", ")
	}
	return errors.New(why + ": want --kubeconfig FILE, or a file in place of a cluster: --bundle, or where a command " +
		"has the flag, --nodes or --machine")
}

// Load reads the kubeconfig, and returns the client configuration and the namespace that it selects.
func (k Kubeconfig) Load() (*rest.Config, string, error) {
	loader := k.loader()
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", noCluster(k.rules().GetLoadingPrecedence())
	}
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// contexts, clusters and users return the names of these in the kubeconfig, in order; none if it cannot be read.
func (k *Kubeconfig) contexts() []string {
	return namesIn(k, func(c clientcmdapi.Config) map[string]*clientcmdapi.Context { return c.Contexts })
}

func (k *Kubeconfig) clusters() []string {
	return namesIn(k, func(c clientcmdapi.Config) map[string]*clientcmdapi.Cluster { return c.Clusters })
}

func (k *Kubeconfig) users() []string {
	return namesIn(k, func(c clientcmdapi.Config) map[string]*clientcmdapi.AuthInfo { return c.AuthInfos })
}

func namesIn[T any](k *Kubeconfig, part func(clientcmdapi.Config) map[string]T) []string {
	all, err := k.loader().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(part(all)))
}
