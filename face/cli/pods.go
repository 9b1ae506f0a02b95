package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const podsLong = `List pods that hold CPUs, memory or devices, and on which NUMA nodes.

A container is misaligned where it holds parts of more NUMA nodes, or of more distant ones, than it
would on the empty machine. Where the node's scope is the pod, its containers count together.
A kubelet whose topology manager policy is none aligns nothing; there the comparison is with the
policy best-effort. BEST is that extent, and NOW says where the pod would be aligned if it were
created again now: "here" is the node that it is on.

Without -n or -A the command lists the namespace that the kubeconfig chooses.`

const podsExample = `  # Which pods are badly placed?
  kubectl tenon pods -A --misaligned

  # What do the pods of one node hold?
  kubectl tenon pods -A --node node-a -o wide`

// podsFlags are the choices of the command.
type podsFlags struct {
	everywhere, misaligned, watch bool
	node, selector                string
	output                        output
}

func (a *app) podsCommand() *cobra.Command {
	var f podsFlags
	c := &cobra.Command{
		Use:     "pods [NAME...]",
		Aliases: []string{"pod", "po"},
		Short:   "List what pods hold on which NUMA nodes, and which of them are misaligned",
		Long:    podsLong,
		Example: podsExample,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			switch {
			case f.everywhere && len(args) > 0:
				return errors.New("a NAME and --all-namespaces cannot both be given")
			case f.selector != "" && len(args) > 0:
				return errors.New("a NAME and --selector cannot both be given")
			}
			f.node = nodeName(f.node)
			return a.repeat(c, f.watch, func(ctx context.Context, w io.Writer) error {
				l, err := a.alignments(ctx, f, args)
				if err != nil {
					return err
				}
				if done, err := f.output.write(w, l.document(), l.names()); done {
					return err
				}
				return l.write(w, f)
			})
		},
	}
	c.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false, "List the pods of all namespaces.")
	c.Flags().BoolVar(&f.misaligned, "misaligned", false, "List only pods that are misaligned.")
	c.Flags().StringVar(&f.node, "node", "", "List only pods on this node.")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "List only the pods that this label selector selects.")
	bindWatch(c, &f.watch)
	f.output.bind(c, "json", "yaml", "name", "wide")
	complete(c, "node", a.nodeNames)
	c.ValidArgsFunction = others(a.podNames)
	return c
}

// podAlignment compares what one pod holds with the least that it could hold.
type podAlignment struct {
	node  *state.Node
	entry state.Entry
	units []place.Alignment
	// claims is what the pod holds by claims, which units do not have; nil if it has none.
	claims *document.PodClaims
	// now are the nodes on which a misaligned pod would be aligned if it were created again, its own node first.
	now []*state.Node
}

func (a podAlignment) misaligned() bool { return place.Misaligned(a.units) }

// alignments has pods in order of namespace and name. Its problems are the nodes whose pods cannot be judged.
type alignments struct {
	pods []podAlignment
	// namespace is "" for all namespaces. vacant is set if no pod at all could be read in it, and partial if a part of
	// the cluster could not be read.
	namespace       string
	vacant, partial bool
	problems        []document.Problem
}

// alignments returns the pods that the flags and names select, and compares what they hold with what they could hold.
func (a *app) alignments(ctx context.Context, f podsFlags, names []string) (*alignments, error) {
	for _, ref := range names { // before the cluster is connected: the namespaces that they name are read
		if _, _, err := a.podName(ref); err != nil {
			return nil, err
		}
	}
	cluster, namespace, err := a.connect()
	if err != nil {
		return nil, err
	}
	if namespace = cmp.Or(a.kube.Namespace(), namespace, "default"); f.everywhere {
		namespace = ""
	}
	names = slices.Clone(names) // they are the command's arguments, which --watch reads again
	for i, ref := range names {
		ns, name, err := a.podName(ref)
		if err != nil {
			return nil, err
		}
		if len(names) == 1 && ns != "" {
			namespace = ns
		}
		if ns != "" && ns != namespace {
			return nil, fmt.Errorf("pod %s is not in the namespace %q: pods of several namespaces need -A", ref, namespace)
		}
		names[i] = name
	}
	nodes, problems, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	pods, err := cluster.Pods(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("read the pods: %w", err)
	}
	vacant := len(pods) == 0
	if vacant && namespace != "" {
		if err := knownNamespace(ctx, cluster, namespace); err != nil {
			return nil, err
		}
	}
	if pods, err = a.chosenPods(ctx, cluster, pods, names, namespace, f.selector); err != nil {
		return nil, err
	}
	nodes = sortedNodes(nodes)
	if known := nodesKnown(nodes, problems); f.node != "" && !slices.Contains(known, f.node) {
		return nil, unknownNode(f.node, known)
	}
	claims, err := claimsOf(ctx, cluster, pods...)
	if err != nil {
		return nil, err
	}
	out := alignmentsOf(nodes, pods)
	out.addClaims(nodes, pods, claims)
	out.namespace, out.vacant, out.partial = namespace, vacant, partialText(cluster) != ""
	out.problems = append(out.problems, problems...)
	out.filter(f)
	out.findRoom(nodes, pods)
	return out, nil
}

