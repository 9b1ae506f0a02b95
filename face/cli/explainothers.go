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

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
)

// This file explains nodes and the pods of workloads. Like kubectl, it takes TYPE/NAME.

const explainLong = `Say where a pod fits and why, or what it holds. TYPE is pod, node, deployment, statefulset, daemonset,
replicaset, job or cronjob, kubectl's short form of one, or a kind of an operator: vcjob, jobset, lws, mpijob,
pytorchjob, tfjob, xgboostjob, paddlejob, jaxjob, trainjob, raycluster, rayjob, vm or vmi; or podgroup, a
group of pods of Kubernetes' Workload API.

Of a node the command draws the map and lists what its pods hold. Of a workload it lists the pods, and
explains one that waits or that a kubelet has refused. If several wait, it shows whether they fit at the same
time, and which of them have no place beside the others.`

const explainExample = `  kubectl tenon explain pod/trainer-0
  kubectl tenon explain node/node-a
  kubectl tenon explain deploy/trainer -n ml`

// explainFlags are the choices of explain.
type explainFlags struct {
	all    bool
	output output
}

func (f *explainFlags) bind(c *cobra.Command) {
	c.Flags().BoolVar(&f.all, "all", false,
		"For a bound pod, show the other nodes, too. Show every node, however many there are.")
	f.output.bind(c, "json", "yaml", "name", "wide")
}

// workloadLister is a [Cluster] that also finds the pods of workloads.
type workloadLister interface {
	// PodsOf returns the pods of a workload. kind is one of the keys of workloadTypes.
	PodsOf(ctx context.Context, kind, namespace, name string) ([]view.Pod, error)
}

// workloadTypes are the kinds of workloads, each with the other names that kubectl has for it.
var workloadTypes = map[string][]string{
	"deployment":  {"deployments", "deploy"},
	"statefulset": {"statefulsets", "sts"},
	"daemonset":   {"daemonsets", "ds"},
	"replicaset":  {"replicasets", "rs"},
	"job":         {"jobs"},
	"cronjob":     {"cronjobs", "cj"},
	// Kinds that operators define. The pods of such an object have its name in a label.
	"vcjob":      {"vcjobs", "vj", "jobs.batch.volcano.sh"},
	"jobset":     {"jobsets"},
	"lws":        {"leaderworkerset", "leaderworkersets"},
	"mpijob":     {"mpijobs"},
	"pytorchjob": {"pytorchjobs"},
	"tfjob":      {"tfjobs"},
	"xgboostjob": {"xgboostjobs"},
	"paddlejob":  {"paddlejobs"},
	"jaxjob":     {"jaxjobs"},
	"trainjob":   {"trainjobs"},
	"raycluster": {"rayclusters"},
	"rayjob":     {"rayjobs"},
	"vm":         {"vms", "virtualmachine", "virtualmachines"},
	"vmi":        {"vmis", "virtualmachineinstance", "virtualmachineinstances"},
	// A group of the Workload API, whose pods name it.
	"podgroup": {"podgroups", "pg"},
}

// explainOthers lets the command explain take TYPE/NAME, and adds subcommands for nodes and workloads.
func (a *app) explainOthers(group *cobra.Command) {
	var f explainFlags
	f.bind(group)
	group.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 && !strings.Contains(args[0], "/") { // a known type would have been a command
			return unknownType(args[0])
		}
		return cobra.MaximumNArgs(1)(c, args)
	}
	group.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New(`say what to explain, for example "kubectl tenon explain pod ml/trainer-0"`)
		}
		return a.explainReference(c, f, args[0])
	}
	group.ValidArgsFunction = firstArgOnly(a.references)
	node := &cobra.Command{
		Use:     "node NAME",
		Aliases: []string{"nodes", "no"},
		Short:   "Draw a node, and list what its pods hold",
		Example: "  kubectl tenon explain node node-a",
		Args:    oneArg,
	}
	var onNode explainFlags
	onNode.bind(node)
	node.RunE = func(c *cobra.Command, args []string) error { return a.explainNode(c, onNode, args[0]) }
	node.ValidArgsFunction = firstArgOnly(a.nodeNames)
	group.AddCommand(node)
	for kind, aliases := range workloadTypes {
		c := &cobra.Command{
			Use:     kind + " [NAMESPACE/]NAME",
			Aliases: aliases,
			Short:   "List the pods of a " + kind + ", and explain one that waits",
			Example: "  kubectl tenon explain " + kind + " ml/trainer",
			Args:    oneArg,
		}
		own := &explainFlags{}
		own.bind(c)
		c.RunE = func(c *cobra.Command, args []string) error { return a.explainWorkload(c, *own, kind, args[0]) }
		c.ValidArgsFunction = firstArgOnly(a.workloadNames(kind))
		group.AddCommand(c)
	}
}

