package stage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Vary returns a copy of the stage after some changes, and the names of the nodes whose rules have changed. A kubelet
// accepts new policies only after its node was drained, so the copy counts no pods on these nodes that a drain
// would evict. On still returns those pods.
func (s *Stage) Vary(v whatif.Variation) (out *Stage, altered []string, err error) {
	out = &Stage{nodes: slices.Clone(s.nodes), objects: slices.Clone(s.objects), pods: s.pods, on: maps.Clone(s.on),
		storage: s.storage, namespaces: s.namespaces, admission: s.admission, ask: s.ask, served: s.served, seen: s.seen,
		partial: s.partial, claims: s.claims, allocates: s.allocates, allocator: s.allocator, released: s.released,
		bars: map[string]*whatif.Bars{}}
	if v.Alter != nil {
		if altered, err = out.alter(v); err != nil {
			return nil, nil, err
		}
	}
	for _, t := range v.Twins {
		if err := out.twin(t); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range v.Add {
		m.Name = out.freeName(m.Name)
		added, err := Machines([]whatif.Machine{m})
		if err != nil {
			return nil, nil, err
		}
		for _, n := range added.nodes {
			out.join(n, nil)
		}
	}
	out.findExcluding()
	out.sort()
	return out, altered, checkNodes(out.nodes)
}

// alter changes the rules of the selected nodes, and removes the pods that a drain would evict. It returns the names
// of the changed nodes. A selected node without a layout is an error; without a selector, alter skips such nodes.
func (s *Stage) alter(v whatif.Variation) (altered []string, err error) {
	selector, err := labels.Parse(v.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	if s.objects == nil && !selector.Empty() {
		return nil, errors.New("the nodes have no labels here, so a selector chooses none")
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if s.objects != nil && !selector.Matches(labels.Set(s.objects[i].Labels)) {
			continue
		}
		if n.State == nil || n.State.Quality != state.Exact {
			if selector.Empty() {
				continue
			}
			return nil, fmt.Errorf("node %s has no layout: its configuration is not known", n.Name)
		}
		if s.pods == nil && busy(*n) {
			return nil, fmt.Errorf("what the pods of node %q ask for is not known", n.Name)
		}
		rules, err := v.Alter(n.State.Rules)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		var staying []kube.Stored
		freed := slices.Clone(n.Freed) // the devices of their claims are free, too
		for _, p := range s.on[n.Name] {
			if kube.GoesWithNode(p.Pod()) {
				staying = append(staying, p)
			} else {
				freed = append(freed, string(p.Pod().UID))
			}
		}
		slices.Sort(freed)
		s.on[n.Name], n.Freed = staying, freed
		n.Used, n.Pods = newRequests().sum(n.Name, staying)
		n.State = empty(n.Name, n.State, rules)
		altered = append(altered, n.Name)
	}
	if len(altered) > 0 {
		return altered, nil
	}
	if !selector.Empty() {
		if _, err := s.selected(v.Selector); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("no node has a layout, so no kubelet's configuration is known")
}

// empty returns the state of a node with the machine of another one, the given rules, and no holdings.
func empty(name string, like *state.Node, r place.Rules) *state.Node {
	return &state.Node{Name: name, Machine: like.Machine, Rules: r, Usage: place.NewUsage(like.Machine, r)}
}

// twin adds copies of a node. It does not copy what keeps pods from the node only temporarily: a cordon, and the taints
// of the node controller.
func (s *Stage) twin(t whatif.Twin) error {
	i := slices.IndexFunc(s.nodes, func(n whatif.Node) bool { return n.Name == t.Node })
	if i < 0 {
		return s.noNode(t.Node)
	}
	if like := s.nodes[i].State; like != nil && like.Quality != state.Exact {
		return fmt.Errorf("node %s has no layout: its machine is not known", t.Node)
	}
	name := s.freeName(t.Node)
	for k := range t.Copies {
		n, object := s.Fresh(i, numbered(name, k, t.Copies))
		s.nodes = append(s.nodes, n)
		if s.objects != nil {
			s.objects = append(s.objects, object)
		}
	}
	return nil
}

// Fresh returns a node like the one at a position, with another name, and its Node, or nil if labels and taints are
// unknown. It has the pods of DaemonSets and static pods, and no others. The node at the position must be exact, or
// have no state.
func (s *Stage) Fresh(at int, name string) (whatif.Node, *v1.Node) {
	like := s.nodes[at]
	var staying []kube.Stored
	for _, p := range s.on[like.Name] {
		if kube.GoesWithNode(p.Pod()) && !kube.Ended(p.Pod()) {
			staying = append(staying, p)
		}
	}
	n := whatif.Node{Name: name, Allocatable: like.Allocatable, Capacity: like.Capacity, Served: like.Served,
		Uncounted: like.Uncounted}
	n.Used, n.Pods = newRequests().sum(n.Name, staying)
	if like.State != nil {
		n.State = empty(n.Name, like.State, like.State.Rules)
	}
	if s.objects == nil {
		return n, nil
	}
	return n, NewObject(name, s.objects[at])
}

// numbered returns the name of the node with index i, from 0, in a series of count nodes: NAME-1, NAME-2 and so on,
// with leading zeros. A single node has the plain name.
func numbered(name string, i, count int) string {
	if count == 1 {
		return name
	}
	return fmt.Sprintf("%s-%0*d", name, len(fmt.Sprint(count)), i+1)
}

// freeName returns a name for nodes that join. No node has this name, or a name that begins with it and a hyphen.
func (s *Stage) freeName(name string) string {
	for name = "new-" + name; slices.ContainsFunc(s.nodes, func(n whatif.Node) bool {
		return n.Name == name || strings.HasPrefix(n.Name, name+"-")
	}); name += "x" {
	}
	return name
}

// join adds a node, with the labels and taints of another one if like is not nil.
func (s *Stage) join(n whatif.Node, like *v1.Node) {
	s.nodes = append(s.nodes, n)
	if s.objects != nil {
		s.objects = append(s.objects, NewObject(n.Name, like))
	}
}

// NewObject returns a Node with the labels and taints of another one if like is not nil.
func NewObject(name string, like *v1.Node) *v1.Node {
	object := &v1.Node{}
	if like != nil {
		*object = *like
		object.Spec.Unschedulable = false
		object.Spec.Taints = slices.DeleteFunc(slices.Clone(like.Spec.Taints), func(t v1.Taint) bool {
			return strings.HasPrefix(t.Key, "node.kubernetes.io/")
		})
	}
	if object.Labels = maps.Clone(object.Labels); object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Name, object.Labels[v1.LabelHostname] = name, name
	return object
}

// sort puts the nodes in order of names.
func (s *Stage) sort() {
	slices.SortFunc(s.nodes, func(a, b whatif.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.objects, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
}
