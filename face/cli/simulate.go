package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Stage is where a simulation places pods: nodes with their pods. It also reads the workloads that are placed.
type Stage interface {
	// Nodes returns the nodes in ascending order of name.
	Nodes() []whatif.Node
	// Workloads reads a workload file. left names the objects that are not among the workloads.
	Workloads(data []byte, namespace string) (all []*whatif.Workload, left whatif.Left, err error)
	// Like returns a copy of an existing pod as a workload.
	Like(namespace, name string) (*whatif.Workload, error)
	// On returns the pods that their owners would create again if the node were gone, and the number of pods that
	// would end with the node.
	On(node string) (pods []*whatif.Workload, ended int, err error)
	// Pending returns the pods without a node, in the order in which the scheduler takes them.
	Pending() []*whatif.Workload
	// Usual returns the pods that users have created lately, the newest last.
	Usual() []*place.Pod
	// Waiting counts the pods without a node.
	Waiting() int
}

// ClaimFiles has the files in which claims are looked for.
type ClaimFiles struct {
	Namespace string
	Files     [][]byte
	Alone     bool // no cluster is asked
}

// Stages has the functions that make a stage from each kind of source, and functions for stages.
type Stages struct {
	// Cluster reads a cluster, and returns the namespace that the kubeconfig selects.
	Cluster func(ctx context.Context, k Kubeconfig) (s Stage, problems []document.Problem, namespace string, err error)
	// Export reads the output of kubectl about a cluster.
	Export func(data []byte) (Stage, []document.Problem, error)
	// Machines makes nodes from machines.
	Machines func([]whatif.Machine) (Stage, error)
	// Ask returns a stage of a cluster that sends pods to the API server as dry runs; nil if there are no dry runs.
	Ask func(ctx context.Context, k Kubeconfig, s Stage) (Stage, error)
	// Claims returns a stage that finds the claims, templates and classes of devices (DRA) that pods of files name: in the
	// files, where objects without a namespace are of the given one, and then in the cluster, unless it is not asked. It
	// may be nil.
	Claims func(ctx context.Context, k Kubeconfig, s Stage, f ClaimFiles) (Stage, error)
	// Vary returns a copy of a stage with changes, and the names of the nodes whose rules have changed.
	Vary func(s Stage, v whatif.Variation) (out Stage, altered []string, err error)
	// Kubelet reads a KubeletConfiguration for a machine: the node's rules, and the amounts for pods.
	Kubelet func(config []byte, m *topo.Machine) (place.Rules, whatif.Amounts, error)
	// Ignored returns the fields of a KubeletConfiguration that kubelets ignore; nil if no list is known.
	Ignored func(config []byte) []string
	// Moving is for the command defrag; nil if no pods can be moved.
	Moving *Moving
	// Slots holds earlier counts of free slots for a program that simulates repeatedly; it may be nil.
	Slots *Slots
}

// Bounds of a simulation.
const (
	maxWorkload  = 32 << 20
	maxExport    = 1 << 30
	maxSimulated = 100_000 // pods in one run
)

const simulateLong = `Say how many pods would fit, where, and what stops the next one.

The command places pods one after the other, as the scheduler would, on the cluster as it is now, on
what kubectl wrote of a cluster, or on machines that files describe. It only reads and creates
nothing. It judges labels, taints, affinity, spreading, amounts and NUMA alignment, and names what else a
pod asks for.

The exit code is 0 if all pods have a place, 1 if some have none, 3 if the pods of an object cannot be
judged and all others have one, and 2 after an error. With --count max it is 0 however many pods fit.`