// explainReference explains TYPE/NAME.
func (a *app) explainReference(c *cobra.Command, f explainFlags, ref string) error {
	kind, name, ok := strings.Cut(ref, "/")
	if !ok {
		return fmt.Errorf("%q: want TYPE/NAME, for example pod/trainer-0", ref)
	}
	switch {
	case slices.Contains(podTypes, kind):
		return a.explainPod(c, f, name)
	case slices.Contains(nodeTypes, kind):
		return a.explainNode(c, f, name)
	}
	if known := workloadType(kind); known != "" {
		return a.explainWorkload(c, f, known, name)
	}
	return unknownType(kind)
}

// unknownType returns the error about a type that cannot be explained.
func unknownType(kind string) error {
	known := slices.Concat(podTypes, nodeTypes)
	for name, aliases := range workloadTypes {
		known = append(append(known, name), aliases...)
	}
	if near := printable.Nearest(kind, known); near != "" {
		return fmt.Errorf("%q is no type that can be explained; %s may be meant", kind, near)
	}
	return fmt.Errorf("%q is no type that can be explained: want pod, node, deployment, statefulset, daemonset, "+
		"replicaset, job, cronjob or a kind of an operator; a pod of another namespace is pod/NAME -n NAMESPACE, or pod "+
		"NAMESPACE/NAME", kind)
}

// references completes TYPE/NAME for pods and nodes.
func (a *app) references(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	kind, name, both := strings.Cut(begun, "/")
	var names []string
	directive := cobra.ShellCompDirectiveNoFileComp
	switch workload := workloadType(kind); {
	case !both:
		return beginning([]string{"deployment/", "job/", "node/", "pod/", "statefulset/"}, begun),
			cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	case slices.Contains(podTypes, kind):
		names, directive = a.podNames(c, nil, name)
	case slices.Contains(nodeTypes, kind):
		names, directive = a.nodeNames(c, nil, name)
	case workload != "":
		names, directive = a.workloadNames(workload)(c, nil, name)
	}
	return prefixed(kind+"/", names), directive
}

// workloadType returns the kind of workloads with a name that kubectl takes for it; "" if there is none.
func workloadType(name string) string {
	for known, aliases := range workloadTypes {
		if name == known || slices.Contains(aliases, name) {
			return known
		}
	}
	return ""
}

