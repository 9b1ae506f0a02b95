package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Moving has what the command defrag asks of a stage.
type Moving struct {
	// Budgets returns a stage that knows the cluster's disruption budgets, if the user may read them.
	Budgets func(ctx context.Context, k Kubeconfig, s Stage) (Stage, error)
	// Movers returns the pods that may move at a time. An error of the user's bounds names them.
	Movers func(ctx context.Context, s Stage, b defrag.Bounds, at time.Time) (defrag.Field, error)
	// Booked returns the nodes where a plan that is carried out keeps places for the successors of pods, by UID.
	Booked func(s Stage, uids []string) map[string]string
	// Released returns the stage as if no places were kept for the successors of pods, by UID, which a plan keeps that is
	// carried out.
	Released func(s Stage, uids []string) Stage
	// Ending returns the stage without the pods on nodes that are being deleted, and their number.
	Ending func(s Stage) (after Stage, pods int)
	// Leaving returns the stage without some pods, by UID, and what their successors want there, in the order of uids.
	Leaving func(s Stage, uids []string) (after Stage, wants []*whatif.Want, err error)
	// Unrelated removes from wants what other pods mean to them, if none means anything to another. Otherwise it returns
	// false.
	Unrelated func(s Stage, wants []*whatif.Want) bool
}

const defragLong = `Find the cheapest pods to move so that others get room.

Free CPUs, memory and devices that lie scattered over NUMA nodes take no pod that needs them on one.
The command finds the cheapest pods to evict so that the wanted pods fit, and so that every evicted
pod has a new place at the same time: by what kubelets would decide, and by labels, taints, amounts
and disruption budgets. With --usual, no pod waits for the room: most pods of the usual shapes fit
afterwards, and of no shape fewer than now. The command only reads, and evicts nothing; "defrag apply"
carries out what -o json writes.

Only pods of ReplicaSets, StatefulSets and ReplicationControllers move, as these create them again, and
pods of Jobs with the annotation cluster-autoscaler.kubernetes.io/safe-to-evict=true. The Job of a
JobSet must ignore evictions, too (podFailurePolicy). --bare lets pods of other controllers move, and
those of none. Pods of a gang need that annotation as well, and only those of PodGroups of Kubernetes
move. No pods move whose claims of devices (DRA) or other requirements are not judged, and none where
that annotation is false. A pod says by the annotation tenon.sh/move-cost (1 to 1000) what its move
costs; without it 1. Nodes whose NUMA nodes are not known get no pods that need alignment.

The exit code is 0 if there is a plan, or if nothing has to move; 1 if there is none; 3 if there is one,
and pods of some objects cannot be judged; 2 after an error.`

const defragExample = `  # What has to move so that a pod that waits gets room?
  kubectl tenon defrag --for ml/trainer-0

  # What has to move so that two more pods like one fit?
  kubectl tenon defrag --like ml/trainer-0 --count 2

  # Where would the pods of a node go, and what has to make way for them?
  kubectl tenon defrag --empty node-a

  # Which pods have to move so that more pods of the kinds fit that the cluster usually runs?
  kubectl tenon defrag --usual --most 3

  # Can a pod that lies on several NUMA nodes be brought onto one?
  kubectl tenon defrag --align ml/trainer-0

  # Only pods of low priority may move, at most three, and none that has just started
  kubectl tenon defrag -f train.yaml --max-priority 0 --most 3 --min-age 30m --map`

// defragFlags are the choices of the command.
type defragFlags struct {
	files, pods, empty, namespaces []string
	align                          []string
	recursive, pending, any, usual bool
	apply, yes                     bool
	like, count, nodes             string
	maxPriority, most              int
	minAge                         time.Duration
	bare, localData, maps          bool
	guarded                        guardFlags
	output                         output
	drawing                        mapFlags

	// asked is the question, as the flags that were given for it. "defrag apply" asks it again.
	asked []string
	// least is how many pods of usual shapes fitted when the plan was made that is carried out.
	least map[string]int
	// automatic: no person sees the plan before it is carried out. Pods whose devices are not judged get no room then, and
	// neither do pods of gangs.
	automatic bool
	// only, if not nil, are the UIDs of the only pods that may move, if a plan is carried out.
	only map[string]bool
}

