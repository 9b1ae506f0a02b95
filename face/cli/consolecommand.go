package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// ConsoleOptions are the choices of the command console.
type ConsoleOptions struct {
	// Port is the port on the loopback address; 0 takes a free one.
	Port int
	// Browser opens the page in the user's browser.
	Browser bool
	// AgentNamespace is the namespace of the agents, whose metrics show the use of nodes. Prometheus is the address of
	// a Prometheus server that is read instead of the agents; "" means none.
	AgentNamespace, Prometheus string
	// Out and Errs are the command's stdout and stderr.
	Out, Errs io.Writer
}

const consoleLong = `Serve a page that shows the cluster of the kubeconfig by NUMA node, and open it in a browser.

The command serves the page on this computer alone, and reads the cluster with your own rights. It
prints an address with a secret that can be used once, within ten minutes. It ends with Ctrl-C.

The page has its data from an HTTP API, which /api/v1/openapi.json describes.`

const consoleExample = `  # Open the console
  kubectl tenon console

  # On a computer without a browser: forward the port with ssh -L 8080:127.0.0.1:8080
  kubectl tenon console --port 8080 --no-browser`

func (a *app) consoleCommand() *cobra.Command {
	var o ConsoleOptions
	var quiet bool
	c := &cobra.Command{
		Use:     "console",
		Short:   "Open a page that shows the cluster by NUMA node",
		Long:    consoleLong,
		Example: consoleExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Port < 0 || o.Port > 65535 {
				return fmt.Errorf("--port %d: want 0..65535", o.Port)
			}
			if a.setup.Console == nil {
				return errors.New("this program has no console")
			}
			if err := a.knownNamespaces(c, map[string][]string{"agent-namespace": {o.AgentNamespace}}); err != nil {
				return err
			}
			o.Browser, o.Out, o.Errs = !quiet, c.OutOrStdout(), c.ErrOrStderr()
			return a.setup.Console(c.Context(), a.kube, o)
		},
	}
	c.Flags().IntVar(&o.Port, "port", 0, "Port on 127.0.0.1 to serve on; 0 is a free one.")
	c.Flags().StringVar(&o.AgentNamespace, "agent-namespace", "tenon-agents",
		"Namespace of the agents, from which the use of nodes is read.")
	c.Flags().StringVar(&o.Prometheus, "prometheus", "",
		"Address of a Prometheus from which the use of nodes is read, in place of the agents.")
	c.Flags().BoolVar(&quiet, "no-browser", false, "Print the address, and do not open a browser.")
	complete(c, "agent-namespace", a.namespaceNames)
	return c
}

// ContextName returns the name of the selected context; "" if the kubeconfig cannot be read.
func (k Kubeconfig) ContextName() string {
	if k.chosen.CurrentContext != "" {
		return k.chosen.CurrentContext
	}
	all, err := k.loader().RawConfig()
	if err != nil {
		return ""
	}
	return all.CurrentContext
}