const simulateExample = `  # Would this fit today?
  kubectl tenon simulate -f train.yaml

  # Would one more of a pod that runs fit, and how many more?
  kubectl tenon simulate --pod ml/trainer-0
  kubectl tenon simulate --pod ml/trainer-0 --count max

  # Do the pods of a node find another place, when it fails or is drained?
  kubectl tenon simulate --without node-a

  # Would the pods that wait fit without a node?
  kubectl tenon simulate --pending --without node-a

  # How many nodes of a machine does this need? No cluster is asked
  kubectl tenon simulate -f train.yaml --machines gpu-8.txt=min --kubelet-config gpu-8.yaml --map

  # Would the pods that wait fit with two more nodes like gpu-1? How many such nodes does it take?
  kubectl tenon simulate --pending --add node/gpu-1=2
  kubectl tenon simulate --pending --add node/gpu-1=min

  # Would everything still fit if some nodes had another topology manager policy?
  kubectl tenon simulate -l pool=gpu --policy restricted --option prefer-closest-numa-nodes`

// simulateFlags are the choices of the command.
type simulateFlags struct {
	files, without, machines, configs []string
	recursive                         bool
	add, options                      []string
	newPolicy, selector               string // --policy, --selector
	pod, count, nodes                 string
	strategy                          string
	guarded                           guardFlags
	output                            output
	drawing                           mapFlags
	maps, pending, askServer          bool
	policy, scope                     string // of the kubelets of --machines, as the following ones
	cpuPolicy, memoryPolicy           string
	reservedCPUs, reservedMemory      string
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:     "simulate",
		Short:   "Say how many pods would fit, where, and what stops the next one",
		Long:    simulateLong,
		Example: simulateExample,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.simulate(c, f) },
	}
	c.SetFlagErrorFunc(kustomization)
	f.bind(a, c)
	return c
}

// kustomization adds to the error about kubectl's flag -k, which is missing here, a command line that does the same.
func kustomization(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedName() != "k" && unknown.GetSpecifiedName() != "kustomize" {
		return err
	}
	return fmt.Errorf("%w: pipe the manifests, kubectl kustomize DIR | kubectl tenon %s -f -", err, c.Name())
}

func (f *simulateFlags) bind(a *app, c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVarP(&f.files, "filename", "f", nil,
		filesHelp)
	s.BoolVarP(&f.recursive, "recursive", "R", false, recursiveHelp)
	s.StringVar(&f.pod, "pod", "",
		"Existing pod to replicate, [NAMESPACE/]NAME: one more of it, or as many as --count says.")
	s.StringVar(&f.count, "count", "",
		`Number of pods of each workload, in place of its replicas; "max" is as many as fit, each workload by itself.`)
	s.StringArrayVar(&f.without, "without", nil,
		"Node to take away. Its pods are placed again, before all others. This flag can be repeated.")
	s.BoolVar(&f.pending, "pending", false,
		"Place the pods that wait for a node, too, before those of files and after those of --without.")
	s.StringArrayVar(&f.machines, "machines", nil,
		`FILE[=COPIES] of a machine, as text or snapshot, in place of a cluster; "=min" is as few as it takes. `+
			"This flag can be repeated.")
	s.StringArrayVar(&f.add, "add", nil,
		`Nodes that join the cluster: node/NAME[=COUNT] like an existing node, or FILE[=COUNT] as of --machines; "=min" `+
			"is as few as it takes. This flag can be repeated.")
	s.StringVar(&f.newPolicy, "policy", "",
		"Topology manager policy of nodes of the cluster, in place of their own; their pods are placed again; see "+
			"--selector.")
	s.StringArrayVar(&f.options, "option", nil,
		"NAME[=VALUE], an option of the topology or CPU manager of nodes of the cluster, or scope=pod. This flag can be "+
			"repeated.")
	s.StringVarP(&f.selector, "selector", "l", "",
		"Label selector of the nodes that --policy and --option change; empty: all that have a layout.")
	s.StringArrayVar(&f.configs, "kubelet-config", nil,
		"File with the KubeletConfiguration of --machines or --add: one for all, or one for each.")
	s.StringVar(&f.nodes, "nodes", "",
		`File with the output of "kubectl get nodelayouts,layoutbases,nodes,pods -A -o json", in place of a cluster.`)
	s.StringVar(&f.policy, "topology-manager-policy", "",
		"Policy of the kubelets of --machines. Flags about the kubelet replace fields of the catalogue's configuration, and "+
			"exclude --kubelet-config.")
	s.StringVar(&f.scope, "topology-manager-scope", "", "Scope of the kubelets of --machines. One of: (container, pod).")
	s.StringVar(&f.cpuPolicy, "cpu-manager-policy", "",
		"CPU manager policy of the kubelets of --machines. One of: (none, static).")
	s.StringVar(&f.reservedCPUs, "reserved-cpus", "",
		"CPUs that the kubelets of --machines keep for the system, such as 0-1,64-65.")
	s.StringVar(&f.memoryPolicy, "memory-manager-policy", "",
		"Memory manager policy of the kubelets of --machines. One of: (None, Static).")
	s.StringVar(&f.reservedMemory, "reserved-memory", "",
		"Memory that the kubelets of --machines keep for the system, such as 0:memory=2Gi;1:memory=2Gi.")
	s.StringVar(&f.strategy, "strategy", score.Tenon.String(), "Strategy that scores nodes. One of: ("+
		strings.Join(score.Names(), ", ")+").")
	f.guarded.bind(c)
	s.BoolVar(&f.maps, "map", false, "Draw the nodes that change, before and after.")
	s.BoolVar(&f.drawing.all, "all", false, "Show all workloads, nodes and maps, however many there are.")
	f.output.bind(c, "json", "yaml", "name", "wide")
	for flag, values := range map[string][]string{"strategy": score.Names(),
		"topology-manager-scope": {"container", "pod"}, "cpu-manager-policy": {"none", "static"},
		"memory-manager-policy": {"None", "Static"}, "topology-manager-policy": policies} {
		complete(c, flag, choices(values...))
	}
	complete(c, "pod", a.podNames)
	complete(c, "without", a.nodeNames)
	complete(c, "policy", choices(policies...))
	complete(c, "option", choices(optionNames()...))
	complete(c, "machines", a.machineNames)
	complete(c, "add", a.joiners)
}