// MaxMoves bounds the pods that may move.
const MaxMoves = 100

const (
	// maxGoal bounds the pods that are to get room.
	maxGoal = 256
	// The search tries at most maxTrials sets, and so many that placing their pods looks at defragEffort nodes.
	maxTrials    = 2_000
	minTrials    = 20
	defragEffort = 20_000_000
	// maxLooks bounds how often a pod is tried on a node without some of its pods.
	maxLooks = 400_000
)

func (a *app) defragCommand() *cobra.Command {
	var f defragFlags
	c := &cobra.Command{
		Use:     "defrag",
		Short:   "Find the cheapest pods to move so that others get room",
		Long:    defragLong,
		Example: defragExample,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.defrag(c, f) },
	}
	c.SetFlagErrorFunc(kustomization)
	f.bind(c)
	c.Flags().BoolVar(&f.apply, "apply", false, `Carry the plan out, as "defrag apply" does.`)
	c.Flags().BoolVar(&f.yes, "yes", false, "With --apply, do not ask.")
	complete(c, "for", a.podNames)
	complete(c, "like", a.podNames)
	complete(c, "align", a.podNames)
	complete(c, "empty", a.nodeNames)
	complete(c, "from-namespace", a.namespaceNames)
	c.AddCommand(a.defragApplyCommand())
	return c
}

// bind adds the flags to a command.
func (f *defragFlags) bind(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.pods, "for", nil,
		"Pod that waits and is to get room, [NAMESPACE/]NAME. This flag can be repeated.")
	s.BoolVar(&f.pending, "pending", false,
		"All pods that wait are to get room at the same time, or none; --any: as many as possible.")
	s.BoolVar(&f.any, "any", false, "As many of these pods as possible are to get room, by priority, and not all or none.")
	s.StringArrayVarP(&f.files, "filename", "f", nil, filesHelp)
	s.BoolVarP(&f.recursive, "recursive", "R", false, recursiveHelp)
	s.StringVar(&f.like, "like", "", "Existing pod, [NAMESPACE/]NAME, of which more are to fit: one, or --count.")
	s.StringVar(&f.count, "count", "", "Number of pods of each workload of -f and --like, in place of its replicas.")
	s.StringArrayVar(&f.empty, "empty", nil, "Node that all its pods are to leave. This flag can be repeated.")
	s.StringArrayVar(&f.align, "align", nil,
		"Pod that runs and is to lie on as few NUMA nodes as it needs, [NAMESPACE/]NAME; it stays if it does already. "+
			"This flag can be repeated.")
	s.BoolVar(&f.usual, "usual", false,
		"As many pods as possible are to fit of the shapes that the cluster usually runs, and of none fewer than now.")
	s.StringArrayVar(&f.namespaces, "from-namespace", nil,
		"Namespace whose pods may move; without it those of all. This flag can be repeated.")
	s.IntVar(&f.maxPriority, "max-priority", math.MaxInt32, "Highest priority of pods that may move.")
	s.DurationVar(&f.minAge, "min-age", 0, "How long a pod must have run before it may move, such as 30m.")
	s.IntVar(&f.most, "most", 10, fmt.Sprintf("How many pods may move, at most %d.", MaxMoves))
	s.BoolVar(&f.bare, "bare", false,
		"Pods without such a controller may move, too: perhaps nobody creates them again.")
	s.BoolVar(&f.localData, "delete-emptydir-data", false, "Pods that keep data in an emptyDir may move, too.")
	s.StringVar(&f.nodes, "nodes", "", `File with the output of "kubectl get `+
		`nodelayouts,layoutbases,nodes,pods,poddisruptionbudgets -A -o json", in place of a cluster.`)
	f.guarded.bind(c)
	s.BoolVar(&f.maps, "map", false, "Draw the nodes that change, before and after.")
	s.BoolVar(&f.drawing.all, "all", false, "Show all moves, nodes and maps, however many there are.")
	f.output.bind(c, "json", "yaml", "name")
}

