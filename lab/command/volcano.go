package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// volcanoFlags are the flags about Volcano.
type volcanoFlags struct{ plugin, programs string }

// noScheduler is the value of --volcano for a cluster whose scheduler the user starts.
const noScheduler = "none"

// add adds the flag with the folder of the programs.
func (f *volcanoFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.programs, "volcano-programs", "",
		"folder with Volcano's programs; in a checkout of the repository they are built (default: a folder of the cache)")
}

// prepare finds the programs, adds Volcano's definitions to the configuration of a cluster, and returns the function
// that starts Volcano on that cluster. It returns nil if the flags do not request Volcano.
func (f *volcanoFlags) prepare(ctx context.Context, cfg *lab.Config) (Start, error) {
	if f.plugin == "" {
		return nil, nil
	}
	if known := []string{volcano.Tenon, volcano.NumaAware, noScheduler}; !slices.Contains(known, f.plugin) {
		return nil, fmt.Errorf("--volcano=%s is none of %s", f.plugin, strings.Join(known, ", "))
	}
	programs, err := f.find(ctx, cfg.Progress)
	if err != nil {
		return nil, err
	}
	definitions, err := programs.Definitions()
	if err != nil {
		return nil, err
	}
	cfg.CRDs, cfg.Numatopology = append(cfg.CRDs, definitions...), true
	return func(c *lab.Cluster) (Running, error) {
		v, err := volcano.Start(ctx, volcano.Options{Programs: programs, Kubeconfig: c.KubeconfigPath, Dir: c.Dir})
		if err != nil || f.plugin == noScheduler {
			return besideKubernetes{v}, err
		}
		if err := v.Schedule(ctx, f.plugin); err != nil {
			return nil, errors.Join(err, v.Stop())
		}
		return besideKubernetes{v}, nil
	}, nil
}

// find returns the programs.
func (f *volcanoFlags) find(ctx context.Context, progress func(string)) (volcano.Programs, error) {
	programs, err := volcano.Find(ctx, f.programs, progress)
	if err != nil {
		return "", fmt.Errorf("%w (--volcano-programs)", err)
	}
	return programs, nil
}

// besideKubernetes makes Volcano a part of the cluster, as [Running] requires.
type besideKubernetes struct{ *volcano.Volcano }

// Addresses implements Running.
func (besideKubernetes) Addresses() []Address { return nil }

// printUsage prints which programs of Volcano run.
func (f *volcanoFlags) printUsage(out io.Writer) {
	switch f.plugin {
	case "":
	case noScheduler:
		fmt.Fprint(out, "\nVolcano's controllers and webhooks run, and not its scheduler.\n")
	default:
		fmt.Fprintf(out, "\nVolcano schedules Jobs of batch.volcano.sh, with its plugin %s.\n", f.plugin)
	}
}
