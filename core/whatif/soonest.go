package whatif

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds a node on which a pod fits soon, and the pods to wait for, within a bound that also suits a
// scheduler. [Rules.Way] searches longer, for fewer pods.

// MaxSoonest is how many nodes [Rules.Soonest] looks at.
const MaxSoonest = 8

// maxTries bounds the judgements of one search on all its nodes.
const maxTries = 48

// Soonest is a node on which a pod fits once other pods have ended.
type Soonest struct {
	Node string
	// Pods have to end, in ascending order of namespace and name: any one of them if Any is set, and otherwise all of
	// them. The result has no pods if the search found none within its bounds; Node is then empty.
	Pods []state.PodID
	Any  bool
	// Looked are the nodes that were looked at and that lack only amounts, in the order in which they were given.
	Looked []Looked
}

// Looked is what a node lacks now.
type Looked struct {
	Node    string
	Reasons []place.Reason
}

// Soonest returns the first of the nodes on which the end of a single pod makes room for w, and all such pods there.
// If there is none, it returns the first node on which the end of several pods makes room, and such pods; other sets
// may make room, too. It looks at the first nodes that next returns, up to its bounds; next returns nil at the end.
func (r Rules) Soonest(next func() *Node, w *Want) (out Soonest) {
	left := maxTries
	for range MaxSoonest {
		n := next()
		if n == nil {
			break
		}
		j := r.Judge(n, w, nil)
		if j.Fits() || j.When() != place.Later {
			continue
		}
		out.Looked = append(out.Looked, Looked{n.Name, j.Reasons})
		s := search{rules: r, node: n, want: w, pods: r.inTheWay(n, w), left: &left}
		if ends := s.single(); len(ends) > 0 {
			out.Node, out.Pods, out.Any = n.Name, ends, true
			break
		}
		if ends := s.together(); out.Node == "" && len(ends) > 0 {
			out.Node, out.Pods = n.Name, ends
		}
	}
	return out
}

// inTheWay returns the pods whose end may make room for w on a node: all that may end, or only those with holdings if
// the plain amounts are enough and w needs no devices of claims. They are in ascending order of namespace and name.
func (r Rules) inTheWay(n *Node, w *Want) []Resident {
	out := n.MayEnd()
	if len(n.Lacks(w.Needs)) == 0 && w.Devices == nil {
		out = slices.DeleteFunc(out, func(x Resident) bool { _, holds := n.entry(x.Pod.UID); return !holds })
	}
	slices.SortFunc(out, func(a, b Resident) int { return compareIDs(a.Pod, b.Pod) })
	return out
}

func compareIDs(a, b state.PodID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.UID, b.UID))
}

// search tries which pods of a node make room when they end. left is the number of judgements that remain.
type search struct {
	rules Rules
	node  *Node
	want  *Want
	pods  []Resident
	left  *int
}

// works reports whether w fits once the pods at the indices in gone have ended. Beyond the bound it returns false.
func (s *search) works(gone ...int) bool {
	if *s.left <= 0 {
		return false
	}
	*s.left--
	return s.rules.Judge(s.node.After(s.pods, gone), s.want, nil).Fits()
}

// single returns the pods that make room when they end, each of them alone.
func (s *search) single() (out []state.PodID) {
	for i, x := range s.pods {
		if s.works(i) {
			out = append(out, x.Pod)
		}
	}
	return out
}

// together returns pods that make room when all of them end. It removes pods in order until there is room, and then
// puts back those that need not go.
func (s *search) together() (out []state.PodID) {
	var gone []int
	for i := range s.pods {
		if gone = append(gone, i); !s.works(gone...) {
			continue
		}
		for k := len(gone) - 2; k >= 0; k-- { // the last pod has to go: without its end, there was no room
			if rest := slices.Delete(slices.Clone(gone), k, k+1); s.works(rest...) {
				gone = rest
			}
		}
		for _, i := range gone {
			out = append(out, s.pods[i].Pod)
		}
		return out
	}
	return nil
}

// Fitting returns how much of the resource of a reason the pod may request so that it fits on the node: without other
// pods if the reason is permanent, and now if it is not. It is 0 if no such amount was found, also because something
// else keeps the pod away. It tries whole CPUs and devices, and GiB of memory.
func (n *Node) Fitting(w *Want, r place.Reason) int64 {
	if n.State == nil || r.Resource == "" {
		return 0
	}
	r.With = r.Resource
	at, now := requester(w.Pod, r)
	if at < 0 {
		return 0
	}
	usage, takesIt, amounts := n.State.Usage, n.State.Takes, *n
	if r.Never {
		usage, takesIt, amounts.Used = n.State.Empty(), n.State.TakesEmpty, nil
	}
	fits := r.Have
	if !counted(r.Resource) || fits <= 0 || fits >= now ||
		!takes(usage, requesting(w.Pod, at, r.Resource, fits), w.Demand) {
		fits = fittingAmount(usage, w, r)
	}
	if fits <= 0 || !amounts.offers(w, r.Resource, now-fits) ||
		!takesIt(requesting(w.Pod, at, r.Resource, fits), w.Demand) {
		return 0
	}
	return fits
}

// Extended returns the extended resources that the node names, also such as are all in use or not there now.
func (n *Node) Extended() (out []string) {
	for name := range n.Allocatable {
		if strings.Contains(name, "/") {
			out = append(out, name)
		}
	}
	if n.State != nil {
		for _, r := range n.State.Machine.Resources() {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// offers reports whether the node has all plain amounts for w, if w requests less of a resource. The kubelet may offer
// less to pods than the machine has. Nothing is lacking if the amounts of the node are not known.
func (n *Node) offers(w *Want, resource string, less int64) bool {
	if n.Allocatable == nil {
		return true
	}
	if resource == "cpu" {
		less *= 1000
	}
	needs := maps.Clone(w.Needs)
	if needs[resource] > 0 {
		needs[resource] -= less
	}
	return len(n.Lacks(needs)) == 0
}

// counted reports whether a resource is counted in pieces, and not in bytes.
func counted(resource string) bool {
	return resource != topo.Memory && !strings.HasPrefix(resource, "hugepages-")
}
