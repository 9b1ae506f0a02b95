// Package rollout computes the effects of a change of kubelets' configuration before it is made. A plan has the pods
// that their nodes would admit again, new places for the other pods, and how many pods of frequent shapes fit before
// and after. It also has the state files that have to be removed, and the order in which nodes are changed.
//
// It only computes, with the algorithm that predicts placements. Invariant: a plan depends only on the data that was
// read, and nothing is changed. The package refuses nodes whose configuration is not known, and changes without an
// effect.
package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Scene is the input of a plan.
type Scene struct {
	Stage *stage.Stage
	// Layouts and Nodes are the objects by name. They have the versions of kubelets and the amounts of nodes.
	Layouts map[string]*v1alpha1.NodeLayout
	Nodes   map[string]*v1.Node
	Budgets []policyv1.PodDisruptionBudget
	Limits  []document.Limit
}

// SceneOf returns the scene of a view. limits are resources that could not be read, in addition to the limits of the
// view.
func SceneOf(v *kube.View, budgets []policyv1.PodDisruptionBudget, limits []document.Limit) (*Scene, error) {
	s, err := stage.Of(v)
	if err != nil {
		return nil, err
	}
	unread := v.Limits()
	for i := range unread {
		if unread[i].Resource == "pods" {
			unread[i].Reason += "; what becomes of these pods is not in the plan"
		}
	}
	out := &Scene{Stage: s, Budgets: budgets, Limits: append(unread, limits...),
		Layouts: map[string]*v1alpha1.NodeLayout{}, Nodes: map[string]*v1.Node{}}
	for i := range v.Layouts {
		out.Layouts[v.Layouts[i].Name] = &v.Layouts[i]
	}
	for i := range v.Nodes {
		out.Nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	return out, nil
}

// Plan computes the effects of a change. The nodes of the plan are in the order in which they are to be changed:
// nodes without errors first, then nodes whose drain no budget blocks, and then by the number of pods that would
// wait. Plan returns an error if all selected nodes have the configuration already.
func (s *Scene) Plan(change whatif.Variation) (document.KubeletPlan, error) {
	out := document.KubeletPlan{Kind: "KubeletPlan", Selector: change.Selector, Unchanged: []string{},
		Nodes: []document.KubeletPlanNode{}, Moves: []document.PlannedMove{}, Shapes: []document.ShapeSlots{},
		Limits: append(append([]document.Limit{}, s.Limits...), s.unknown(change)...)}
	after, altered, err := s.Stage.Vary(change)
	if err != nil {
		return out, err
	}
	p := planner{Scene: s, after: after, nodes: slices.Clone(after.Nodes()), bound: s.bound()}
	for _, name := range altered {
		before, _ := s.node(name)
		i := slices.IndexFunc(p.nodes, func(n whatif.Node) bool { return n.Name == name })
		if sameRules(before.State, p.nodes[i].State) {
			out.Unchanged = append(out.Unchanged, name)
			continue
		}
		n, err := p.change(before, i)
		if err != nil {
			return out, fmt.Errorf("node %s: %w", name, err)
		}
		out.Nodes = append(out.Nodes, n)
		p.changed = append(p.changed, i)
	}
	if len(out.Nodes) == 0 {
		return out, errors.New("the nodes have this configuration already: " + strings.Join(out.Unchanged, ", "))
	}
	if out.Moves, err = p.moves(); err != nil {
		return out, err
	}
	out.Shapes = p.slots()
	slices.SortFunc(out.Nodes, func(a, b document.KubeletPlanNode) int {
		return cmp.Or(len(a.Errors)-len(b.Errors), len(a.Blocked)-len(b.Blocked), a.Waiting-b.Waiting, a.Evicted-b.Evicted,
			strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// unknown returns the nodes that a change of all nodes leaves out because their configuration is not known. It names
// at most maxUnknown of them, and counts the others.
func (s *Scene) unknown(change whatif.Variation) (out []document.Limit) {
	const maxUnknown, reason = 10, "no layout: its configuration is not known, and the plan leaves it out"
	if change.Selector != "" {
		return nil // Vary returns an error for a selected node without a layout
	}
	more := 0
	for _, n := range s.Stage.Nodes() {
		if n.State != nil && n.State.Quality == state.Exact {
			continue
		}
		if len(out) == maxUnknown {
			more++
			continue
		}
		out = append(out, document.Limit{Resource: "node " + n.Name, Reason: reason})
	}
	if more > 0 {
		out = append(out, document.Limit{Resource: fmt.Sprintf("%d more nodes", more), Reason: reason})
	}
	return out
}

// planner computes one plan.
type planner struct {
	*Scene
	after *stage.Stage
	// nodes are the stage's nodes after the change. The changed nodes have only the pods that they admit again.
	nodes   []whatif.Node
	changed []int              // positions in nodes
	bound   map[string]*v1.Pod // see Scene.bound
	refused []refusedPod
}

// refusedPod is a pod that its node would not admit again.
type refusedPod struct {
	pod  *v1.Pod
	why  string
	node string
}

// bound returns the pods that have nodes and have not ended, by UID.
func (s *Scene) bound() map[string]*v1.Pod {
	out := map[string]*v1.Pod{}
	for p := range kube.EachPod(s.Stage.Pods()) {
		if p.Spec.NodeName != "" && !kube.Ended(p) {
			out[string(p.UID)] = p
		}
	}
	return out
}

func (s *Scene) node(name string) (whatif.Node, bool) {
	for _, n := range s.Stage.Nodes() {
		if n.Name == name {
			return n, true
		}
	}
	return whatif.Node{}, false
}

func sameRules(a, b *state.Node) bool { return rulesOf(a).equal(rulesOf(b)) }

// change computes the effects on the node at position i of p.nodes, and stores the node after the change at this
// position. before is the same node before the change.
func (p *planner) change(before whatif.Node, i int) (out document.KubeletPlanNode, err error) {
	n := &p.nodes[i]
	from, to := rulesOf(before.State), rulesOf(n.State)
	out = document.KubeletPlanNode{Name: n.Name, Before: from.wire, After: to.wire, Diff: from.diff(to),
		Blocked: []string{}, Pods: []document.PlannedPod{}}
	if out.DropIn, err = from.dropIn(to); err != nil {
		return out, err
	}
	object := p.Nodes[n.Name]
	if object != nil {
		out.Version = object.Status.NodeInfo.KubeletVersion
	}
	gates := map[string]bool{}
	if l := p.Layouts[n.Name]; l != nil {
		out.Version = cmp.Or(out.Version, l.Kubelet.Version)
		for _, g := range l.Kubelet.FeatureGates {
			gates[g.Name] = g.Enabled
		}
	}
	kept, known := kube.KeptMemory(object)
	if !known {
		kept = -1
	}
	out.Errors = refusals(kubeletOf(out.Version, gates), n.State.Machine, n.State.Rules, kept)
	out.Warnings = []string{}
	if lost, a := n.State.Rules.HalfCores(n.State.Machine); !lost.Empty() {
		out.Warnings = append(out.Warnings, a.String())
	}
	n.Allocatable = allocatable(before, n.State.Rules)
	p.restart(before, n, &out)
	out.StateFiles = stateFiles(before.State, n.State.Rules, p.staying(n.Name))
	err = p.drain(before.Name, &out)
	return out, err
}

// allocatable returns the amounts that the node n would have for pods if the rules r reserved its CPUs.
func allocatable(n whatif.Node, r place.Rules) whatif.Amounts {
	was := n.State.Rules.CPU.Reserved
	if r.CPU.Reserved.Equal(was) {
		return n.Allocatable
	}
	out := whatif.Amounts{}.Add(n.Allocatable)
	out["cpu"] = int64(n.State.Machine.CPUs().Len()-r.CPU.Reserved.Len()) * 1000
	return out
}

// restart predicts the start of the kubelet with the new rules. It empties n, and lets n admit the pods of the node
// again; see order. It adds all pods to out.Pods, and the pods that n refuses to p.refused.
func (p *planner) restart(before whatif.Node, n *whatif.Node, out *document.KubeletPlanNode) {
	n.State = &state.Node{Name: n.Name, Machine: n.State.Machine, Rules: n.State.Rules,
		Usage: place.NewUsage(n.State.Machine, n.State.Rules)}
	n.Used, n.Pods = whatif.Amounts{}, nil
	for _, pod := range p.order(before) {
		was, _ := before.State.Entry(string(pod.UID))
		one := document.PlannedPod{Pod: document.PodOf(kube.ID(pod)), Reasons: []document.Reason{},
			Before: document.Spread(n.State.Machine, was.Holdings)}
		next, v, err := admit(n, pod)
		switch {
		case err != nil:
			one.Error = err.Error()
		case len(v.Reasons) > 0 || !v.Fits():
			one.Error, one.Reasons = string(v.Refusal), document.Each(v.Reasons, document.ReasonOf)
		default:
			one.Starts, one.After = true, document.Spread(n.State.Machine, v.Holdings)
			*n = next
		}
		if !one.Starts {
			why := one.Error
			if len(one.Reasons) > 0 {
				why += ": " + one.Reasons[0].Text
			}
			p.refused = append(p.refused, refusedPod{pod, why, n.Name})
		}
		out.Pods = append(out.Pods, one)
	}
}

// order returns the pods of a node in the order in which they start again: first the pods with holdings, in the order
// in which the node admitted them, and then the others by age.
func (p *planner) order(n whatif.Node) (out []*v1.Pod) {
	seen := map[string]bool{}
	for _, e := range n.State.Entries {
		if pod := p.bound[e.Pod.UID]; pod != nil {
			out, seen[e.Pod.UID] = append(out, pod), true
		}
	}
	var rest []*v1.Pod
	for uid, pod := range p.bound {
		if pod.Spec.NodeName == n.Name && !seen[uid] {
			rest = append(rest, pod)
		}
	}
	slices.SortFunc(rest, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
	return append(out, rest...)
}

// admit returns the kubelet's decision about a pod, and the node with the pod; if the kubelet refuses the pod, the
// node is unchanged. Like the kubelet, admit first compares the amounts of the node, and then asks the managers.
func admit(n *whatif.Node, pod *v1.Pod) (whatif.Node, place.Verdict, error) {
	spec, err := podapi.ToPlace(pod)
	if err != nil {
		return *n, place.Verdict{}, err
	}
	needs, err := kube.Needs(pod)
	if err != nil {
		return *n, place.Verdict{}, err
	}
	if lacks := short(n, needs); len(lacks) > 0 {
		return *n, place.Verdict{Refusal: place.RefusalReason("OutOf" + lacks[0].Resource), Reasons: lacks[:1]}, nil
	}
	v := place.Place(n.State.Usage, spec)
	if !v.Fits() {
		return *n, v, nil
	}
	next := *n
	id := kube.ID(pod)
	after := *n.State
	after.Entries = append(slices.Clone(after.Entries), state.Entry{Pod: id, Holdings: v.Holdings})
	after.Usage = after.Usage.Hold(v.Holdings...)
	next.State, next.Used = &after, n.Used.Add(needs)
	next.Pods = append(slices.Clone(n.Pods), whatif.Resident{Pod: id, Needs: needs, Stays: stays(pod)})
	return next, v, nil
}

// short returns a reason for each resource that the node cannot provide in the needed amount, in ascending order of
// the resource's name.
func short(n *whatif.Node, needs whatif.Amounts) (out []place.Reason) {
	for resource, want := range needs {
		if have := n.Left(resource); want > 0 && want > have {
			want, have = whatif.Whole(resource, want, have)
			out = append(out, place.Reason{Code: place.Lacking, Resource: resource, Want: want, Have: have})
		}
	}
	slices.SortFunc(out, func(a, b place.Reason) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// stays reports whether a drain leaves a pod on its node: it is a mirror pod, or a DaemonSet controls it.
func stays(p *v1.Pod) bool {
	_, mirror := p.Annotations[v1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOfNoCopy(p)
	return mirror || owner != nil && owner.Kind == "DaemonSet"
}

// staying returns the holdings of the pods that a drain leaves on a node.
func (p *planner) staying(node string) (out []place.Holding) {
	n, _ := p.node(node)
	for _, e := range n.State.Entries {
		if pod := p.bound[e.Pod.UID]; pod != nil && stays(pod) {
			out = append(out, e.Holdings...)
		}
	}
	return out
}

// moves finds other nodes for the pods in p.refused, once all nodes have changed. A move has no destination if no
// node has room for the pod, or if a drain leaves the pod on its node.
func (p *planner) moves() ([]document.PlannedMove, error) {
	out := []document.PlannedMove{}
	plan := whatif.New(p.nodes, whatif.Rules{})
	for i, x := range p.refused {
		move := document.PlannedMove{Pod: document.PodOf(kube.ID(x.pod)), From: x.node, Why: x.why}
		if stays(x.pod) {
			move.Why += "; it belongs to its node"
			out = append(out, move)
			continue
		}
		w, err := p.after.Existing(x.pod)
		if err != nil {
			return nil, err
		}
		name := func(int) state.PodID { return w.ID(i, 0) }
		placed, err := plan.Fill(w.Want, 1, name, func() error { return nil })
		if err != nil {
			return nil, err
		}
		if len(placed.Placed) > 0 {
			move.To = p.nodes[placed.Placed[0].Node].Name
		}
		out = append(out, move)
	}
	return out, nil
}

// drain predicts what happens if the node is drained before any node has changed: how many pods are evicted, how many
// of them then wait because no other node has room, and which PodDisruptionBudgets block the drain.
func (p *planner) drain(node string, out *document.KubeletPlanNode) error {
	nodes := slices.Clone(p.Stage.Nodes())
	for i := range nodes {
		nodes[i].Gone = nodes[i].Gone || nodes[i].Name == node
	}
	plan := whatif.New(nodes, whatif.Rules{})
	all, _, err := p.Stage.On(node)
	if err != nil {
		return err
	}
	out.Evicted = len(all)
	for i, w := range all {
		placed, err := plan.Fill(w.Want, 1, func(int) state.PodID { return w.ID(i, 0) }, func() error { return nil })
		if err != nil {
			return err
		}
		out.Waiting += 1 - len(placed.Placed)
	}
	for _, b := range p.Budgets {
		if b.Status.DisruptionsAllowed > 0 {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return fmt.Errorf("budget %s/%s: %w", b.Namespace, b.Name, err)
		}
		for _, pod := range p.bound {
			if pod.Spec.NodeName == node && pod.Namespace == b.Namespace && !stays(pod) &&
				selector.Matches(labels.Set(pod.Labels)) {
				out.Blocked = append(out.Blocked, b.Namespace+"/"+b.Name)
				break
			}
		}
	}
	slices.Sort(out.Blocked)
	return nil
}

// maxShapes bounds the shapes that slots counts.
const maxShapes = 4

// slots counts how many pods of the usual shapes would fit on the changed nodes, if the nodes were empty, before and
// after the change.
func (p *planner) slots() []document.ShapeSlots {
	out := []document.ShapeSlots{}
	for _, share := range whatif.Usual(p.Stage.Usual(), nil).Shares() {
		if len(out) == maxShapes {
			break
		}
		x := document.ShapeSlots{Shape: shapeText(share.Pod)}
		for _, i := range p.changed {
			before, _ := p.node(p.nodes[i].Name)
			x.Before += whatif.Slots(emptied(before, before.State.Rules), share.Pod)
			x.After += whatif.Slots(emptied(p.nodes[i], p.nodes[i].State.Rules), share.Pod)
		}
		out = append(out, x)
	}
	return out
}

// emptied returns the node without pods, under the rules r.
func emptied(n whatif.Node, r place.Rules) whatif.Node {
	return whatif.Node{Name: n.Name, Allocatable: n.Allocatable, State: &state.Node{Name: n.Name, Rules: r,
		Machine: n.State.Machine, Usage: place.NewUsage(n.State.Machine, r)}}
}

// shapeText returns the request of a pod as text: the amounts of each container.
func shapeText(p *place.Pod) string {
	var parts []string
	for _, c := range p.Containers {
		one := []string{place.Quantity("cpu", c.MilliCPU/1000)}
		for _, m := range c.Memory {
			one = append(one, place.Quantity(m.Kind, m.Bytes))
		}
		for _, d := range c.Devices {
			one = append(one, place.Quantity(d.Resource, d.N))
		}
		parts = append(parts, strings.Join(one, ", "))
	}
	return strings.Join(parts, " + ")
}
