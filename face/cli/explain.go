package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

const explainPodExample = `  # Why does this pod wait, and where would it fit?
  kubectl tenon explain pod ml/trainer-0
  kubectl tenon explain pod -n ml trainer-0

  # What does a running pod hold, and how would it fare on the other nodes?
  kubectl tenon explain pod ml/trainer-0 --all

  # For programs
  kubectl tenon explain pod ml/trainer-0 -o json`

func (a *app) explainCommand() *cobra.Command {
	group := &cobra.Command{
		Use:     "explain TYPE/NAME",
		Short:   "Say where a pod fits and why, or what it holds",
		Long:    explainLong,
		Example: explainExample,
	}
	var f explainFlags
	pod := &cobra.Command{
		Use:     "pod [NAMESPACE/]NAME",
		Aliases: []string{"pods", "po"},
		Short:   "Say where a pod fits and why, or what it holds",
		Long: `Say where a pod fits and why, or what it holds.

For a pod that waits, the first sentence says why: never here, not now, not without a change, a wrong name, or
not yet tried. The scheduler's event, the command check and the console say the same. Then follow where the pod
fits and which CPUs, memory and devices it would get there, whom to wait for, and the other nodes in groups with
the same reasons and remedies; nodes that can be freed come first. Without --all the answer has at most 60 lines.
For a bound pod the command shows what the pod holds.

It judges what simulate judges: taints, cordons, node selector, node and pod affinity, topology spread,
host ports, plain amounts and NUMA alignment. It names what else the pod asks for and nothing here judges. A node that
has a NodeResourceTopology and no layout is judged by those amounts, and marked coarse.

With -o name the command prints the nodes on which the pod fits.`,
		Example: explainPodExample,
		Args:    oneArg,
		RunE:    func(c *cobra.Command, args []string) error { return a.explainPod(c, f, args[0]) },
	}
	f.bind(pod)
	pod.ValidArgsFunction = firstArgOnly(a.podNames)
	group.AddCommand(pod)
	a.explainOthers(group)
	return group
}

// explainPod explains one pod.
func (a *app) explainPod(c *cobra.Command, f explainFlags, ref string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	e, err := a.explain(c.Context(), ref)
	if err != nil {
		return err
	}
	if done, err := f.output.write(c.OutOrStdout(), e.document(), e.fitting()); done {
		return err
	}
	return e.write(c.OutOrStdout(), f.all || f.output.format == "wide")
}

// explanation is what the command explain shows of one pod.
type explanation struct {
	pod view.Pod
	// home is the node to which the pod is bound; nil if the pod is not bound or the node's layout is not known.
	// holds is what the pod holds there; nil if nothing is known or held.
	home  *state.Node
	holds *state.Entry
	// together is the node of the pods that the pod has to be together with, or "".
	together string
	// verdicts are the verdicts on all nodes except the one where the pod holds something, in order of the nodes'
	// names.
	verdicts []verdictOn
	// problems are the nodes without known data, unless another reason excludes the pod from them.
	problems []document.Problem
	partial  string // what of the cluster was not read; see [Partial]
	// claims is what the pod holds by claims; nil if it has none.
	claims *document.PodClaims
}

// verdictOn is the verdict on one node. node is nil if the NUMA nodes of the node are not known.
type verdictOn struct {
	name   string
	node   *state.Node
	judged whatif.Judgement
	way    *whatif.Way // which pods have to end to make room; nil if that is not known
}

// explain reads a pod and the nodes, and judges the pod. A pod that does not exist is an error.
func (a *app) explain(ctx context.Context, ref string) (*explanation, error) {
	namespace, name, err := a.podName(ref)
	if err != nil {
		return nil, err
	}
	cluster, chosen, err := a.connect()
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(namespace, chosen, "default")
	pod, err := cluster.Pod(ctx, namespace, name)
	if err != nil {
		return nil, notFound(ctx, cluster, namespace, name, err)
	}
	if pod.Pod == nil {
		return nil, fmt.Errorf("explain pod %s: its containers are not known", pod.ID)
	}
	nodes, problems, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	e := newExplanation(pod, nodes, problems)
	e.partial = partialText(cluster)
	e.claims, err = claimsOfPod(ctx, cluster, pod)
	return e, err
}