// check returns an error for flags that are out of bounds or contradict each other.
func (f *defragFlags) check() error {
	switch {
	case !f.usual && !f.goals():
		return errors.New("say what is to get room: --for POD, --pending, -f FILE or --like POD; a node that is to be " +
			"empty, --empty NODE; a pod that is to be aligned, --align POD; or the usual workload, --usual")
	case f.usual && (f.goals() || f.any):
		return errors.New("--usual goes with no other goal")
	case f.count != "" && len(f.files) == 0 && f.like == "":
		return errors.New("--count needs -f FILE or --like POD")
	case f.yes && !f.apply:
		return errors.New("--yes needs --apply")
	case f.apply && (f.output.format != "" || f.nodes != ""):
		return errors.New("--apply needs a cluster, and goes with no -o")
	case f.count == "max":
		return errors.New(`--count max is for simulate: want a number`)
	case f.most < 1 || f.most > MaxMoves:
		return fmt.Errorf("--most %d: want 1..%d", f.most, MaxMoves)
	case f.maxPriority < math.MinInt32 || f.maxPriority > math.MaxInt32:
		return fmt.Errorf("--max-priority %d is no priority", f.maxPriority)
	case f.minAge < 0:
		return fmt.Errorf("--min-age %s is negative", f.minAge)
	}
	if err := f.drawing.check(nil); err != nil {
		return err
	}
	return f.output.check()
}

// goals reports whether pods are to get room, a node is to be empty or a pod is to be aligned.
func (f *defragFlags) goals() bool {
	return len(f.pods)+len(f.files)+len(f.empty)+len(f.align) > 0 || f.pending || f.like != ""
}

// bounds returns which pods may move.
func (f *defragFlags) bounds() defrag.Bounds {
	out := defrag.Bounds{Namespaces: f.namespaces, MinSeconds: int64(f.minAge.Seconds()), Bare: f.bare,
		LocalData: f.localData, Pinned: f.usual}
	if f.maxPriority < math.MaxInt32 {
		priority := int32(f.maxPriority)
		out.MaxPriority = &priority
	}
	return out
}

// simulates returns the flags of simulate with the same sources and pods.
func (f *defragFlags) simulates() simulateFlags {
	return simulateFlags{files: f.files, recursive: f.recursive, pod: f.like, count: f.count, nodes: f.nodes}
}

// defragmentation is one run of the command: its input, and what was found.
type defragmentation struct {
	stage    Stage
	kept     Stage // with the places that are kept for successors, and with pods that end
	source   string
	problems []document.Problem
	tasks    []*task
	field    defrag.Field
	problem  defrag.Problem
	empty    []string // names
	result   defrag.Result
	stuck    []defrag.Fixed // pods of nodes that are to be empty, which may not move
	aligned  []string       // pods of --align that need not move
	// notJudged are objects of files whose pods are not judged, and pods that get no room because of that, and why.
	notJudged []string
	partial   string // what of the cluster was not read
	asked     []string
	bare      bool     // pods without a controller may move
	without   []string // with --any, the pods that get no room
	newcomers []PodOn  // pods that might move and are not of the plan that is carried out
	ending    int      // pods that are being deleted, and count as gone
	usual     *usual   // nil: there is another goal
}

// defrag finds a plan and writes it. It returns errNoPlace if there is none.
func (a *app) defrag(c *cobra.Command, f defragFlags) error {
	f.drawing.color = a.color
	if err := f.check(); err != nil {
		return err
	}
	if a.setup.Stages.Moving == nil {
		return errors.New("pods cannot be moved here")
	}
	f.asked, f.automatic = a.question(c), f.any && f.apply && f.yes
	d, err := a.defragmented(c, f)
	if err != nil {
		return err
	}
	if f.automatic && len(d.tasks) == 0 && len(d.notJudged) > 0 {
		return errNoPlace // the warnings have the reasons
	}
	if f.apply && d.result.Plan != nil {
		return a.carryOut(c, d.document(), moveDefaults(), f.yes, false)
	}
	done, err := f.output.write(c.OutOrStdout(), d.document(), d.names())
	if !done {
		err = d.write(c.OutOrStdout(), f)
	}
	switch {
	case err != nil:
		return err
	case d.result.Plan == nil:
		return errNoPlace
	case len(d.notJudged) > 0:
		return errNotJudged
	}
	return nil
}

