package live

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
)

// State is a cluster at one moment. It must not be changed.
type State struct {
	Version uint64 // grows whenever something has changed
	Ready   bool   // all resources were listed once, or refused
	Nodes   []Node // in ascending order of name
	Pods    int
	Waiting int // pods without a node
	Limits  []document.Limit
	Seen    *kube.Seen // the namespaces whose pods are among Pods; nil: all
}

// Node is a node as the API server and the ledger have it.
type Node struct {
	Name               string
	State              *state.Node // nil where nothing is known of its NUMA nodes
	Problem            string      // why State is nil
	Warnings           []string
	Labels             map[string]string
	NotReady, Cordoned bool
}

// Node returns a node by its name; the bool is false if there is none.
func (s State) Node(name string) (Node, bool) {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return Node{}, false
	}
	return s.Nodes[i], true
}

// states has the latest State.
type states struct {
	known bool
	last  State
}

// State returns the cluster as it is now. If nothing has changed since the last call, it returns the same State
// again.
func (v *View) State() State {
	v.stateMu.Lock()
	defer v.stateMu.Unlock()
	version := v.Version()
	if v.states.known && v.states.last.Version == version {
		return v.states.last
	}
	s := State{Version: version, Limits: v.Limits(), Seen: v.Seen(), Nodes: v.listNodes()}
	select {
	case <-v.Ready():
		s.Ready = true
	default:
	}
	s.Pods, s.Waiting = v.count()
	v.states = states{true, s}
	return s
}

// listNodes returns the nodes of the API server, and the other nodes that report: the identity may not be allowed to
// read nodes.
func (v *View) listNodes() (out []Node) {
	snap, problems, notes := v.Snapshot(), map[string]string{}, map[string][]string{}
	for _, p := range v.Problems() {
		problems[p.Node] = p.Reason
	}
	for _, n := range v.feed.Notes() {
		notes[n.Node] = append(notes[n.Node], n.Reason)
	}
	seen := map[string]bool{}
	for _, n := range v.Nodes() {
		seen[n.Name] = true
		out = append(out, Node{Name: n.Name, State: snap.Node(n.Name), Problem: problems[n.Name], Warnings: notes[n.Name],
			Labels: n.Labels, NotReady: !ready(n), Cordoned: n.Spec.Unschedulable})
	}
	for n := range snap.All() {
		if !seen[n.Name] {
			out = append(out, Node{Name: n.Name, State: n, Warnings: notes[n.Name]})
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ready reports whether a node is ready. A node without the condition counts as ready.
func ready(n *v1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status != v1.ConditionTrue
	})
}
