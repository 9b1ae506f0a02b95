package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file shows the effects of a change of kubelets' configuration before the change is made.

const kubeletPlanLong = `Say what a change of kubelets' configuration does, before you make it. Nothing is changed.

For each node the command says what of the configuration goes and comes, whether the kubelet accepts it, which
pods that run now the node would refuse when they start again and where these would go, which state files have
to be removed, how many pods of the usual shapes fit more or less, and in which order nodes are changed best.
It computes what the kubelet's managers do, as for a pod that waits.

The exit code is 0 if every kubelet accepts the change and every pod has a place afterwards, 1 if not, 2
after an error, and 3 where nothing speaks against the change and something could not be read, which the
output names.`

const kubeletPlanExample = `  kubectl tenon kubelet plan -l pool=gpu --policy restricted
  kubectl tenon kubelet plan --policy single-numa-node --option scope=pod --reserved-cpus 0-1,64-65
  kubectl tenon kubelet plan --cpu-manager-policy none --memory-manager-policy None -o json > plan.json`

// KubeletPlanner computes the effects of a change of kubelets' configuration on the cluster of a kubeconfig.
type KubeletPlanner func(ctx context.Context, k Kubeconfig, v whatif.Variation) (document.KubeletPlan, error)

// kubeletFlags are the choices of the command.
type kubeletFlags struct {
	selector, policy, cpuPolicy, memoryPolicy string
	reservedCPUs, reservedMemory              string
	options                                   []string
	output                                    output
}

func (a *app) kubeletCommand() *cobra.Command {
	group := &cobra.Command{
		Use:     "kubelet",
		Short:   "Plan a change of kubelets' configuration, and carry it out",
		Long:    "Plan a change of kubelets' configuration, and carry it out.",
		Example: kubeletPlanExample,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New(`say what to do, for example "kubectl tenon kubelet plan --policy restricted"`)
		},
	}
	var f kubeletFlags
	c := &cobra.Command{
		Use:     "plan",
		Short:   "Say what a change of kubelets' configuration does, before it is made",
		Long:    kubeletPlanLong,
		Example: kubeletPlanExample,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.kubeletPlan(c, f) },
	}
	s := c.Flags()
	s.StringVarP(&f.selector, "selector", "l", "", "Label selector of the nodes; empty: all that have a layout.")
	s.StringVar(&f.policy, "policy", "", "Topology manager policy. One of: (none, best-effort, restricted, "+
		"single-numa-node).")
	s.StringArrayVar(&f.options, "option", nil,
		"NAME[=VALUE], an option of the topology or CPU manager, or scope=pod. This flag can be repeated.")
	s.StringVar(&f.cpuPolicy, "cpu-manager-policy", "", "CPU manager policy. One of: (none, static).")
	s.StringVar(&f.memoryPolicy, "memory-manager-policy", "", "Memory manager policy. One of: (None, Static).")
	s.StringVar(&f.reservedCPUs, "reserved-cpus", "", "CPUs that are kept for the system, such as 0-1,64-65.")
	s.StringVar(&f.reservedMemory, "reserved-memory", "",
		"Memory that is kept for the system, such as 0:memory=2Gi;1:memory=2Gi.")
	f.output.bind(c, "json", "yaml", "wide")
	for flag, values := range map[string][]string{"policy": policies,
		"cpu-manager-policy": {"none", "static"}, "memory-manager-policy": {"None", "Static"}} {
		complete(c, flag, choices(values...))
	}
	complete(c, "option", choices(optionNames()...))
	group.AddCommand(c, a.kubeletApplyCommand())
	return group
}

// kubeletPlan computes and writes the plan. It returns errNoPlace after a plan that is not harmless, and errUnread
// after a harmless one that leaves something out of account.
func (a *app) kubeletPlan(c *cobra.Command, f kubeletFlags) error {
	if err := f.output.check(); err != nil {
		return err
	}
	v, err := f.variation()
	if err != nil {
		return err
	}
	if a.setup.KubeletPlan == nil {
		return errors.New("this program plans no changes of kubelets")
	}
	p, err := a.setup.KubeletPlan(c.Context(), a.kube, v)
	if err != nil {
		return err
	}
	done, err := f.output.write(c.OutOrStdout(), p, nil)
	if !done {
		err = writeKubeletPlan(c.OutOrStdout(), p, f.output.format == "wide")
	}
	switch {
	case err != nil:
		return err
	case !harmless(p):
		return errNoPlace
	case len(p.Limits) > 0:
		return errUnread
	}
	return nil
}