// check returns the rules, and the number of pods for each workload: 0 for the workload's own number, -1 for as many
// as fit. It returns an error for flags that contradict each other.
func (f *simulateFlags) check() (r whatif.Rules, count int, err error) {
	switch {
	case len(f.files) == 0 && f.pod == "" && len(f.without) == 0 && !f.pending && !f.alters():
		return r, 0, errors.New("say what to place: -f FILE, --pod NAME, --pending or --without NODE")
	case len(f.machines) > 0 && f.nodes != "":
		return r, 0, errors.New("--machines and --nodes cannot both be given: --add adds machines to nodes that are there")
	case len(f.machines) > 0 && (len(f.add) > 0 || f.alters() || f.selector != ""):
		return r, 0, errors.New("--machines are in place of a cluster: --add, --policy, --option and --selector need a " +
			"cluster or --nodes")
	case f.count == "max" && (f.alters() || slices.ContainsFunc(slices.Concat(f.machines, f.add), asksLeast)):
		return r, 0, errors.New("--count max cannot be given with --policy, --option or a machine with =min")
	case len(f.machines) > 0 && (f.pod != "" || len(f.without) > 0 || f.pending):
		return r, 0, errors.New("--machines have no pods: --pod, --pending and --without need a cluster or --nodes")
	case f.count == "max" && f.pending:
		return r, 0, errors.New("--count max and --pending cannot both be given")
	case f.count != "" && len(f.files) == 0 && f.pod == "":
		return r, 0, errors.New("--count needs -f FILE or --pod NAME")
	case f.count == "max" && len(f.without) > 0:
		return r, 0, errors.New("--count max and --without cannot both be given")
	}
	if err := f.drawing.check(nil); err != nil {
		return r, 0, err
	}
	if err := f.output.check(); err != nil {
		return r, 0, err
	}
	if count, err = f.counted(); err != nil {
		return r, 0, err
	}
	var ok bool
	if r.Strategy.Type, ok = score.ParseType(f.strategy); !ok {
		return r, 0, fmt.Errorf("--strategy %q is not known: want one of %s", f.strategy, strings.Join(score.Names(), ", "))
	}
	r.Guard, err = f.guarded.guard()
	return r, count, err
}