// defragmented reads the cluster and finds a plan.
func (a *app) defragmented(c *cobra.Command, f defragFlags) (*defragmentation, error) {
	moving := a.setup.Stages.Moving
	for _, ref := range slices.Concat(f.pods, f.align) { // the namespaces that they name are read
		if namespace, _, both := strings.Cut(strings.TrimPrefix(ref, "pod/"), "/"); both {
			a.kube.named = append(a.kube.named, namespace)
		}
	}
	all, err := a.inputs(c, f.simulates())
	if err != nil {
		return nil, err
	}
	if f.nodes == "" {
		if all.stage, err = moving.Budgets(c.Context(), a.kube, all.stage); err != nil {
			return nil, err
		}
	}
	d := &defragmentation{bare: f.bare, source: all.source, problems: all.problems, asked: f.asked}
	d.kept = all.stage
	if f.only != nil {
		all.stage = moving.Released(all.stage, slices.Sorted(maps.Keys(f.only)))
	}
	d.stage, d.ending = moving.Ending(all.stage)
	if d.tasks, d.notJudged, err = a.goals(f, d.stage, all, c.ErrOrStderr()); err != nil {
		return nil, err
	}
	warnUnjudged(c.ErrOrStderr(), slices.DeleteFunc(slices.Clone(d.tasks), func(t *task) bool { return !t.waiting }))
	bounds := f.bounds()
	if f.like != "" {
		ns, name, err := a.podName(f.like)
		if err != nil {
			return nil, err
		}
		bounds.Keep.Namespace, bounds.Keep.Name = cmp.Or(ns, a.kube.Namespace(), a.kube.fileNamespace, "default"), name
	}
	if d.field, err = moving.Movers(c.Context(), d.stage, bounds, time.Now()); err != nil {
		return nil, err
	}
	d.partial = partialText(d.stage)
	if f.only != nil {
		d.restrict(f.only)
	}
	if err := d.pose(f); err != nil {
		return nil, err
	}
	for _, ref := range f.align {
		if err := d.alignPod(a.fullName(ref)); err != nil && f.only == nil {
			return nil, err
		}
	}
	var wants []*whatif.Want
	for _, m := range d.problem.Pods {
		wants = append(wants, m.Want)
	}
	for i := range d.problem.Movers {
		wants = append(wants, d.problem.Movers[i].Want)
	}
	progress := progressOn(c.Context(), c.ErrOrStderr())
	progress.search = "defrag: still looking for pods that make room"
	if d.field.Related = !moving.Unrelated(d.stage, wants); d.field.Related {
		goals := func(s Stage) ([]*task, error) {
			out, _, err := a.goals(f, s, all, io.Discard)
			return out, err
		}
		d.problem.Confirm = func(p *defrag.Plan) bool { return d.confirmed(p, moving, goals, progress.step) }
	}
	if len(d.stuck) > 0 {
		return d, nil // the nodes cannot be empty
	}
	switch {
	case f.any:
		return d, d.findAny(progress.step)
	case f.usual:
		return d, d.findUsual(f.least, progress.step)
	}
	d.result, err = defrag.Find(d.problem, progress.step)
	return d, err
}