// harmless reports whether all kubelets accept the change, and all pods that their nodes would refuse have another
// place.
func harmless(p document.KubeletPlan) bool {
	return !slices.ContainsFunc(p.Nodes, func(n document.KubeletPlanNode) bool { return len(n.Errors) > 0 }) &&
		!slices.ContainsFunc(p.Moves, func(m document.PlannedMove) bool { return m.To == "" })
}

// KubeletChange is a change of kubelets' configuration. The values are as in the flags of "kubelet plan"; "" changes
// nothing.
type KubeletChange struct {
	Selector, Policy             string
	Options                      []string
	CPUManager, MemoryManager    string
	ReservedCPUs, ReservedMemory string
}

// Empty reports whether the change sets no value. A selector alone changes nothing.
func (k KubeletChange) Empty() bool {
	return k.Policy == "" && len(k.Options) == 0 && k.CPUManager == "" && k.MemoryManager == "" &&
		k.ReservedCPUs == "" && k.ReservedMemory == ""
}

// Variation returns the change as a variation of a cluster; an error for a value that is not valid.
func (k KubeletChange) Variation() (whatif.Variation, error) {
	return kubeletFlags{selector: k.Selector, policy: k.Policy, options: k.Options, cpuPolicy: k.CPUManager,
		memoryPolicy: k.MemoryManager, reservedCPUs: k.ReservedCPUs, reservedMemory: k.ReservedMemory}.variation()
}

// variation returns the function that changes the rules of nodes as the flags describe. It returns an error if no
// flag changes anything, or for a value that is not valid.
func (f kubeletFlags) variation() (whatif.Variation, error) {
	var changes []func(*place.Rules) error
	set := func(do func(*place.Rules)) {
		changes = append(changes, func(r *place.Rules) error { do(r); return nil })
	}
	switch f.cpuPolicy {
	case "":
	case "none":
		set(func(r *place.Rules) { r.CPU = place.CPURules{Reserved: r.CPU.Reserved} })
	case "static":
		set(func(r *place.Rules) { r.CPU.Static = true })
	default:
		return whatif.Variation{}, fmt.Errorf("--cpu-manager-policy %q is not known: want none or static",
			f.cpuPolicy)
	}
	switch f.memoryPolicy {
	case "":
	case "None":
		set(func(r *place.Rules) { r.Memory = place.MemoryRules{} })
	case "Static":
		set(func(r *place.Rules) { r.Memory.Static = true })
	default:
		return whatif.Variation{}, fmt.Errorf("--memory-manager-policy %q is not known: want None or Static",
			f.memoryPolicy)
	}
	if f.reservedCPUs != "" {
		cpus, err := idset.Parse[idset.CPU](f.reservedCPUs)
		if err != nil {
			return whatif.Variation{}, fmt.Errorf("--reserved-cpus %q: %w", f.reservedCPUs, err)
		}
		set(func(r *place.Rules) { r.CPU.Reserved = cpus })
	}
	if f.reservedMemory != "" {
		reserved, err := reservations(f.reservedMemory)
		if err != nil {
			return whatif.Variation{}, err
		}
		set(func(r *place.Rules) { r.Memory.Reserved = reserved })
	}
	if f.policy != "" || len(f.options) > 0 {
		alter, err := (simulateFlags{newPolicy: f.policy, options: f.options}).alter()
		if err != nil {
			return whatif.Variation{}, err
		}
		changes = append(changes, func(r *place.Rules) (err error) { *r, err = alter(*r); return err })
	}
	if len(changes) == 0 {
		return whatif.Variation{}, errors.New("say what to change: --policy, --option, --cpu-manager-policy, " +
			"--memory-manager-policy, --reserved-cpus or --reserved-memory")
	}
	return whatif.Variation{Selector: f.selector, Alter: func(r place.Rules) (place.Rules, error) {
		for _, change := range changes {
			if err := change(&r); err != nil {
				return r, err
			}
		}
		return r, nil
	}}, nil
}