// chosenPods returns the pods of a namespace with the given names, or those that the selector selects, or all pods if
// there are neither. It returns an error for a name that no pod has, and for a selector that selects none.
func (a *app) chosenPods(ctx context.Context, cluster Cluster, pods []view.Pod, names []string, namespace,
	selector string) ([]view.Pod, error) {
	if selector != "" {
		chosen, err := selectedPods(ctx, cluster, namespace, selector)
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(pods, func(p view.Pod) bool {
			_, ok := slices.BinarySearch(chosen, p.ID.UID)
			return !ok
		}), nil
	}
	if len(names) == 0 {
		return pods, nil
	}
	there := map[string]bool{}
	for _, p := range pods {
		there[p.ID.Name] = true
	}
	for _, name := range names {
		if !there[name] {
			return nil, unknownPod(namespace, name, podsKnown(ctx, cluster))
		}
	}
	return slices.DeleteFunc(pods, func(p view.Pod) bool { return !slices.Contains(names, p.ID.Name) }), nil
}

// filter removes the pods that the flags do not select.
func (a *alignments) filter(f podsFlags) {
	a.pods = slices.DeleteFunc(a.pods, func(p podAlignment) bool {
		return f.misaligned && !p.misaligned() && p.claims.Apart() == 0 || f.node != "" && p.node.Name != f.node
	})
	a.problems = sortedProblems(slices.DeleteFunc(a.problems, func(p document.Problem) bool {
		return f.node != "" && p.Node != f.node
	}))
}

// alignmentsOf compares what pods hold with the least that they could hold. Estimated nodes become problems, because
// they do not report the pods behind their amounts.
func alignmentsOf(nodes []*state.Node, pods []view.Pod) *alignments {
	out := &alignments{}
	byUID := viewsByUID(pods)
	for _, n := range nodes {
		if n.Quality == state.Estimated {
			out.problems = append(out.problems, document.Problem{Node: n.Name,
				Reason: "it reports amounts only: which of them are a pod's is not known"})
			continue
		}
		ideal := n.Usage.Ideal()
		for _, e := range n.Entries {
			p, ok := byUID[e.Pod.UID]
			if !ok || p.Pod == nil {
				continue
			}
			if units := place.Alignments(ideal, p.Pod, e.Holdings); len(units) > 0 {
				out.pods = append(out.pods, podAlignment{node: n, entry: e, units: units})
			}
		}
	}
	out.sort()
	return out
}

func (a *alignments) sort() {
	slices.SortFunc(a.pods, func(a, b podAlignment) int {
		return cmp.Or(strings.Compare(a.entry.Pod.Namespace, b.entry.Pod.Namespace),
			strings.Compare(a.entry.Pod.Name, b.entry.Pod.Name))
	})
}

func viewsByUID(pods []view.Pod) map[string]view.Pod {
	out := map[string]view.Pod{}
	for _, p := range pods {
		out[p.ID.UID] = p
	}
	return out
}

// findRoom finds for each misaligned pod the nodes where it would be aligned now.
func (a *alignments) findRoom(nodes []*state.Node, pods []view.Pod) {
	s := search{nodes: nodes, ideals: map[string]*place.Usage{}, found: map[string][]*state.Node{}}
	byUID := viewsByUID(pods)
	for i := range a.pods {
		if p := &a.pods[i]; p.misaligned() {
			p.now = s.now(byUID[p.entry.Pod.UID], p.node)
		}
	}
}

