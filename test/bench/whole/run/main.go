// Command bench measures schedulers on whole clusters: a real etcd and kube-apiserver, and by default 1,000 and 5,000
// nodes with published layouts, and 5,000 pods. Each scheduler runs as a separate process; their configurations
// differ only in the profile. Afterwards the kubelet's managers check the placements.
//
// It builds what it runs, prints progress, and writes its tables between their marks in docs/performance.md. It asserts
// nothing about time, and fails if a round cannot be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-numa/tenon/test/bench/programs"
	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/section"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
	"github.com/tenon-numa/tenon/test/bench/whole"
)

func main() {
	whole.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flags of the command.
type flags struct {
	nodes, rounds, only, page, profiles string
	attacks, before                     string
	pods, full, qps                     int
	seed                                uint64
	quiet, most                         time.Duration
	trace                               bool
}

func run(ctx context.Context, args []string) error {
	var f flags
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&f.nodes, "nodes", "1000,5000", "sizes of clusters, in nodes")
	fs.StringVar(&f.rounds, "rounds", "2,1", "rounds of every scheduler for each size")
	fs.IntVar(&f.pods, "pods", 5000, "pods that come")
	fs.IntVar(&f.full, "full", 50, "how full clusters are before that, in percent of CPUs")
	fs.Uint64Var(&f.seed, "seed", 1, "of clusters and pods")
	fs.IntVar(&f.qps, "qps", whole.QPS, "requests that a scheduler may make, per second and at once")
	fs.StringVar(&f.only, "only", "plain,tenon,match",
		"which schedulers, of plain, tenon, shards2, shards4, match and older")
	fs.StringVar(&f.page, "page", "docs/performance.md", "page whose section is written; none when empty")
	fs.StringVar(&f.profiles, "profiles", "",
		"folder for profiles of CPU and memory, metrics and bindings of every scheduler; none when empty")
	fs.BoolVar(&f.trace, "trace", false, "print where the time of a pod goes, for each scheduler; writes no page")
	fs.StringVar(&f.attacks, "attacks", "", "measure attacks instead: all, or numbers of attacks from 1 on")
	fs.StringVar(&f.before, "before", "", "program of an older tenon-scheduler that is measured, too")
	fs.DurationVar(&f.quiet, "quiet", 20*time.Second, "a round ends when so long no pod was bound")
	fs.DurationVar(&f.most, "most", 100*time.Second, "a round ends after so long in any case")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	sizes, err := numbers("nodes", f.nodes)
	if err != nil {
		return err
	}
	turns, err := numbers("rounds", f.rounds)
	if err != nil {
		return err
	}
	if len(turns) != len(sizes) {
		return fmt.Errorf("-rounds has %d numbers, and -nodes %d", len(turns), len(sizes))
	}
	schedulers, remove, err := build(ctx, strings.Split(f.only, ","))
	if err != nil {
		return err
	}
	defer remove()
	if i := slices.IndexFunc(schedulers, func(c whole.Contender) bool { return c.Name == rounds.Tenon }); f.before != "" &&
		i >= 0 {
		old := schedulers[i]
		old.Name, old.Program = old.Name+", before", f.before
		schedulers = append(schedulers, old)
	}
	if f.attacks != "" {
		return f.underAttack(ctx, schedulers, sizes[0])
	}
	var all []whole.Round
	for i, n := range sizes {
		say(fmt.Sprintf("%d nodes, %d %% full, %d pods come, %d rounds each", n, f.full, f.pods, turns[i]))
		got, err := whole.Run(ctx, whole.Options{Size: synthetic.Size{Nodes: n, Full: f.full}, Seed: f.seed, Pods: f.pods,
			Contenders: schedulers, Rounds: turns[i], QPS: f.qps, Quiet: f.quiet, Most: f.most, Profiles: f.profiles,
			Trace: f.trace, Progress: say})
		if err != nil {
			return err
		}
		if f.trace {
			for _, r := range got {
				fmt.Println(whole.TraceReport(r.Contender, r.Traced))
			}
		}
		all = append(all, got...)
	}
	text := section.Where() + "\n\n" + whole.Report(all)
	fmt.Println(text)
	if f.page == "" || f.trace {
		return nil
	}
	return section.Write(f.page, "whole", text)
}

// underAttack measures how long the pods of others wait under attacks, and prints it.
func (f flags) underAttack(ctx context.Context, schedulers []whole.Contender, nodes int) error {
	attacks := whole.Attacks()
	if f.attacks != "all" {
		chosen, err := numbers("attacks", f.attacks)
		if err != nil {
			return err
		}
		attacks = nil
		for _, n := range chosen {
			if n > len(whole.Attacks()) {
				return fmt.Errorf("-attacks: there are %d attacks, and no %d", len(whole.Attacks()), n)
			}
			attacks = append(attacks, whole.Attacks()[n-1])
		}
	}
	got, err := whole.Endure(ctx, whole.Options{Size: synthetic.Size{Nodes: nodes, Full: f.full}, Seed: f.seed,
		Contenders: schedulers,
		Rounds:     1, QPS: f.qps, Profiles: f.profiles, Progress: say}, attacks)
	fmt.Println(section.Where() + "\n\n" + whole.ReportEndured(got))
	return err
}

func say(line string) { fmt.Fprintln(os.Stderr, line) }

// numbers parses a list of positive numbers.
func numbers(name, list string) (out []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a number from 1 on", name, word)
		}
		out = append(out, n)
	}
	return out, nil
}

// build builds the requested schedulers; remove removes the programs.
func build(ctx context.Context, words []string) (out []whole.Contender, remove func(), err error) {
	dir, err := os.MkdirTemp("", "tenon-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory for programs: %w", err)
	}
	remove = func() { os.RemoveAll(dir) }
	for _, w := range words {
		c, err := contender(ctx, dir, w)
		if err != nil {
			remove()
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, remove, nil
}

// contender builds the scheduler that a word of the option -only names. The peer's plugin, "match", is for an older
// Kubernetes; "older" is kube-scheduler of that release without the plugin.
func contender(ctx context.Context, dir, word string) (whole.Contender, error) {
	say("building " + word)
	switch word {
	case "plain":
		program, err := goBuild(ctx, dir, "./test/bench/whole/plain")
		return whole.Contender{Name: rounds.Plain, Program: program}, err
	case "tenon", "shards2", "shards4":
		profile, err := rounds.Deployed(ctx)
		if err != nil {
			return whole.Contender{}, err
		}
		program, err := goBuild(ctx, dir, "./cmd/tenon-scheduler")
		c := whole.Contender{Name: rounds.Tenon, Program: program, Profile: profile}
		if n, sharded := strings.CutPrefix(word, "shards"); sharded {
			c.Name += ", " + n + " shards"
			c.Shards = int(n[0] - '0')
		}
		return c, err
	case "match":
		profile, err := rounds.PeerProfile()
		if err != nil {
			return whole.Contender{}, err
		}
		program, err := programs.Peer(ctx, dir)
		return whole.Contender{Name: rounds.Peer, Program: program, Args: []string{"kube-scheduler"}, Profile: profile,
			Topologies: true}, err
	case "older":
		program, err := programs.Peer(ctx, dir)
		return whole.Contender{Name: rounds.PeerPlain, Program: program, Args: []string{"kube-scheduler"}}, err
	}
	return whole.Contender{}, fmt.Errorf("-only: no scheduler %q", word)
}

// goBuild builds a program of this checkout.
func goBuild(ctx context.Context, dir, pkg string) (string, error) {
	root, err := programs.Checkout(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, pkg)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	return program, nil
}