// pose sets the problem.
func (d *defragmentation) pose(f defragFlags) error {
	guarded, err := f.guarded.guard()
	if err != nil {
		return err
	}
	guarded.Unknown = guard.Nobody
	var workloads []*whatif.Workload
	for _, t := range d.tasks {
		workloads = append(workloads, t.workload)
	}
	nodes := d.stage.Nodes()
	p := defrag.Problem{Nodes: nodes, Rules: whatif.Rules{Guard: guarded}, Pods: goalPods(d.tasks),
		Movers: d.field.Movers, Budgets: d.field.Budgets, Gangs: d.field.Gangs, Most: f.most, Looks: maxLooks}
	p.Rules.Strategy.Mix = whatif.Usual(d.stage.Usual(), workloads)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(nodeNamesIn(f.empty)))) {
		at := slices.IndexFunc(nodes, func(n whatif.Node) bool { return n.Name == name })
		if at < 0 {
			return fmt.Errorf("--empty: node %q is not there", name)
		}
		p.Empty, d.empty = append(p.Empty, at), append(d.empty, name)
		for _, x := range d.field.Fixed {
			if x.Node == at {
				d.stuck = append(d.stuck, x)
			}
		}
	}
	if len(p.Pods) == 0 { // no pod waits for all to be gone: budgets bound how many go at a time
		p.Budgets = slices.Clone(p.Budgets)
		for i := range p.Budgets {
			if p.Budgets[i] > 0 {
				p.Budgets[i] = math.MaxInt
			}
		}
	}
	p.Trials = min(maxTrials, max(minTrials, defragEffort/max(1, len(nodes)*(len(p.Pods)+f.most))))
	d.problem = p
	return nil
}

// evicted returns the UIDs of the pods that a plan moves, in its order.
func (d *defragmentation) evicted(p *defrag.Plan) (uids []string) {
	for _, m := range p.Moves {
		uids = append(uids, d.problem.Movers[m.Mover].Pod.UID)
	}
	return uids
}

// after returns a stage without the pods that a plan moves, to place pods on, and what all pods of the plan want there,
// by the UIDs of their placements. Nodes that are to be empty take none.
func (d *defragmentation) after(s Stage, p *defrag.Plan, moving *Moving, goals func(Stage) ([]*task, error)) (
	*whatif.Plan, map[string]*whatif.Want, error) {
	left, successors, err := moving.Leaving(s, d.evicted(p))
	if err != nil {
		return nil, nil, err
	}
	tasks, err := goals(left)
	if err != nil {
		return nil, nil, err
	}
	wants := map[string]*whatif.Want{}
	for _, m := range goalPods(tasks) {
		wants[m.ID.UID] = m.Want
	}
	for i, m := range p.Moves {
		w := *successors[i]
		w.Demand = d.problem.Movers[m.Mover].Want.Demand
		wants[m.To.Pod.UID] = &w
	}
	nodes := slices.Clone(left.Nodes())
	for _, at := range d.problem.Empty {
		nodes[at].Gone = true
	}
	return whatif.New(nodes, d.problem.Rules), wants, nil
}

// confirmed reports whether all pods of a plan get their places on a cluster without the pods that move, also by what
// pods mean to each other.
func (d *defragmentation) confirmed(p *defrag.Plan, moving *Moving, goals func(Stage) ([]*task, error),
	step func() error) bool {
	plan, wants, err := d.after(d.stage, p, moving, goals)
	if err != nil {
		return false
	}
	for _, x := range p.Order {
		one := whatif.Gang{Pods: []whatif.Member{{ID: x.Pod, Want: wants[x.Pod.UID]}}, Least: 1,
			Racks: []whatif.Rack{{Nodes: []int{x.Node}}}}
		if out, err := plan.Together(one, step); err != nil || !out.Fits {
			return false
		}
	}
	return true
}

// unjudged are objects, and requirements of the pods that get room, which are not judged.
func (d *defragmentation) unjudged() []string {
	out := slices.Clone(d.notJudged)
	for _, t := range d.tasks {
		for _, what := range t.workload.Unjudged {
			if !slices.Contains(out, what) {
				out = append(out, what)
			}
		}
	}
	return out
}

// fixed counts the pods that may not move by the reason, the most frequent first, each with its number.
func (d *defragmentation) fixed() (out []fixedDocument) {
	at := map[string]int{}
	for _, x := range d.field.Fixed {
		why, _, _ := strings.Cut(x.Why, ": ")
		i, known := at[why]
		if !known {
			i = len(out)
			at[why], out = i, append(out, fixedDocument{Reason: why})
		}
		out[i].Pods++
	}
	slices.SortStableFunc(out, func(a, b fixedDocument) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), strings.Compare(a.Reason, b.Reason))
	})
	return out
}