// notFound adds to a NotFound error about a pod the node that still reports the pod, if there is one, and otherwise
// which pod may be meant. It returns other errors unchanged.
func notFound(ctx context.Context, c Cluster, namespace, name string, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	nodes, _, unread := c.Nodes(ctx)
	if unread != nil {
		return err
	}
	for _, n := range nodes {
		if slices.ContainsFunc(n.Gone, func(p state.PodID) bool { return p.Namespace == namespace && p.Name == name }) {
			return fmt.Errorf("%w; the layout of node %s still lists it: its pod is gone, and the node has not reported that",
				err, n.Name)
		}
	}
	return fmt.Errorf("%w%s", err, printable.InsteadOfPod(namespace, name, podsKnown(ctx, c)))
}

// podName parses "NAMESPACE/NAME" or "NAME", which "pod/" may precede as kubectl writes it. For a name alone it returns
// the namespace of --namespace; if that is "", the caller uses the kubeconfig's namespace. Kubeconfig.Named has the
// namespaces that it has parsed.
func (a *app) podName(ref string) (namespace, name string, err error) {
	chosen := a.kube.Namespace()
	namespace, name, both := strings.Cut(ref, "/")
	if both && slices.Contains(podTypes, namespace) {
		namespace, name, both = strings.Cut(name, "/")
	}
	if !both {
		namespace, name = chosen, namespace
	} else if chosen != "" && chosen != namespace {
		return "", "", fmt.Errorf("pod %q is not in the namespace %q of --namespace", ref, chosen)
	}
	if bad := validation.IsDNS1123Label(namespace); len(bad) > 0 && (both || namespace != "") {
		return "", "", fmt.Errorf("%q is not the name of a namespace: %s", namespace, bad[0])
	}
	if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 {
		return "", "", fmt.Errorf("%q is not the name of a pod: %s", name, bad[0])
	}
	if both {
		a.kube.named = append(a.kube.named, namespace)
	}
	return namespace, name, nil
}

// newExplanation judges the pod on all nodes. On the node to which the pod is bound it judges the pod only if the
// kubelet has refused it there.
func newExplanation(pod view.Pod, nodes []*state.Node, problems []document.Problem) *explanation {
	e := &explanation{pod: pod, problems: sortedProblems(problems)}
	if pod.Node == "" {
		e.together = partnersOf(pod.Demand, nodes)
	}
	for _, n := range sortedNodes(nodes) {
		if n.Name == pod.Node {
			e.home = n
			if i := slices.IndexFunc(n.Entries, func(x state.Entry) bool { return x.Pod.UID == pod.ID.UID }); i >= 0 {
				e.holds = &n.Entries[i]
			}
			if !e.refused() {
				continue
			}
		}
		e.judge(n.Name, n)
	}
	// If another reason excludes the pod from a node without known data, or nothing but amounts matters to the pod, judge
	// adds a verdict in place of the problem.
	e.problems = slices.DeleteFunc(e.problems, func(p document.Problem) bool {
		_, known := pod.Around[p.Node]
		return known && p.Node != pod.Node && e.judge(p.Node, nil)
	})
	slices.SortStableFunc(e.verdicts, func(a, b verdictOn) int { return strings.Compare(a.name, b.name) })
	e.tryRemedies()
	e.findWays()
	return e
}

// partnersOf returns the node on which the pods are that a demand wants a pod to be together with, the first by name,
// or "".
func partnersOf(d place.Demand, nodes []*state.Node) string {
	for _, n := range sortedNodes(nodes) {
		if n.Together(d.Together) {
			return n.Name
		}
	}
	return ""
}

