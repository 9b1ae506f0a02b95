package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file carries out a plan that moves pods.

var errNoMoves = errors.New("this program moves no pods")

const defragApplyLong = `Carry out a plan that "kubectl tenon defrag -o json" has found.

The command asks the question of the plan again, with its pods as the only ones that may move. If the answer
still works, it names the nodes of the pods that wait to the scheduler, and has the scheduler keep a place for
the successor of each pod that is to move (a ProvisioningRequest, which tenon-scheduler answers). Then it evicts
the pods by the Eviction API, which respects disruption budgets, and waits until their successors run, and then
the pods that waited. Nodes that are to be empty are cordoned, and remain so.

It computes the rest of the plan again before each round of evictions. If the plan does not work any more, it
stops and evicts nothing more. If the command is interrupted, apply the same plan again: it goes on where it was.

The exit code is 0 once all pods run, 1 if you do not agree, and 2 after an error.`

const defragApplyExample = `  kubectl tenon defrag --for ml/trainer-0 -o json > plan.json
  kubectl tenon defrag apply plan.json --dry-run
  kubectl tenon defrag apply plan.json --yes`

// MovePlan is what is to be done to carry out a plan that moves pods.
type MovePlan struct {
	// Goals are the pods that wait for room, with the nodes that the plan gives them, and Moves the pods that move, with
	// the nodes that they are on.
	Goals, Moves []PodOn
	// Gone are the pods that an interrupted command has evicted.
	Gone []PodOn
	// Empty are nodes that all pods are to leave.
	Empty []string
	// Pinned: the pods move one after the other, in the order of Moves, and the successors have to get the nodes of the
	// plan: no pod is evicted before a place is kept there.
	Pinned bool
}

// PodOn is a pod with a node.
type PodOn struct {
	document.Pod

	Node string
	// To is the node of a move's new place.
	To string
	// Gang is equal for pods that leave at the same time; "" for a pod that may leave by itself.
	Gang string
}

// MoveOptions select how a plan is carried out; the flags of the command explain them.
type MoveOptions struct {
	Keep                                 bool
	AnswerWithin, EvictWithin, RunWithin time.Duration
}

// moveDefaults returns the options that apply if no flags are given.
func moveDefaults() MoveOptions {
	return MoveOptions{Keep: true, AnswerWithin: time.Minute, EvictWithin: 10 * time.Minute, RunWithin: 10 * time.Minute}
}

// Mover carries out plans that move pods in a cluster.
type Mover interface {
	// Check returns an error if the API server would refuse a part of the plan. It changes nothing.
	Check(ctx context.Context, p MovePlan) error
	// Run carries the plan out. Before each round of evictions it calls again with the moves that are left, and goes on
	// with the plan that this returns, or stops at its error. It calls say with a line for each step.
	Run(ctx context.Context, p MovePlan, again Again, say func(string)) error
}

// Again returns a plan with no other moves than some that are left. It returns an error if there is none, or if the
// places that are kept for their successors are in its way.
type Again func(ctx context.Context, left []PodOn) (MovePlan, error)

// Move returns what carries out plans in the cluster of a kubeconfig. It changes nothing yet.
type Move func(k Kubeconfig, o MoveOptions) (Mover, error)

func (a *app) defragApplyCommand() *cobra.Command {
	var (
		o           MoveOptions
		yes, dryRun bool
	)
	c := &cobra.Command{
		Use:     "apply PLAN",
		Short:   "Carry out a plan that moves pods",
		Long:    defragApplyLong,
		Example: defragApplyExample,
		Args:    oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			var p defragDocument
			if err := readPlan(args[0], "defrag", &p); err != nil {
				return err
			}
			return a.carryOut(c, p, o, yes, dryRun)
		},
	}
	s, d := c.Flags(), moveDefaults()
	s.BoolVar(&yes, "yes", false, "Do not ask.")
	s.BoolVar(&dryRun, "dry-run", false, "Say what would be done, and do nothing.")
	s.BoolVar(&o.Keep, "keep", d.Keep, "Have the scheduler keep a place for each successor before its pod is evicted.")
	s.DurationVar(&o.AnswerWithin, "answer-timeout", d.AnswerWithin,
		"How long the scheduler may take to answer whether it keeps places.")
	s.DurationVar(&o.EvictWithin, "evict-timeout", d.EvictWithin, "How long disruption budgets may refuse an eviction.")
	s.DurationVar(&o.RunWithin, "run-timeout", d.RunWithin,
		"How long it may take until pods end, their successors run, and those run that waited.")
	return c
}

