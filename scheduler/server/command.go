package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/tenon-numa/tenon/internal/version"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// NewCommand returns the command of a kube-scheduler with the plugin, which takes all of kube-scheduler's flags. The
// command runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	opts := options.NewOptions()
	inspection := DefaultInspection
	cmd := &cobra.Command{
		Use:   "tenon-scheduler",
		Short: "kube-scheduler that knows where the kubelet will align a pod",
		Long: `tenon-scheduler is kube-scheduler with the plugin Tenon. It takes kube-scheduler's flags and
configuration; enable the plugin in a profile, by this name or as NodeResourceTopologyMatch:

  profiles:
  - schedulerName: tenon-scheduler
    plugins: {multiPoint: {enabled: [{name: Tenon}]}}`,
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return opts.ComponentGlobalsRegistry.Set() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Only Kubernetes' own builds set, by the linker, the version that verflag prints.
			if f := cmd.Flags().Lookup("version"); f != nil && f.Value.String() == "true" {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("tenon-scheduler"))
				return err
			}
			verflag.PrintAndExitIfRequested()
			gate := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
			if err := logsapi.ValidateAndApply(opts.Logs, gate); err != nil {
				return fmt.Errorf("set up logging: %w", err)
			}
			s, err := Prepare(ctx, opts, nil)
			if err != nil {
				return err
			}
			if err := inspectAt(ctx, s, inspection, cmd.Flags().Changed(inspectionFlag)); err != nil {
				return err
			}
			return s.Run(ctx)
		},
	}
	sets := opts.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	sets.FlagSet("inspection").StringVar(&inspection, inspectionFlag, inspection,
		"The address where the ledger and the last decisions are served below "+inspect.Prefix+
			", to whom the API server allows it. If empty, they are not served.")
	for _, f := range sets.FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *sets, cols)
	return cmd
}

const inspectionFlag = "inspection-address"

// inspectAt serves inspection at an address; "" serves none. If it fails, for example because the port is taken, and
// the user did not set the address (explicit is false), it only logs the error.
func inspectAt(ctx context.Context, s *Scheduler, address string, explicit bool) error {
	if address == "" {
		return nil
	}
	_, err := s.Inspect(ctx, address)
	if err != nil && !explicit {
		klog.FromContext(ctx).Error(err, "Inspection is off", "flag", inspectionFlag)
		return nil
	}
	return err
}
