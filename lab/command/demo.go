package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/demo"
)

// demoFlags are the flags of "demo".
type demoFlags struct {
	acts, dir, cast, svg string
	seed                 uint64
	seeds                int
	json, volcano        bool
	programs             volcanoFlags
}

// tryOut returns the command that plays the demonstration.
func tryOut(show Show) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in a minute what Tenon is for, beside kube-scheduler",
		Long: `Show in a minute what Tenon is for, beside kube-scheduler with its scores LeastAllocated and MostAllocated.

  a  three pods: kubelets refuse all or one of them under kube-scheduler, and none under Tenon
  b  a busy cluster: the same pods in the same order under each scheduler, means of several seeds
  c  why a pod waits, and how it runs once there is room
  d  400 simulated machines with GPU jobs, also under a model of NodeResourceTopologyMatch

The first three acts run on six real kubelets on this computer. Containers do not run; what they hold is real. One more
act is played if it is named:

  dra  GPUs from claims (dynamic resource allocation), and how many of them are beside the CPUs of their pods

With --volcano, Volcano's scheduler, controllers and admission webhooks run instead, in a checkout of the repository, and
place the same gangs with Volcano's plugin numa-aware and with Tenon's; name other acts by --act to see them too.`,
		Example: `  tenon-lab demo
  tenon-lab demo --act a,c
  tenon-lab demo --act b --seed 1 --seeds 20
  tenon-lab demo --act dra
  tenon-lab demo --volcano
  tenon-lab demo --json > demo.json
  tenon-lab demo --cast demo.cast --svg docs/demo.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, show) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.acts, "act", "", "acts to play, a comma list of a, b, c, d, dra (default: a,b,c,d)")
	flags.Uint64Var(&f.seed, "seed", 1,
		"first seed of the order in which pods arrive in b, dra and with --volcano, and the seed of d")
	flags.IntVar(&f.seeds, "seeds", 2,
		fmt.Sprintf("number of seeds in b, dra and of Volcano's jobs, 1 to %d", demo.MaxSeeds))
	flags.BoolVar(&f.volcano, "volcano", false, "compare Volcano's plugin numa-aware with Tenon's")
	f.programs.add(flags)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.cast, "cast", "", "file for a recording in the asciicast v2 format, for asciinema")
	flags.StringVar(&f.svg, "svg", "", "file for the recording as an SVG")
	flags.StringVar(&f.dir, "dir", "", "where the cluster's directory is made; keep it short (default: memory)")
	completeDemo(cmd)
	return cmd
}

func (f demoFlags) run(cmd *cobra.Command, show Show) error {
	acts, err := demo.ParseActs(f.acts)
	if err != nil {
		return err
	}
	if f.seeds < 1 || f.seeds > demo.MaxSeeds {
		return fmt.Errorf("--seeds %d is outside 1..%d", f.seeds, demo.MaxSeeds)
	}
	began := time.Now()
	var steps strings.Builder
	o := demo.Options{Dir: f.dir, Acts: acts, Seed: f.seed, Seeds: f.seeds, Explain: show.Explain,
		Progress: func(line string) {
			line = fmt.Sprintf("%5.1fs  %s\n", time.Since(began).Seconds(), line)
			steps.WriteString(line)
			fmt.Fprint(cmd.ErrOrStderr(), line)
		}}
	if f.volcano {
		if f.acts == "" {
			o.Acts = nil
		}
		if o.Volcano, err = f.programs.find(cmd.Context(), o.Progress); err != nil {
			return err
		}
	}
	found, err := demo.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := f.record(found, show, steps.String()); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), found, show)
}

func (f demoFlags) print(w io.Writer, found *demo.Found, show Show) error {
	if f.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(found.Demo)
	}
	pages, err := found.Pages(show.drawer(false))
	if err != nil {
		return err
	}
	for _, p := range pages {
		if _, err := fmt.Fprintf(w, "\n%s", p.Text); err != nil {
			return err
		}
	}
	return nil
}

// record writes the recordings that the flags request, if any. They begin with the steps that were reported meanwhile.
func (f demoFlags) record(found *demo.Found, show Show, steps string) error {
	if f.cast == "" && f.svg == "" {
		return nil
	}
	if show.Record == nil {
		return errors.New("record the demonstration: this program has no recorder")
	}
	pages, err := found.Pages(show.drawer(true))
	if err != nil {
		return err
	}
	pages[0].Text = steps + "\n" + pages[0].Text
	var cast, svg bytes.Buffer
	if err := show.Record(pages, &cast, &svg); err != nil {
		return fmt.Errorf("record the demonstration: %w", err)
	}
	for file, data := range map[string][]byte{f.cast: cast.Bytes(), f.svg: svg.Bytes()} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
	return nil
}

// drawer returns the function that draws nodes: in colour for a recording, otherwise as the terminal allows. It
// returns nil if there is none.
func (s Show) drawer(recording bool) demo.Draw {
	if s.Draw == nil {
		return nil
	}
	return func(w io.Writer, n *state.Node, width int) error { return s.Draw(w, n, width, recording) }
}
