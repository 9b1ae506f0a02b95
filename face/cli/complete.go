package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// This file completes arguments in a shell. Completion reports no errors: it does not offer names that it cannot
// read.

// namer is a [Cluster] that also lists names, for completion.
type namer interface {
	// These functions return the names of nodes, of the pods in a namespace, of the workloads of a kind of workloadTypes,
	// and of namespaces. On very large clusters they may leave some out.
	NodeNames(ctx context.Context) ([]string, error)
	PodNames(ctx context.Context, namespace string) ([]string, error)
	WorkloadNames(ctx context.Context, kind, namespace string) ([]string, error)
	NamespaceNames(ctx context.Context) ([]string, error)
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

// others returns a completion of any number of arguments. It offers no argument a second time.
func others(f completion) completion {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		names, directive := f(c, args, begun)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), directive
	}
}

// names connects to the cluster, and returns the names that f lists in the selected namespace; none after an error.
func (a *app) names(f func(n namer, namespace string) ([]string, error)) []string {
	cluster, namespace, err := a.connect()
	if err != nil {
		return nil
	}
	n, ok := cluster.(namer)
	if !ok {
		return nil
	}
	names, err := f(n, cmp.Or(namespace, "default"))
	if err != nil {
		return nil
	}
	return names
}

func (a *app) nodeNames(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	names := a.names(func(n namer, _ string) ([]string, error) { return n.NodeNames(c.Context()) })
	if kind, _, ok := strings.Cut(begun, "/"); ok && slices.Contains(nodeTypes, kind) {
		names = prefixed(kind+"/", names)
	}
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) namespaceNames(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	names := a.names(func(n namer, _ string) ([]string, error) { return n.NamespaceNames(c.Context()) })
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
}

// podNames completes NAME, in the selected namespace, and NAMESPACE/NAME. Where the selected namespace has no such pod,
// it offers the namespaces as NAMESPACE/.
func (a *app) podNames(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	namespace, _, both := strings.Cut(begun, "/")
	if both {
		names := a.names(func(n namer, _ string) ([]string, error) { return n.PodNames(c.Context(), namespace) })
		return beginning(prefixed(namespace+"/", names), begun), cobra.ShellCompDirectiveNoFileComp
	}
	names := a.names(func(n namer, chosen string) ([]string, error) { return n.PodNames(c.Context(), chosen) })
	if names = beginning(names, begun); len(names) > 0 || a.kube.Namespace() != "" {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	namespaces, _ := a.namespaceNames(c, nil, begun)
	for i := range namespaces {
		namespaces[i] += "/"
	}
	return namespaces, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// workloadNames completes the names of the workloads of a kind, in the selected namespace and as NAMESPACE/NAME.
func (a *app) workloadNames(kind string) completion {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		namespace, _, both := strings.Cut(begun, "/")
		names := a.names(func(n namer, chosen string) ([]string, error) {
			if both {
				chosen = namespace
			}
			return n.WorkloadNames(c.Context(), kind, chosen)
		})
		if both {
			names = prefixed(namespace+"/", names)
		}
		return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// machineNames completes the machines of the catalogue, and files.
func (a *app) machineNames(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return beginning(a.setup.Catalogued, begun), cobra.ShellCompDirectiveDefault
}

// joiners completes the values of --add: machines, files, and nodes as node/NAME.
func (a *app) joiners(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix(begun, "node/") {
		return a.nodeNames(c, args, begun)
	}
	return beginning(append([]string{"node/"}, a.setup.Catalogued...), begun),
		cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// prefixed returns the names with a prefix.
func prefixed(prefix string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
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

// choicesOf completes the values that f returns.
func choicesOf(f func() []string) completion {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(f(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func choices(values ...string) completion {
	return choicesOf(func() []string { return values })
}