// counted returns the value of --count: 0 if it is not given, -1 for "max".
func (f *simulateFlags) counted() (int, error) {
	switch f.count {
	case "":
		return 0, nil
	case "max":
		return -1, nil
	}
	n, err := strconv.Atoi(f.count)
	if err != nil || n < 1 || n > maxSimulated {
		return 0, fmt.Errorf("--count %q: want 1..%d or max", f.count, maxSimulated)
	}
	return n, nil
}

// alters reports whether the flags change the rules of nodes of the cluster.
func (f *simulateFlags) alters() bool { return f.newPolicy != "" || len(f.options) > 0 }

func asksLeast(arg string) bool { return strings.HasSuffix(arg, "="+leastText) }

// simulate places the pods and writes the result. For a machine with =min it first finds the least number of nodes,
// and then places the pods on them. If some pods have no place, and the number of nodes of exactly one machine can
// vary, it also finds the number of nodes that all pods need. After a result in which pods have no place or are not
// judged, it returns errNoPlace or errNotJudged.
func (a *app) simulate(c *cobra.Command, f simulateFlags) error {
	f.drawing.color = a.color
	if _, _, err := f.check(); err != nil {
		return err
	}
	all, err := a.inputs(c, f)
	if err != nil {
		return err
	}
	name, copies := all.counts()
	least := slices.ContainsFunc(slices.Concat(f.machines, f.add), asksLeast)
	if least && copies == nil {
		return errors.New("=min is for one machine: the others need a number")
	}
	var needed *need
	if least {
		n, err := a.least(c, f, all)
		if err != nil {
			return err
		}
		all, needed = all.set(n.Nodes), &n
	}
	s, err := a.attempt(c, f, all, c.ErrOrStderr())
	if err != nil {
		return err
	}
	s.needed = needed
	if needed == nil && copies != nil && s.unplaced() > 0 && !s.countMax {
		n, err := a.least(c, f, all)
		if err != nil {
			return fmt.Errorf("find how many nodes of %s it takes: %w", name, err)
		}
		s.needed = &n
	}
	done, err := f.output.write(c.OutOrStdout(), s.document(), s.names())
	if !done {
		f.drawing.all = f.drawing.all || f.output.format == "wide"
		err = s.write(c.OutOrStdout(), f)
	}
	switch {
	case err != nil:
		return err
	case s.unplaced() > 0 && !s.countMax:
		return errNoPlace
	case len(s.notJudged) > 0:
		return errNotJudged
	}
	return nil
}

// attempt places the pods once, and returns the result. Warnings go to stderr.
func (a *app) attempt(c *cobra.Command, f simulateFlags, all *inputs, stderr io.Writer) (*simulation, error) {
	rules, count, err := f.check()
	if err != nil {
		return nil, err
	}
	s := &simulation{rules: rules, countMax: count < 0, problems: all.problems, source: all.source}
	altered := []string(nil)
	if s.stage, altered, err = a.vary(f, all); err != nil {
		return nil, err
	}
	for _, node := range altered {
		s.altered = append(s.altered, leaving{node: node})
	}
	if all.stage != nil {
		s.added = len(s.stage.Nodes()) - len(all.stage.Nodes())
	}
	tasks, err := a.tasks(f, s, all, count, stderr)
	if err != nil {
		return nil, err
	}
	s.problems = s.remaining()
	if s.partial = partialText(s.stage); s.partial != "" && (f.pending || len(s.without)+len(s.altered) > 0) {
		const moved = "pods that you may not list would move or wait, too, and are not placed"
		fmt.Fprintln(stderr, "Warning: "+moved)
		s.partial += "; " + moved
	}
	return s, s.run(tasks, progressOn(c.Context(), stderr))
}