// askable are the flags of a question that is asked again.
var askable = []string{"for", "pending", "any", "usual", "empty", "align", "from-namespace", "max-priority", "min-age",
	"most", "bare", "delete-emptydir-data", "unknown-nodes", "coarse-nodes", "silent-nodes", "inexact-nodes",
	"keep-restartable", "filename", "like", "count"}

// question returns the flags of a command that make up its question, each as --name=value. Pods have their namespaces.
func (a *app) question(c *cobra.Command) (out []string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(askable, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if slices.Contains([]string{"for", "align", "like"}, f.Name) {
				v = a.fullName(v)
			}
			out = append(out, "--"+f.Name+"="+v)
		}
	})
	return out
}

// ask returns the flags of the question of a plan, for its pods alone.
func (p *defragDocument) ask() (f defragFlags, err error) {
	if p.Kind != "Defragmentation" {
		return f, errors.New(`this is no plan: write one with "kubectl tenon defrag -o json"`)
	}
	switch {
	case !p.Found:
		return f, errors.New("the file says that there is no plan")
	case len(p.Moves) > MaxMoves:
		return f, fmt.Errorf("the plan has %d moves, more than %d", len(p.Moves), MaxMoves)
	}
	c := &cobra.Command{}
	f.bind(c)
	for _, arg := range p.Asked {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || !slices.Contains(askable, name) {
			return f, fmt.Errorf("the plan asks with %.80q, which is no flag of a question", arg)
		}
	}
	if err := c.ParseFlags(p.Asked); err != nil {
		return f, fmt.Errorf("the question of the plan: %w", err)
	}
	if err := f.check(); err != nil {
		return f, fmt.Errorf("the question of the plan: %w", err)
	}
	if len(f.files) > 0 || f.like != "" {
		return f, errors.New("the plan makes room for pods that are not there, and nothing would keep it for them: create " +
			"them, and plan with --for or --pending")
	}
	if f.pods = nil; f.pending || len(p.Placed) > 0 {
		for _, x := range p.Placed {
			f.pods = append(f.pods, x.Pod)
		}
	}
	f.pending, f.any, f.only = false, false, map[string]bool{}
	for _, m := range p.Moves {
		f.only[m.UID] = true
	}
	f.least = map[string]int{}
	for _, x := range p.Usual {
		f.least[x.Shape] = x.Before
	}
	return f, nil
}

// restrict leaves only some pods among those that may move, by UID. The others stay, also on nodes that are to be
// empty.
func (d *defragmentation) restrict(only map[string]bool) {
	keep := d.field.Movers[:0:0]
	for _, m := range d.field.Movers {
		if only[m.Pod.UID] {
			keep = append(keep, m)
			continue
		}
		d.newcomers = append(d.newcomers, PodOn{Pod: document.PodOf(m.Pod), Node: d.stage.Nodes()[m.Node].Name})
	}
	d.field.Movers = keep
}

