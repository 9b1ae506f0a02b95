package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// MaxAdvice bounds the nodes that are searched for a remedy.
const MaxAdvice = 8

// maxEnds bounds the pods that Advice considers as ending, on all searched nodes together. maxNamed bounds the pods
// that its text names.
const (
	maxEnds  = 32
	maxNamed = 3
)

// Refused is a pod that fits on no node, with the state of the nodes in which it was tried.
type Refused struct {
	Namespace string
	Pod       *place.Pod
	Demand    place.Demand
	Snapshot  *ledger.Snapshot
}

// Advice returns a text about the first of the given nodes where waiting would help, with the pods to wait for. If
// waiting helps nowhere, it returns a remedy, or "" if it knows none. It names only pods of the pod's own namespace
// and counts the others, because a reader of events in one namespace may not be allowed to see the pods of another.
func (r Refused) Advice(nodes []string) string {
	budget, together, remedy := maxEnds, "", ""
	for _, name := range nodes[:min(len(nodes), MaxAdvice)] {
		n := r.Snapshot.Node(name)
		if n == nil {
			continue
		}
		if never := n.NeverMeets(r.Pod, r.Demand); len(never) > 0 {
			remedy = cmp.Or(remedy, never[0].Remedy())
			continue
		}
		v := n.Place(r.Pod, r.Demand)
		if v.Fits() || len(v.Reasons) == 0 {
			continue
		}
		remedy = cmp.Or(remedy, v.Reasons[0].Remedy())
		if budget -= len(n.Entries); budget < 0 {
			break
		}
		if ends := r.endings(n); len(ends) > 0 {
			return "On node " + name + " it fits when one of these pods ends: " + r.named(ends)
		}
		if ends := r.endTogether(n); together == "" && len(ends) > 0 {
			together = "On node " + name + " it fits when these pods end: " + r.named(ends)
		}
	}
	if together == "" && remedy != "" {
		return "Remedy: " + remedy
	}
	return together
}

// endings returns the pods of a node that make room when they end, each of them alone. It skips entries without a
// pod: amounts of an estimated node that no known pod holds.
func (r Refused) endings(n *state.Node) (out []state.PodID) {
	for _, e := range n.Entries {
		if e.Pod.UID != "" && r.fitsWithout(n, e.Pod) {
			out = append(out, e.Pod)
		}
	}
	return out
}

// endTogether returns pods of a node that make room when all of them end; if any one of them stays, there is no room.
// It removes pods in the order of their admission until there is room, and then puts back pods that need not go.
// Other sets may make room, too. It returns nil if even the end of all pods makes no room.
func (r Refused) endTogether(n *state.Node) (out []state.PodID) {
	for _, e := range n.Entries {
		if e.Pod.UID == "" {
			continue
		}
		if out = append(out, e.Pod); !r.fitsWithout(n, out...) {
			continue
		}
		for i := len(out) - 2; i >= 0; i-- { // the last pod has to go: without its end, there was no room
			if rest := slices.Delete(slices.Clone(out), i, i+1); r.fitsWithout(n, rest...) {
				out = rest
			}
		}
		return out
	}
	return nil
}

func (r Refused) fitsWithout(n *state.Node, pods ...state.PodID) bool {
	var uids []string
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return n.Without(uids...).Place(r.Pod, r.Demand).Fits()
}

// named names up to maxNamed pods of the refused pod's namespace, and counts the other pods.
func (r Refused) named(pods []state.PodID) string {
	var names []string
	for _, id := range pods {
		if id.Namespace == r.Namespace {
			names = append(names, id.Name)
		}
	}
	slices.Sort(names)
	names = names[:min(len(names), maxNamed)]
	out := strings.Join(names, ", ")
	switch more := len(pods) - len(names); {
	case len(names) == 0:
		return fmt.Sprintf("%d of other namespaces", more)
	case more > 0:
		return fmt.Sprintf("%s, and %d more", out, more)
	}
	return out
}