// inputs reads the sources that the flags name.
func (a *app) inputs(c *cobra.Command, f simulateFlags) (*inputs, error) {
	out := &inputs{}
	if len(f.machines) > 0 {
		var err error
		out.source = "described"
		if out.machines, err = a.described(f, f.machines, c.ErrOrStderr()); err != nil {
			return nil, err
		}
	} else if err := a.readCluster(c, f, out); err != nil {
		return nil, err
	}
	files, err := expanded(f.files, f.recursive)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file.data, err = readBounded(file.name, "workload file", maxWorkload, c.InOrStdin()); err != nil {
			return nil, err
		}
		out.files = append(out.files, file)
	}
	return out, nil
}

// readCluster adds a cluster, and the nodes that join it, to out.
func (a *app) readCluster(c *cobra.Command, f simulateFlags, out *inputs) error {
	var listed []string
	for _, arg := range f.add {
		t, ok, err := twin(arg)
		switch {
		case err != nil:
			return fmt.Errorf("--add: %w", err)
		case ok:
			out.twins = append(out.twins, t)
		default:
			listed = append(listed, arg)
		}
	}
	if len(listed) == 0 && (len(f.configs) > 0 || f.kubeletFlags() != nil) {
		return errors.New("the kubelet's configuration is of --machines or --add, and there are none; --policy and " +
			"--option change nodes of the cluster")
	}
	var err error
	if len(listed) > 0 {
		out.machines, err = a.described(f, listed, c.ErrOrStderr())
		if none := (*noMachineError)(nil); errors.As(err, &none) {
			return fmt.Errorf("--add: %w; like a node of the cluster is node/%s", err, none.file)
		}
		if err != nil {
			return fmt.Errorf("--add: %w", err)
		}
	}
	out.stage, out.problems, out.source, err = a.stage(c, f)
	out.problems = sortedProblems(out.problems)
	return err
}

// stage returns the stage that the flags select. source describes it for people.
func (a *app) stage(c *cobra.Command, f simulateFlags) (s Stage, problems []document.Problem,
	source string, err error) {
	from := a.setup.Stages
	if f.nodes != "" {
		data, err := readBounded(f.nodes, "nodes file", maxExport, c.InOrStdin())
		if err != nil {
			return nil, nil, "", err
		}
		if s, problems, err = from.Export(data); err != nil {
			return nil, nil, "", fmt.Errorf("nodes file %s: %w", f.nodes, err)
		}
		return s, problems, "exported", nil
	}
	if f.pod != "" { // the namespace that it names is read
		if _, _, err := a.podName(f.pod); err != nil {
			return nil, nil, "", err
		}
	}
	if s, problems, a.kube.fileNamespace, err = from.Cluster(c.Context(), a.kube); err != nil {
		return nil, nil, "", fmt.Errorf("read the cluster: %w", err)
	}
	return s, problems, "the cluster", nil
}

// tasks returns the workloads to place, in order: first pods that lose their node, then the pods that wait (with
// --pending), pods from files, and copies of an existing pod. Warnings go to stderr, as kubectl's do.
func (a *app) tasks(f simulateFlags, s *simulation, all *inputs, count int, stderr io.Writer) (out []*task,
	err error) {
	for i := range s.altered {
		x := &s.altered[i]
		pods, ended, err := s.stage.On(x.node)
		if err != nil {
			return nil, err
		}
		x.moved, x.ended = len(pods), ended
		for _, w := range pods {
			out = append(out, &task{workload: w, wanted: w.Count, from: x.node})
		}
	}
	for _, node := range slices.Compact(slices.Sorted(slices.Values(nodeNamesIn(f.without)))) {
		pods, ended, err := s.stage.On(node)
		if err != nil {
			return nil, fmt.Errorf("--without: %w", err)
		}
		s.without = append(s.without, leaving{node, len(pods), ended})
		for _, w := range pods {
			out = append(out, &task{workload: w, wanted: w.Count, from: node})
		}
	}
	if s.pending = f.pending; f.pending {
		out = append(out, waitingTasks(s.stage, stderr)...)
	}
	namespace := cmp.Or(a.kube.Namespace(), a.kube.fileNamespace, "default")
	ofFiles, groups, err := s.fileTasks(all.files, namespace, stderr)
	if err != nil {
		return nil, err
	}
	out = append(out, ofFiles...)
	if f.pod != "" {
		ns, name, err := a.podName(f.pod)
		if err != nil {
			return nil, err
		}
		w, err := s.stage.Like(cmp.Or(ns, namespace), name)
		if err != nil {
			return nil, fmt.Errorf("--pod: %w", err)
		}
		out = append(out, &task{workload: w, wanted: 1})
	}
	warnUnjudged(stderr, out)
	if err := setCounts(out, count); err != nil {
		return nil, err
	}
	s.gather(groups, ofFiles)
	return out, nil
}

