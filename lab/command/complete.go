package command

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// This file completes arguments in a shell.

// otherReleases are the releases of Kubernetes whose programs can be built beside the own one.
var otherReleases = []string{"1.34", "1.35", "1.36"}

// completeUp sets the completions of the flags of "up". The flags must be declared.
func completeUp(cmd *cobra.Command) {
	known := slices.Compact(slices.Sorted(slices.Values(append([]string{releases.Own()}, otherReleases...))))
	for flag, f := range map[string]cobra.CompletionFunc{
		"nodes": func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return nodesBeginning(begun, known), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		"release":          choices(known...),
		"volcano":          choices(volcano.Tenon, volcano.NumaAware, noScheduler),
		"machines":         directories,
		"dir":              directories,
		"volcano-programs": directories,
	} {
		register(cmd, flag, f)
	}
}

// completeDemo sets the completions of the flags of "demo". The flags must be declared.
func completeDemo(cmd *cobra.Command) {
	register(cmd, "act", choices("a", "b", "c", "d", "dra"))
	register(cmd, "dir", directories)
	register(cmd, "volcano-programs", directories)
}

func register(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not declared
	}
}

func choices(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(values, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

var counted = regexp.MustCompile(`^[0-9]+x`)

// nodesBeginning completes the last item of a comma list of MACHINE or COUNTxMACHINE, and @RELEASE.
func nodesBeginning(begun string, known []string) (out []string) {
	before, item := begun[:strings.LastIndexByte(begun, ',')+1], begun[strings.LastIndexByte(begun, ',')+1:]
	values, prefix := machines.List(), counted.FindString(item)
	if machine, _, ok := strings.Cut(item, "@"); ok {
		values, prefix = slices.Clone(known), machine+"@"
	}
	for i := range values {
		values[i] = prefix + values[i]
	}
	for _, v := range beginning(values, item) {
		out = append(out, before+v)
	}
	return out
}

// beginning returns the values that begin with begun.
func beginning(values []string, begun string) (out []string) {
	for _, v := range values {
		if strings.HasPrefix(v, begun) {
			out = append(out, v)
		}
	}
	return out
}
