package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// This file completes arguments in a shell. Completion reports no errors: it does not offer names that it cannot
// read.

// namer is a [Cluster] that also lists names, for completion.
type namer interface {
	// NodeNames returns the names of nodes, and PodNames the names of the pods in a namespace. On very large clusters
	// both may leave some out.
	NodeNames(ctx context.Context) ([]string, error)
	PodNames(ctx context.Context, namespace string) ([]string, error)
}

// completion returns the values that begin with begun.
type completion = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// firstArgOnly returns a completion of only the first argument of a command.
func firstArgOnly(f completion) completion {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, begun)
	}
}

func (a *app) nodeNames(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if cluster, _, err := a.connect(); err == nil {
		if n, ok := cluster.(namer); ok {
			names, _ = n.NodeNames(c.Context())
		}
	}
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
}

// podNames completes NAME, in the selected namespace, and NAMESPACE/NAME.
func (a *app) podNames(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if cluster, chosen, err := a.connect(); err == nil {
		if n, ok := cluster.(namer); ok {
			namespace, _, both := strings.Cut(begun, "/")
			if !both {
				namespace = chosen
			}
			names, _ = n.PodNames(c.Context(), namespace)
			for i := range names {
				if both {
					names[i] = namespace + "/" + names[i]
				}
			}
		}
	}
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
}

// beginning returns the names that begin with begun.
func beginning(names []string, begun string) (out []string) {
	for _, n := range names {
		if strings.HasPrefix(n, begun) {
			out = append(out, n)
		}
	}
	return out
}

// complete sets the completion of a flag. The command must have the flag.
func complete(c *cobra.Command, flag string, f completion) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not declared
	}
}

func choices(values ...string) completion {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