// fileTasks returns the workloads and the groups of files. Files without any workloads are an error.
func (s *simulation) fileTasks(files []workloadFile, namespace string, stderr io.Writer) (out []*task,
	groups []whatif.Group, err error) {
	for _, file := range files {
		workloads, left, err := file.workloads(s.stage, namespace)
		if err != nil {
			return nil, nil, err
		}
		warnLeft(stderr, file.name, left)
		s.notJudged = append(s.notJudged, left.NotJudged...)
		groups = append(groups, left.Groups...)
		for _, w := range workloads {
			if w.Refused != "" {
				fmt.Fprintf(stderr, "Warning: %s: the API server refuses %s %s/%s: %s\n", file.name, w.Kind, w.Namespace, w.Name,
					w.Refused)
			}
			out = append(out, &task{workload: w, wanted: w.Count})
		}
	}
	if len(files) > 0 && len(out) == 0 {
		return nil, nil, errNoWorkloads
	}
	return out, groups, nil
}

// warnLeft warns of the objects of a file whose pods are not placed.
func warnLeft(w io.Writer, file string, left whatif.Left) {
	for _, l := range left.NoPods {
		fmt.Fprintf(w, "Warning: %s, %s has no pods that are known here\n", file, l)
	}
	for _, l := range left.NotJudged {
		fmt.Fprintf(w, "Warning: %s, not judged: %s\n", file, l)
	}
}

// setCounts sets the number of pods of each task by --count. More than maxSimulated pods together are an error.
func setCounts(tasks []*task, count int) error {
	total := 0
	for _, t := range tasks {
		switch {
		case t.from != "" || t.waiting || count == 0 || t.workload.PerNode:
		case count < 0:
			t.wanted, t.countMax = maxSimulated, true
		default:
			t.wanted, t.workload.Count = count, count
		}
		if t.countMax {
			t.workload.Count = 0 // their names are numbered
			continue
		}
		if total += t.wanted; total > maxSimulated {
			return fmt.Errorf("more than %d pods", maxSimulated)
		}
	}
	return nil
}

// warnUnjudged warns of each demand of the workloads that is not judged, once.
func warnUnjudged(w io.Writer, tasks []*task) {
	asked := map[string][]string{}
	var order []string
	for _, t := range tasks {
		for _, what := range t.workload.Unjudged {
			if asked[what] == nil {
				order = append(order, what)
			}
			asked[what] = append(asked[what], t.workload.String())
		}
	}
	for _, what := range order {
		who := asked[what][0]
		if more := len(asked[what]) - 1; more > 0 {
			who = fmt.Sprintf("%s and %d more", who, more)
		}
		fmt.Fprintf(w, "Warning: %s: %s not judged\n", who, what)
	}
	warnRules(w, tasks)
}

// readBounded reads a file, or stdin for "-". It returns an error if there are more than limit bytes. what describes
// the file in errors.
func readBounded(path, what string, limit int64, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", what, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", what, path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s %s is larger than %d bytes", what, path, limit)
	}
	return data, nil
}