// tryRemedies adds remedies to the reasons of nodes on which the pod never fits: it tries changes that would let the
// pod run. Nodes with equal machines and settings share one try.
func (e *explanation) tryRemedies() {
	known := map[string][]place.Reason{}
	for i := range e.verdicts {
		v := &e.verdicts[i]
		if v.node == nil || v.judged.When() == place.Later {
			continue
		}
		key := fmt.Sprintf("%p %v", v.node.Empty(), v.judged.Reasons)
		if known[key] == nil {
			at := e.on(v.name, v.node)
			known[key] = at.Tried(e.want(), v.judged.Reasons)
		}
		v.judged.Reasons = known[key]
	}
}

// judge adds the verdict on a node, and reports whether there is one. For a node without known data (n is nil) there is
// none if these data decide: the pod is not plain, and no other reason excludes it.
func (e *explanation) judge(name string, n *state.Node) (known bool) {
	at, rules := e.on(name, n), whatif.Rules{}
	v := verdictOn{name: name, node: n, judged: rules.Judge(&at, e.want(), e.barred(name))}
	if v.judged.Blind && v.judged.Fits() {
		return false
	}
	e.verdicts = append(e.verdicts, v)
	return true
}

// barred returns the reasons that are neither about amounts nor about NUMA nodes of the node itself.
func (e *explanation) barred(name string) []place.Reason {
	out := e.pod.Around[name].Barred
	if e.together != "" && e.together != name {
		out = append(out[:len(out):len(out)], place.Elsewhere(e.together))
	}
	return out
}

// on returns what is judged of a node: its layout n, which may be nil, and what the API server has about it.
func (e *explanation) on(name string, n *state.Node) whatif.Node {
	out := e.pod.Around[name].Node
	out.Name, out.State = name, n
	return out
}

func (e *explanation) want() *whatif.Want {
	return &whatif.Want{Pod: e.pod.Pod, Demand: e.pod.Demand, Needs: e.pod.Needs, Request: e.pod.Request,
		Devices: e.pod.Devices}
}

// findWays finds the pods whose end would make room, for the first fewNodes nodes that only lack amounts now.
func (e *explanation) findWays() {
	searches := 0
	for i := range e.verdicts {
		v := &e.verdicts[i]
		if searches == fewNodes || !lacksAmounts(v.judged, e.barred(v.name)) {
			continue
		}
		searches++
		at, rules := e.on(v.name, v.node), whatif.Rules{}
		if way, ok := rules.Way(&at, e.want()); ok {
			v.way = &way
		}
	}
}

// fitting returns the nodes on which the pod fits, as kubectl names them.
func (e *explanation) fitting() (out []string) {
	for _, v := range e.verdicts {
		if v.judged.Fits() {
			out = append(out, "node/"+v.name)
		}
	}
	return out
}

// refusing returns the verdicts of the nodes that refuse the pod.
func (e *explanation) refusing() (out []verdictOn) {
	for _, v := range e.verdicts {
		if !v.judged.Fits() {
			out = append(out, v)
		}
	}
	return out
}

// refused reports whether a kubelet rejected the pod at admission. Then explain shows where the next pod like it
// fits.
func (e *explanation) refused() bool {
	switch place.RefusalReason(e.pod.Reason) {
	case place.TopologyAffinityError, place.SMTAlignmentError, place.UnexpectedAdmissionError:
		return e.pod.Phase == "Failed"
	}
	return false
}

// ended reports whether all containers of the pod have ended for good, so that it holds nothing any more.
func (e *explanation) ended() bool { return ended(e.pod) }

// ended reports whether a pod has terminated.
func ended(p view.Pod) bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

// sortedNodes returns the nodes that can be judged, in order of their names. A node without a machine or a usage
// cannot.
func sortedNodes(in []*state.Node) []*state.Node {
	out := slices.DeleteFunc(slices.Clone(in), func(n *state.Node) bool {
		return n == nil || n.Machine == nil ||
			n.Usage == nil
	})
	slices.SortFunc(out, func(a, b *state.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func sortedProblems(in []document.Problem) []document.Problem {
	return slices.SortedFunc(slices.Values(in), document.ByName)
}