// replan asks the question of a plan again. It returns an error if the answer does not work any more, or is not about
// all pods of the plan.
func (a *app) replan(c *cobra.Command, f defragFlags) (*defragmentation, error) {
	d, err := a.defragmented(c, f)
	if err != nil {
		return nil, err
	}
	if len(d.notJudged) > 0 { // as if these pods had room
		return nil, fmt.Errorf("without a person who agrees to the plan, %s", strings.Join(d.notJudged, "; "))
	}
	for _, x := range d.newcomers {
		if slices.Contains(f.empty, x.Node) {
			return nil, fmt.Errorf("pod %s/%s is on node %s, which is to be empty, and the plan does not move it: plan again",
				x.Namespace, x.Name, x.Node)
		}
	}
	for _, x := range slices.Concat(d.field.Fixed, d.stuck) {
		if f.only[x.Pod.UID] {
			return nil, fmt.Errorf("pod %s may not move: it %s", x.Pod, x.Why)
		}
	}
	if len(d.stuck) > 0 {
		return nil, fmt.Errorf("pod %s stays on its node: it %s", d.stuck[0].Pod, d.stuck[0].Why)
	}
	if d.result.Plan == nil {
		return nil, fmt.Errorf("the plan does not work any more, plan again: %s", oneLine(d.writeNone))
	}
	return d, nil
}

// gone returns the pods of a plan that are not to move any more.
func (p *defragDocument) gone(moves []PodOn) (out []PodOn) {
	for _, m := range p.Moves {
		if !slices.ContainsFunc(moves, func(x PodOn) bool { return x.UID == m.UID }) {
			out = append(out, PodOn{Pod: m.Pod, Node: m.From})
		}
	}
	return out
}

// again computes a plan with some moves once more, and whether it works with the places that are kept by now.
func (a *app) again(c *cobra.Command, f defragFlags, left []PodOn) (MovePlan, error) {
	f.only = map[string]bool{}
	for _, x := range left {
		f.only[x.UID] = true
	}
	d, err := a.replan(c, f)
	if err != nil {
		return MovePlan{}, err
	}
	goals := func(s Stage) ([]*task, error) {
		out, _, err := a.goals(f, s, nil, io.Discard)
		return out, err
	}
	if why := d.placedElsewhere(a.setup.Stages.Moving); why != "" {
		return MovePlan{}, errors.New(why)
	}
	if !d.worksBeside(a.setup.Stages.Moving, goals) {
		return MovePlan{}, errors.New("the places that the scheduler keeps for the pods that move are in the way of the " +
			"plan: plan again")
	}
	return d.order(), nil
}

