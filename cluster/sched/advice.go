package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/ledger"
)

// maxAdvice bounds the nodes that are looked at for a remedy, maxEnds the pods on them that are tried as the one whose
// end makes room, and maxNamed those that are named.
const (
	maxAdvice = 8
	maxEnds   = 32
	maxNamed  = 3
)

// advice says what would help a pod on the first of some nodes that refuse it: whom to wait for, or else a remedy.
func (p *Plugin) advice(pod *v1.Pod, nodes []string) string {
	c := p.last.Load()
	if c == nil || c.state.uid != string(pod.UID) {
		return ""
	}
	s, left, remedy := c.state, maxEnds, ""
	for _, name := range nodes {
		n := s.snap.Node(name)
		if n == nil {
			continue
		}
		if never := n.Never(s.pod); len(never) > 0 {
			remedy = cmp.Or(remedy, never[0].Remedy())
			continue
		}
		v := n.Place(s.pod, s.demand)
		if v.Fits() || len(v.Reasons) == 0 {
			continue
		}
		if left -= len(n.Entries); left < 0 {
			remedy = cmp.Or(remedy, v.Reasons[0].Remedy())
			break
		}
		if ends := endings(n, s); len(ends) > 0 {
			return "On node " + name + " it fits when one of these pods ends: " + named(ends, pod.Namespace)
		}
		remedy = cmp.Or(remedy, v.Reasons[0].Remedy())
	}
	if remedy == "" {
		return ""
	}
	return "Remedy: " + remedy
}

// endings returns the pods of a node each of whose end alone makes room.
func endings(n *ledger.Node, s *state) (out []ledger.PodID) {
	for _, e := range n.Entries {
		if n.Without(e.Pod.UID).Place(s.pod, s.demand).Fits() {
			out = append(out, e.Pod)
		}
	}
	return out
}

// named names pods of a namespace, and counts the others: who reads the events of one namespace may not know the pods
// of another one.
func named(pods []ledger.PodID, namespace string) string {
	var names []string
	for _, id := range pods {
		if id.Namespace == namespace {
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