// reservations parses --reserved-memory. The result is in ascending order of NUMA node and kind.
func reservations(text string) (out []place.Reserved, err error) {
	numas, _, err := reservedMemory(text)
	if err != nil {
		return nil, err
	}
	for _, numa := range numas {
		id, _ := numa["numaNode"].(int)
		limits, _ := numa["limits"].(map[string]string)
		for kind, amount := range limits {
			q, err := resource.ParseQuantity(amount)
			if err != nil {
				return nil, fmt.Errorf("--reserved-memory: %q: %w", amount, err)
			}
			out = append(out, place.Reserved{NUMA: idset.NUMA(id), Kind: kind, Bytes: q.Value()})
		}
	}
	slices.SortFunc(out, func(a, b place.Reserved) int {
		if a.NUMA != b.NUMA {
			return int(a.NUMA) - int(b.NUMA)
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	return out, nil
}

func writeKubeletPlan(w io.Writer, p document.KubeletPlan, all bool) error {
	b := bufio.NewWriter(w)
	writeDiffs(b, p)
	t := table{heads: []string{"ORDER", "NODE", "START AGAIN", "REFUSED", "WAIT MEANWHILE", "REMOVE"}}
	for i, n := range p.Nodes {
		starts := 0
		for _, pod := range n.Pods {
			if pod.Starts {
				starts++
			}
		}
		files := "-"
		if len(n.StateFiles) > 0 {
			files = strings.Join(n.StateFiles, joint)
		}
		t.rows = append(t.rows, []string{fmt.Sprint(i + 1), n.Name, fmt.Sprint(starts), fmt.Sprint(len(n.Pods) - starts),
			fmt.Sprintf("%d of %d", n.Waiting, n.Evicted), files})
	}
	if err := errors.Join(b.Flush(), t.write(w, all)); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		if len(n.Blocked) > 0 {
			writeWrapped(b, "", fmt.Sprintf("Node %s cannot be drained now: %s allows no eviction.", n.Name,
				strings.Join(n.Blocked, ", ")))
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	refused := slices.ContainsFunc(p.Nodes, func(n document.KubeletPlanNode) bool { return len(n.Errors) > 0 })
	if !refused || len(p.Moves) > 0 { // a kubelet that does not start admits no pods, so there is nothing to show
		if err := writeMoves(w, p, all); err != nil {
			return err
		}
	}
	if len(p.Shapes) > 0 {
		fmt.Fprintln(b, "\nRoom on these nodes if they were empty:")
		for _, s := range p.Shapes {
			writeWrapped(b, "  ", fmt.Sprintf("%s of %s before, %d after", podsText(s.Before), s.Shape, s.After))
		}
	}
	if len(p.Unchanged) > 0 {
		fmt.Fprintln(b)
		writeWrapped(b, "", "Configured so already: "+strings.Join(p.Unchanged, ", ")+".")
	}
	for _, l := range p.Limits {
		writeWrapped(b, "", fmt.Sprintf("Not looked at: %s: %s.", l.Resource, l.Reason))
	}
	return b.Flush()
}

// writeDiffs writes each change of a configuration once, with the names of the nodes that get it, why their kubelets
// would not start, and warnings.
func writeDiffs(b *bufio.Writer, p document.KubeletPlan) {
	var keys []string
	on := map[string][]string{}
	for _, n := range p.Nodes {
		var lines strings.Builder
		to := bufio.NewWriter(&lines)
		for _, d := range n.Diff {
			writeWrapped(to, "  ", strings.ReplaceAll(d, "},{", "}, {"))
		}
		for _, e := range n.Errors {
			writeWrapped(to, "  ", "The kubelet does not accept it: "+e+".")
		}
		for _, text := range n.Warnings {
			writeWrapped(to, "  ", "Warning: "+text+".")
		}
		_ = to.Flush() // a strings.Builder does not fail
		text := lines.String()
		if on[text] == nil {
			keys = append(keys, text)
		}
		on[text] = append(on[text], n.Name)
	}
	for _, text := range keys {
		writeWrapped(b, "", choose(len(on[text]), "Node ", "Nodes ")+strings.Join(on[text], ", ")+":")
		fmt.Fprintln(b, text)
	}
}

// fewMoves is the number of moves that are shown without "-o wide".
const fewMoves = 20

func writeMoves(w io.Writer, p document.KubeletPlan, all bool) error {
	moves := p.Moves
	if len(moves) == 0 {
		which := "runs there now"
		if slices.ContainsFunc(p.Limits, func(l document.Limit) bool { return l.Resource == "pods" }) {
			which = "could be read"
		}
		_, err := fmt.Fprintf(w, "\nEvery pod that %s would start again.\n", which)
		return err
	}
	fmt.Fprintln(w)
	t := table{heads: []string{"REFUSED POD", "NODE", "GOES TO", "BECAUSE"}}
	shown := len(moves)
	if !all {
		shown = min(fewMoves, shown)
	}
	for _, m := range moves[:shown] {
		to := m.To
		if to == "" {
			to = "nowhere"
		}
		t.rows = append(t.rows, []string{m.Namespace + "/" + m.Name, m.From, to, m.Why})
	}
	if err := t.write(w, all); err != nil {
		return err
	}
	if more := len(moves) - shown; more > 0 {
		fmt.Fprintf(w, "... and %d more (-o wide shows them)\n", more)
	}
	return nil
}
