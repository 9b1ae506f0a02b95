package command

import (
	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/lab/demo"
)

// Defaults of the demonstration: a workload that fills the default cluster.
const (
	demoPods = 120
	demoSeed = 7
)

// tryOut runs one workload under the default scheduler and under Tenon.
func tryOut(draw Draw) *cobra.Command {
	var f upFlags
	var o demo.Options
	maps := true
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run one workload under the default scheduler and under Tenon, and compare",
		Example: `  tenon-lab demo
  tenon-lab demo --nodes 4xgpu-8 --pods 60 --seed 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.Lab, o.Out = cfg, cmd.OutOrStdout()
			if maps {
				o.Draw = draw
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nodes, "nodes", "", "machines of the nodes, as for up (default: one of each)")
	flags.StringVar(&f.machines, "machines", "", "directory with machines of your own, NAME.txt and NAME.yaml each")
	flags.StringVar(&f.dir, "dir", "", "where the cluster's directory is made; keep it short (default: memory)")
	flags.IntVar(&o.Pods, "pods", demoPods, "pods of the workload")
	flags.Uint64Var(&o.Seed, "seed", demoSeed, "seed of the workload")
	flags.BoolVar(&maps, "maps", true, "draw the machines at the end")
	return cmd
}