// explainNode draws a node and lists what its pods hold.
func (a *app) explainNode(c *cobra.Command, f explainFlags, name string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	w, name := c.OutOrStdout(), nodeName(name)
	if err := a.drawMap(c.Context(), c, w, mapFlags{output: f.output, color: a.color}, []string{name}); err != nil {
		return err
	}
	if f.output.format != "" {
		return nil
	}
	l, err := a.alignments(c.Context(), podsFlags{everywhere: true, node: name}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return l.write(w, podsFlags{})
}

// workloadExplanation has the pods of a workload, and the explanation of one of them.
type workloadExplanation struct {
	kind, namespace, name string
	pods                  []view.Pod
	list                  *alignments
	gang                  *gangNeeds   // nil unless the workload is a group of pods
	together              *together    // nil if fewer than two pods wait
	one                   *explanation // nil if no pod waits or was refused
	refused               string       // a sentence about a pod whose containers cannot be read
}

// explainWorkload lists the pods of a workload, and explains the first one that waits or was refused.
func (a *app) explainWorkload(c *cobra.Command, f explainFlags, kind, ref string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	namespace, name, err := a.podName(ref)
	if err != nil {
		return err
	}
	cluster, chosen, err := a.connect()
	if err != nil {
		return err
	}
	lister, ok := cluster.(workloadLister)
	if !ok {
		return fmt.Errorf("the pods of a %s cannot be read", kind)
	}
	x := workloadExplanation{kind: kind, namespace: cmp.Or(namespace, chosen, "default"), name: name}
	if x.pods, err = lister.PodsOf(c.Context(), kind, x.namespace, name); err != nil {
		return a.noWorkload(c.Context(), kind, x.namespace, name, err)
	}
	nodes, problems, err := cluster.Nodes(c.Context())
	if err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	slices.SortFunc(x.pods, func(a, b view.Pod) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	x.list = alignmentsOf(sortedNodes(nodes), x.pods)
	if err := x.explainOne(c.Context(), cluster, nodes, problems); err != nil {
		return err
	}
	if err := x.asOne(c.Context(), cluster, nodes); err != nil {
		return err
	}
	claims, err := claimsOf(c.Context(), cluster, x.pods...)
	if err != nil {
		return err
	}
	x.list.addClaims(nodes, x.pods, claims)
	if x.one != nil {
		x.one.claims = claims.Pod(x.one.pod.ID.UID)
		if kind == podGroupKind {
			x.one.pod.Group = "" // what is written about the group comes first
		}
	}
	if done, err := f.output.write(c.OutOrStdout(), x.document(), x.names()); done {
		return err
	}
	return x.write(c.OutOrStdout(), f)
}

// explainOne explains the first pod that waits and that Tenon's scheduler refuses, else the first that waits, else the
// first that a kubelet has refused.
func (x *workloadExplanation) explainOne(ctx context.Context, c Cluster, nodes []*state.Node,
	problems []document.Problem) (err error) {
	first := func(ok func(p view.Pod) bool) {
		i := slices.IndexFunc(x.pods, ok)
		if i < 0 || x.one != nil {
			return
		}
		// Read the pod again: PodsOf does not read what the other filters of the scheduler look at.
		p, unread := c.Pod(ctx, x.pods[i].ID.Namespace, x.pods[i].ID.Name)
		switch {
		case unread == nil:
			x.one, err = newExplanation(p, nodes, problems), nil
		case unread.Error() == x.pods[i].Refused:
			x.refused = fmt.Sprintf("The pods that wait cannot be judged: %s.", unread)
		default:
			err = unread
		}
	}
	first(func(p view.Pod) bool { return p.Node == "" && p.Refused != "" })
	first(func(p view.Pod) bool { return p.Node == "" && p.Refused == "" }) // containers of the other may be unreadable
	if x.one != nil {
		return nil
	}
	for _, p := range x.pods {
		if p.Node == "" || p.Pod == nil {
			continue
		}
		if e := newExplanation(p, nodes, problems); e.refused() {
			x.one = e
			break
		}
	}
	return err
}

// asOne finds out what the pods need as a group, and whether the waiting ones fit at the same time.
func (x *workloadExplanation) asOne(ctx context.Context, c Cluster, nodes []*state.Node) (err error) {
	if x.kind == podGroupKind {
		x.gang = readGang(ctx, c, x.namespace, x.name, x.pods)
	}
	x.together, err = findTogether(ctx, c, x.pods, x.gang.lacks(), sortedNodes(nodes))
	return err
}

// podGroupKind is the kind of groups of the Workload API among the types of workloads.
const podGroupKind = "podgroup"

// noWorkload adds to a NotFound error about a workload which one may be meant. It returns other errors unchanged.
func (a *app) noWorkload(ctx context.Context, kind, namespace, name string, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	known := a.names(func(n namer, _ string) ([]string, error) { return n.WorkloadNames(ctx, kind, namespace) })
	return fmt.Errorf("%w%s", err, printable.Instead(name, known))
}

func (x *workloadExplanation) names() (out []string) {
	for _, p := range x.pods {
		out = append(out, "pod/"+p.ID.Name)
	}
	return out
}

func (x *workloadExplanation) write(w io.Writer, f explainFlags) error {
	if len(x.pods) == 0 {
		_, err := fmt.Fprintf(w, "%s %s/%s has no pods; kubectl tenon simulate -f FILE says where they would fit.\n",
			x.kind, x.namespace, x.name)
		return err
	}
	t := table{heads: []string{"POD", "STATUS", "NODE", "NUMA", "ALIGNED"}}
	for _, p := range x.pods {
		t.rows = append(t.rows, x.row(p))
	}
	if err := t.write(w, f.output.format == "wide"); err != nil || x.one == nil && x.refused == "" {
		return err
	}
	fmt.Fprintln(w)
	text := x.gang.text()
	if x.gang == nil && x.one == nil {
		text = x.refused
	}
	if text != "" || x.together != nil {
		b := bufio.NewWriter(w)
		if text != "" {
			writeWrapped(b, "", text)
		}
		if x.together != nil {
			writeWrapped(b, "", x.together.text())
		}
		if x.one != nil {
			fmt.Fprintln(b)
		}
		if err := b.Flush(); err != nil {
			return fmt.Errorf("write explanation of %s %s/%s: %w", x.kind, x.namespace, x.name, err)
		}
	}
	if x.one == nil {
		return nil
	}
	return x.one.write(w, f.all || f.output.format == "wide")
}

func (x *workloadExplanation) row(p view.Pod) []string {
	row := []string{p.ID.Name, cmp.Or(p.Reason, p.Phase), cmp.Or(p.Node, "-"), "-", "-"}
	for _, l := range x.list.pods {
		switch {
		case l.entry.Pod.UID != p.ID.UID:
		case len(l.units) == 0:
			row[3], row[4] = podNUMAs(l.claims), besideText(l.claims, l.node, &l.entry)
		default:
			row[3] = spread(l.node, l.entry.Holdings...)
			row[4] = yesNo(!l.misaligned() && l.claims.Apart() == 0)
		}
	}
	return row
}

// workloadExplanationDocument is what explain writes of a workload with "-o json" and "-o yaml".
type workloadExplanationDocument struct {
	Kind      string                `json:"kind"` // "WorkloadExplanation"
	Type      string                `json:"type"`
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Pods      []workloadPodDocument `json:"pods"`
	// Gang is what a PodGroup needs; absent for other workloads.
	Gang *gangNeeds `json:"gang,omitempty"`
	// Together is whether the pods that wait fit at the same time; absent if fewer than two wait.
	Together *together `json:"together,omitempty"`
	// Explained is the first pod that waits or that a kubelet has refused.
	Explained *explanationDocument `json:"explained,omitempty"`
	Holding   []alignmentDocument  `json:"holding"`
}

type workloadPodDocument struct {
	document.Pod
	Phase  string `json:"phase"`
	Reason string `json:"reason,omitempty"`
	Node   string `json:"node,omitempty"`
}

func (x *workloadExplanation) document() workloadExplanationDocument {
	d := workloadExplanationDocument{Kind: "WorkloadExplanation", Type: x.kind, Namespace: x.namespace, Name: x.name,
		Gang: x.gang, Together: x.together, Holding: x.list.document().Pods,
		Pods: document.Each(x.pods, func(p view.Pod) workloadPodDocument {
			return workloadPodDocument{document.PodOf(p.ID), p.Phase, p.Reason, p.Node}
		})}
	if x.one != nil {
		one := x.one.document()
		d.Explained = &one
	}
	return d
}