// marks returns the UIDs of the misaligned pods, for maps.
func (a *alignments) marks() map[string]bool {
	out := map[string]bool{}
	for _, p := range a.pods {
		if p.misaligned() {
			out[p.entry.Pod.UID] = true
		}
	}
	return out
}

// search finds nodes on which pods would be aligned now. ideals has the usage of each empty node, by name, and found
// the results by shape and demand of the pod.
type search struct {
	nodes  []*state.Node
	ideals map[string]*place.Usage
	found  map[string][]*state.Node
}

func (s search) ideal(n *state.Node) *place.Usage {
	if s.ideals[n.Name] == nil {
		s.ideals[n.Name] = n.Usage.Ideal()
	}
	return s.ideals[n.Name]
}

// now returns the nodes on which a pod would be aligned if it were created again; first home, the node that it is on.
// Pods of equal shape and demand share one search among the other nodes.
func (s search) now(p view.Pod, home *state.Node) (out []*state.Node) {
	if s.fits(p, home.Without(p.ID.UID)) {
		out = append(out, home)
	}
	key := fmt.Sprintf("%s %v", p.Pod.Shape(), p.Demand)
	if _, known := s.found[key]; !known {
		s.found[key] = nil
		for _, n := range s.nodes {
			if n.Quality == state.Exact && s.fits(p, n) {
				s.found[key] = append(s.found[key], n)
			}
		}
	}
	for _, n := range s.found[key] {
		if n != home {
			out = append(out, n)
		}
	}
	return out
}

// fits reports whether a node would take the pod and align it.
func (s search) fits(p view.Pod, n *state.Node) bool {
	v := n.Place(p.Pod, p.Demand)
	return v.Fits() && !place.Misaligned(place.Alignments(s.ideal(n), p.Pod, v.Holdings))
}

// names returns the pods as kubectl names them.
func (a *alignments) names() (out []string) {
	for _, p := range a.pods {
		out = append(out, "pod/"+p.entry.Pod.Name)
	}
	return out
}