// order returns what is to be done.
func (d *defragmentation) order() (out MovePlan) {
	out.Empty, out.Pinned = d.empty, d.usual != nil
	for _, x := range d.result.Plan.Placed {
		out.Goals = append(out.Goals, PodOn{Pod: document.PodOf(x.Pod), Node: d.problem.Nodes[x.Node].Name})
	}
	for _, m := range d.result.Plan.Moves {
		x := &d.problem.Movers[m.Mover]
		out.Moves = append(out.Moves, PodOn{document.PodOf(x.Pod), d.problem.Nodes[x.Node].Name,
			d.problem.Nodes[m.To.Node].Name, d.gangOf(x)})
	}
	if !out.Pinned {
		slices.SortFunc(out.Moves, func(a, b PodOn) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	return out
}

// carryOut announces the moves of a plan, asks the user unless yes is set, and carries them out unless dryRun is set.
// After an answer other than yes it returns errDeclined.
func (a *app) carryOut(c *cobra.Command, p defragDocument, o MoveOptions, yes, dryRun bool) error {
	switch {
	case a.setup.Move == nil || a.setup.Stages.Moving == nil:
		return errNoMoves
	case o.AnswerWithin <= 0 || o.EvictWithin <= 0 || o.RunWithin <= 0:
		return errors.New("--answer-timeout, --evict-timeout and --run-timeout must be positive")
	}
	by, err := a.setup.Move(a.kube, o)
	if err != nil {
		return err
	}
	f, err := p.ask()
	if err != nil {
		return err
	}
	f.automatic = yes && slices.Contains(p.Asked, "--any=true")
	if f.usual && !o.Keep {
		return errors.New("--usual needs places for the successors: --keep=false would move pods for nothing")
	}
	d, err := a.replan(c, f)
	if err != nil {
		return err
	}
	out, order := c.OutOrStdout(), d.order()
	order.Gone = p.gone(order.Moves)
	if len(order.Moves) == 0 {
		_, err := fmt.Fprintln(out, "Nothing has to move.")
		if err != nil || dryRun || len(order.Gone)+len(order.Goals) == 0 {
			return err
		}
	}
	if err := by.Check(c.Context(), order); err != nil {
		return err
	}
	if len(order.Moves) > 0 {
		err = d.announce(out, o)
	}
	if err != nil || dryRun {
		return err
	}
	if len(order.Moves) > 0 && !yes && !agreed(c) {
		fmt.Fprintln(c.ErrOrStderr(), "Nothing was changed: answer y, or give --yes.")
		return errDeclined
	}
	again := func(_ context.Context, left []PodOn) (MovePlan, error) { return a.again(c, f, left) }
	if err := by.Run(c.Context(), order, again, func(line string) {
		fmt.Fprintln(out, line)
		flush(out)
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, choose(len(order.Goals), "The pod that waited runs.", "All pods run."))
	return err
}

// announce writes what carrying out the plan will do.
func (d *defragmentation) announce(w io.Writer, o MoveOptions) error {
	b := bufio.NewWriter(w)
	d.writeMoves(b, MaxMoves)
	d.writePlaced(b, maxGoal)
	fmt.Fprintln(b)
	kept := "The scheduler is first asked to keep places for their successors."
	if !o.Keep {
		kept = "No places are kept for their successors, and others may take them."
	}
	if d.usual != nil {
		kept = "One after the other: the scheduler is first asked to keep a place for its successor."
	}
	kept += d.gangsText()
	if d.bare {
		kept += " Those without a controller end for good."
	}
	if len(d.empty) > 0 {
		kept += fmt.Sprintf(" Cordoned, and not uncordoned afterwards: %s.", strings.Join(d.empty, ", "))
	}
	writeWrapped(b, "", fmt.Sprintf("%s evicted. %s", choose(len(d.result.Plan.Moves), "1 pod is",
		podsText(len(d.result.Plan.Moves))+" are"), kept))
	if d.result.Plan.Forced && len(d.empty) == 0 {
		writeWrapped(b, "", "The scheduler by itself would place some of these pods elsewhere; the nodes of those that wait "+
			"are named to it.")
	}
	return b.Flush()
}

// agreed asks the user whether to go on.
func agreed(c *cobra.Command) bool {
	fmt.Fprint(c.OutOrStdout(), "Go on? [y/N] ")
	flush(c.OutOrStdout())
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n') // no answer means no
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		return answer == "y" || answer == "yes"
	case <-c.Context().Done():
		return false
	}
}

// worksBeside reports whether the plan works where places are kept for successors: once its pods are gone, those that
// wait fit on their nodes, and then the successors that have no place fit anywhere else, beside the places that are
// kept.
func (d *defragmentation) worksBeside(moving *Moving, goals func(Stage) ([]*task, error)) bool {
	p := d.result.Plan
	uids := d.evicted(p)
	booked := moving.Booked(d.kept, uids)
	if len(booked) == 0 {
		return true // this is the plan that was just computed
	}
	ended, _ := moving.Ending(d.kept)
	plan, wants, err := d.after(ended, p, moving, goals)
	if err != nil {
		return false
	}
	fits := func(x whatif.Placement, racks []whatif.Rack) bool {
		out, err := plan.Together(whatif.Gang{Pods: []whatif.Member{{ID: x.Pod, Want: wants[x.Pod.UID]}}, Least: 1,
			Racks: racks}, func() error { return nil })
		return err == nil && out.Fits
	}
	for _, x := range p.Placed {
		if wants[x.Pod.UID] != nil && !fits(x, []whatif.Rack{{Nodes: []int{x.Node}}}) {
			return false
		}
	}
	for i, m := range p.Moves {
		if booked[uids[i]] == "" && !fits(m.To, nil) {
			return false
		}
	}
	return true
}
