package command

import (
	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/lab/demo"
)

// demoSeed is, of the first nine, the one whose counts of running pods come nearest to the means
// (docs/packing.md).
const demoSeed = 6

// tryOut runs one workload under the default scheduler and under Tenon.
func tryOut(draw Draw) *cobra.Command {
	var f upFlags
	var o demo.Options
	maps := true
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run one workload under the default scheduler and under Tenon, and compare",
		Example: `  tenon-lab demo
  tenon-lab demo --seed 3
  tenon-lab demo --scale 2 --nodes 2xepyc-nps4,2xgpu-8,2xsparse,2xxeon-2s,2xxeon-snc2,2xlaptop`,
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
	flags.IntVar(&o.Scale, "scale", 1, "how often the workload is repeated, for larger clusters")
	flags.Uint64Var(&o.Seed, "seed", demoSeed, "seed of the order in which the pods arrive")
	flags.BoolVar(&maps, "maps", true, "draw the machines at the end")
	return cmd
}