// write writes the list as text.
func (a *alignments) write(w io.Writer, f podsFlags) error {
	wide := f.output.format == "wide"
	t := table{heads: []string{"POD", "CONTAINER", "NODE", "NUMA", "DISTANCE", "ALIGNED", "BEST", "NOW"}}
	if wide {
		t.heads = append(t.heads, "HOLDS")
	}
	bad := 0
	for _, p := range a.pods {
		name := p.entry.Pod.String()
		if p.misaligned() {
			bad++
		}
		for _, u := range p.units {
			row := []string{name, cmp.Or(u.Container, "(all)"), p.node.Name, extentNUMAs(p.node.Machine, u.Held),
				distanceText(u.Held), yesNo(!u.Misaligned()), "-", "-"}
			if u.Misaligned() {
				row[6], row[7] = bestText(u.Best), p.nowText()
			}
			if wide {
				row = append(row, strings.Join(document.Items(p.node.Machine, u.Holdings...), joint))
			}
			t.rows = append(t.rows, row)
		}
		if row := p.claimRow(); row != nil {
			t.rows = append(t.rows, row[:len(t.heads)])
		}
	}
	if len(t.rows) > 0 {
		if err := t.write(w, wide); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(w, a.whyEmpty(f)); err != nil {
		return err
	}
	a.writeRemedies(w, bad)
	a.writeApart(w)
	if len(a.problems) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return problemTable("NOT JUDGED BECAUSE", a.problems).write(w, false)
}

// whyEmpty returns the reason why the table has no rows. It does not say whether a namespace without pods exists: the
// user may lack the right to read that.
func (a *alignments) whyEmpty(f podsFlags) string {
	in := ""
	if a.namespace != "" {
		in = " in the namespace " + a.namespace
	} else if a.partial {
		in = " that you may read"
	}
	switch {
	case a.vacant && a.namespace != "":
		return "There are no pods" + in + ", or it does not exist."
	case f.misaligned:
		return "No pod" + in + " is misaligned."
	}
	return "No pod" + in + " holds CPUs, memory or devices of its own."
}

// writeRemedies writes what can be done about misaligned pods. bad is their number.
func (a *alignments) writeRemedies(w io.Writer, bad int) {
	if bad == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s misaligned. ", choose(bad, "1 pod is", fmt.Sprintf("%d pods are", bad)))
	fmt.Fprintf(w, "To align %s, create it again while NOW names a node.\n", choose(bad, "it", "one"))
	lax := map[place.Policy][]string{} // nodes with misaligned pods, by policies that admit such pods
	for _, p := range a.pods {
		policy := p.node.Rules.Topology.Policy
		if p.misaligned() && policy < place.Restricted && !slices.Contains(lax[policy], p.node.Name) {
			lax[policy] = append(lax[policy], p.node.Name)
		}
	}
	for _, policy := range []place.Policy{place.None, place.BestEffort} {
		if names := lax[policy]; len(names) > 0 {
			slices.Sort(names)
			fmt.Fprintf(w, "topologyManagerPolicy is %s on %s: %s.\n", policy, firstOf(names, fewOf, ""), [...]string{
				place.None:       "nothing is aligned there, restricted would be strict",
				place.BestEffort: "the kubelet also admits pods that it cannot align",
			}[policy])
		}
	}
}

func extentNUMAs(m *topo.Machine, e place.Extent) string { return string(document.NUMAs(m, e.NUMAs)) }

func distanceText(e place.Extent) string {
	if e.Distance == 0 {
		return "-"
	}
	return fmt.Sprint(e.Distance)
}

// bestText returns the best number of NUMA nodes for a pod and their distance, without naming NUMA nodes.
func bestText(e place.Extent) string {
	out := fmt.Sprintf("%d NUMA", e.NUMAs.Len())
	if e.Distance > 0 {
		out += fmt.Sprintf(" at %d", e.Distance)
	}
	return out
}

// nowText returns the nodes on which the pod would be aligned now, as text: up to two names, or the first one and the
// number of the others.
func (a podAlignment) nowText() string {
	var names []string
	for _, n := range a.now {
		name := n.Name
		if n == a.node {
			name = "here"
		}
		names = append(names, name)
	}
	switch {
	case len(names) == 0:
		return "nowhere"
	case len(names) > 2:
		return fmt.Sprintf("%s, +%d more", names[0], len(names)-1)
	}
	return strings.Join(names, ", ")
}

// alignmentsDocument is what pods writes with "-o json" and "-o yaml".
type alignmentsDocument struct {
	Kind      string              `json:"kind"` // "PodAlignments"
	Pods      []alignmentDocument `json:"pods"`
	NotJudged []document.Problem  `json:"notJudged"`
}

type alignmentDocument struct {
	document.Holder
	Node  string         `json:"node"`
	Units []unitDocument `json:"units"`
	// Claims is what the pod holds by ResourceClaims (DRA); absent if it has none. Misaligned and Units leave it out.
	Claims *document.PodClaims `json:"claims,omitempty"`
	// AlignedOn are nodes on which a misaligned pod would be aligned if it were created again now.
	AlignedOn []string `json:"alignedOn,omitempty"`
}

// unitDocument is one container, or the whole pod where the node's topology manager scope is the pod.
type unitDocument struct {
	Container  string         `json:"container,omitempty"`
	Misaligned bool           `json:"misaligned"`
	Held       extentDocument `json:"held"`
	Best       extentDocument `json:"best"` // on a machine without other pods
}

type extentDocument struct {
	NUMAs v1alpha1.IDList `json:"numas"`
	// Distance is the longest distance between two of the NUMA nodes; 0 where it is not known.
	Distance int64 `json:"distance"`
}

func (a *alignments) document() alignmentsDocument {
	return alignmentsDocument{Kind: "PodAlignments", NotJudged: append([]document.Problem{}, a.problems...),
		Pods: document.Each(a.pods, func(p podAlignment) alignmentDocument {
			m := p.node.Machine
			extent := func(e place.Extent) extentDocument { return extentDocument{document.NUMAs(m, e.NUMAs), e.Distance} }
			d := alignmentDocument{Holder: document.HolderOf(m, p.entry), Node: p.node.Name, Claims: p.claims,
				Units: document.Each(p.units, func(u place.Alignment) unitDocument {
					return unitDocument{u.Container, u.Misaligned(), extent(u.Held), extent(u.Best)}
				})}
			d.Misaligned = p.misaligned()
			for _, n := range p.now {
				d.AlignedOn = append(d.AlignedOn, n.Name)
			}
			return d
		})}
}
