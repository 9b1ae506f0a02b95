package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// guardFlags are flags for the scheduler's arguments that keep pods from nodes. The flags have the names and meanings
// of the arguments (docs/reference/scheduler.md). They exist because the command does not know the scheduler's
// profile.
type guardFlags struct {
	unknown, coarse, silent, inexact string
	keepRestartable                  bool
}

// The values of guardFlags.
var (
	unknownNodes = []string{"Allow", "AllowWithoutDemand", "Refuse"}
	allowRefuse  = []string{"Allow", "Refuse"}
)

func (f *guardFlags) bind(c *cobra.Command) {
	for _, x := range f.choices() {
		c.Flags().StringVar(x.target, x.flag, "Allow", x.help+" One of: ("+strings.Join(x.values, ", ")+").")
		complete(c, x.flag, choices(x.values...))
	}
	c.Flags().BoolVar(&f.keepRestartable, "keep-restartable", false,
		"Keep pods from nodes whose kubelets could not start again with them.")
}

// guardChoice is one flag, with the values that it accepts and the variable that gets its value.
type guardChoice struct {
	flag, help string
	values     []string
	target     *string
}

func (f *guardFlags) choices() []guardChoice {
	return []guardChoice{
		{"unknown-nodes", "What to do with nodes whose NUMA nodes are not known.", unknownNodes, &f.unknown},
		{"coarse-nodes", "What to do with nodes that have only a NodeResourceTopology.", allowRefuse, &f.coarse},
		{"silent-nodes", "What to do with nodes whose agent should have reported a pod.", allowRefuse, &f.silent},
		{"inexact-nodes", "What to do with nodes for which predictions may be wrong.", allowRefuse, &f.inexact},
	}
}

// guard returns the guard that the flags describe. For a value that a flag does not accept, it returns an error that
// names the flag.
func (f *guardFlags) guard() (guard.Guard, error) {
	for _, x := range f.choices() {
		if *x.target != "" && !slices.Contains(x.values, *x.target) {
			return guard.Guard{}, fmt.Errorf("--%s %q is not known: want one of %s", x.flag, *x.target,
				strings.Join(x.values, ", "))
		}
	}
	const refuse = "Refuse"
	g := guard.Guard{Estimated: f.coarse == refuse, Silent: f.silent == refuse, Inexact: f.inexact == refuse,
		KeepRestartable: f.keepRestartable}
	switch f.unknown {
	case "AllowWithoutDemand":
		g.Unknown = guard.WithoutDemand
	case refuse:
		g.Unknown = guard.Nobody
	}
	return g, nil
}

// strictArguments are the arguments of a scheduler whose stricter value keeps pods from more nodes than the default
// does. Each has the guard that it configures.
var strictArguments = []struct {
	argument string
	guard    guard.Guard
}{
	{"coarseNodes: Refuse", guard.Guard{Estimated: true}},
	{"silentNodes: Refuse", guard.Guard{Silent: true}},
	{"inexactNodes: Refuse", guard.Guard{Inexact: true}},
	{"keepRestartable: true", guard.Guard{KeepRestartable: true}},
}

// argumentsAgainst returns the strictArguments with which a scheduler would keep a pod from the node n, on which the
// pod fits by the defaults. n must not be nil.
func argumentsAgainst(n *state.Node, p *place.Pod, d place.Demand) (arguments []string) {
	for _, x := range strictArguments {
		if x.guard.Distrusts(n) != 0 || x.guard.Refuses(n, p, d) != 0 {
			arguments = append(arguments, x.argument)
		}
	}
	return arguments
}
