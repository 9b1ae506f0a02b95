package stage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds out which pods of PodGroups of Kubernetes may be evicted. kube-scheduler places the successor of one
// as a late member: if it and the others that have nodes are as many as the gang needs (PlacementFeasible of
// pkg/scheduler/framework/plugins/gangscheduling in 1.37), and where the group names a label, on nodes with the value
// that the nodes of the others have (GeneratePlacements of topologyaware). Pods that end count as others until they are
// gone.

// members are the pods of the PodGroups that have nodes, by group.
type members map[string]*memberList

type memberList struct {
	stay int // pods on nodes that are not being deleted
	// rack is the value of the group's label that the nodes of all its pods have; "" if they have no common one.
	rack string
	// index is the position of the group in the field's gangs, from 1 on; 0 if it has none yet.
	index int
	// kept is a pod that may not move, and why; "" if there is none.
	kept string
}

// grouped returns the pods on nodes that belong to PodGroups and may move: first the ones that agree to it, and then by
// priority, the lowest first.
func (s *Stage) grouped() (out []*v1.Pod) {
	for p := range kube.EachPod(s.pods) {
		if p.Spec.NodeName != "" && groupOf(p) != "" && !kube.Ended(p) && !kube.GoesWithNode(p) &&
			p.Annotations[podapi.SafeToEvict] != "false" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(b.Annotations[podapi.SafeToEvict], a.Annotations[podapi.SafeToEvict]),
			cmp.Compare(corev1.PodPriority(a), corev1.PodPriority(b)),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// newMembers returns the members of the groups that were read.
func (s *Stage) newMembers() members {
	out := members{}
	for p := range kube.EachPod(s.pods) {
		id := groupOf(p)
		g := s.groups[id]
		if g == nil || p.Spec.NodeName == "" || kube.Ended(p) {
			continue
		}
		m, rack := out[id], s.labelOf(s.position(p.Spec.NodeName), g.Label)
		switch {
		case m == nil:
			m = &memberList{rack: rack}
			out[id] = m
		case m.rack != rack:
			m.rack = ""
		}
		if p.DeletionTimestamp == nil {
			m.stay++
		}
	}
	return out
}

// position returns the position of a node, or -1.
func (s *Stage) position(node string) int {
	i, ok := slices.BinarySearchFunc(s.nodes, node, func(n whatif.Node, name string) int {
		return strings.Compare(n.Name, name)
	})
	if !ok {
		return -1
	}
	return i
}

// labelOf returns the value of a label of the node at a position; "" if it has none, or if labels are unknown.
func (s *Stage) labelOf(node int, label string) string {
	if label == "" || node < 0 || s.objects == nil {
		return ""
	}
	return s.objects[node].Labels[label]
}

// gangKeeps returns why a pod stays because of its gang; "" if it may move, or is of none.
func (s *Stage) gangKeeps(p *v1.Pod, all members, b defrag.Bounds) string {
	if inForeignGang(p) {
		return "belongs to a gang, which would have to move as a whole"
	}
	id := groupOf(p)
	if id == "" {
		return ""
	}
	g, of := s.groups[id], all[id]
	switch {
	case g == nil || of == nil:
		return "belongs to a PodGroup that was not read"
	case g.Part:
		return "belongs to a CompositePodGroup, which would have to move as a whole"
	case g.Shares:
		return "belongs to a PodGroup whose pods share claims of devices (DRA)"
	case b.Pinned:
		return "belongs to a PodGroup, for whose pods the scheduler does not keep to the nodes of a plan"
	case (!g.StartsAlone() || g.Whole) && p.Annotations[podapi.SafeToEvict] != "true":
		return "belongs to a gang, and lacks the annotation " + podapi.SafeToEvict + "=true"
	case of.stay < g.Least:
		return "belongs to a gang of which fewer pods are left than it needs, so its successor would not start"
	case g.Label != "" && of.rack == "":
		return "belongs to a PodGroup whose pods are not on nodes with one value of the label that it names"
	case g.Label != "" && (g.Whole || of.stay < 2):
		return "belongs to a PodGroup that names a label of nodes, and none of its pods would stay where it is"
	}
	return ""
}

// joinGang adds the gang of a mover to a field. Of a group that names a label of nodes, a plan leaves one pod where it
// is: without any pod that has a node, kube-scheduler would choose the value of the label anew.
func (s *Stage) joinGang(p *v1.Pod, all members, f *defrag.Field, m *defrag.Mover) {
	id := groupOf(p)
	g, of := s.groups[id], all[id]
	if g == nil || g.Label == "" && !g.Whole {
		return
	}
	if of.index == 0 {
		next := defrag.Gang{Name: id, Most: of.stay, Whole: g.Whole}
		if g.Label != "" {
			next.Most--
		}
		f.Gangs = append(f.Gangs, next)
		of.index = len(f.Gangs)
	}
	m.Gang = of.index
}

// stays notes that a pod may not move.
func (all members) stays(p *v1.Pod, why string) {
	if of := all[groupOf(p)]; of != nil {
		of.kept = kube.ID(p).String() + " " + why
	}
}

// keepWhole has all pods of a group stay whose pods may be disrupted only together, if one of them may not move, or if
// disruption budgets do not allow the eviction of all at the same time.
func (all members) keepWhole(f *defrag.Field) {
	movers, used := make([]int, len(f.Gangs)), make([]map[int]int, len(f.Gangs))
	for _, m := range f.Movers {
		if g := m.Gang - 1; g >= 0 {
			movers[g]++
			for _, b := range m.Budgets {
				if used[g] == nil {
					used[g] = map[int]int{}
				}
				used[g][b]++
			}
		}
	}
	why := make([]string, len(f.Gangs))
	for g, x := range f.Gangs {
		if !x.Whole {
			continue
		}
		const only = "belongs to a PodGroup whose pods may be disrupted only together, and "
		if movers[g] < x.Most {
			why[g] = only + "one of them may not move: " + cmp.Or(all[x.Name].kept, "its node is not known")
		}
		for b, n := range used[g] {
			if n > f.Budgets[b] {
				why[g] = cmp.Or(why[g], only+"a PodDisruptionBudget allows fewer evictions now")
			}
		}
	}
	f.Movers = slices.DeleteFunc(f.Movers, func(m defrag.Mover) bool {
		stays := m.Gang > 0 && why[m.Gang-1] != ""
		if stays {
			f.Fixed = append(f.Fixed, defrag.Fixed{Pod: m.Pod, Node: m.Node, Why: why[m.Gang-1]})
		}
		return stays
	})
}

// Successor returns the workload of the pod that is created when an existing one is evicted: the pod itself, as if it
// had no node, on nodes where its PodGroup lets it be.
func (s *Stage) Successor(p *v1.Pod) (*whatif.Workload, error) {
	w, err := s.Existing(p)
	g := s.groups[groupOf(p)]
	if err != nil || g == nil || g.Label == "" {
		return w, err
	}
	at := s.position(p.Spec.NodeName)
	if at < 0 {
		return nil, fmt.Errorf("node %q of pod %s is not there", p.Spec.NodeName, kube.ID(p))
	}
	rack := s.labelOf(at, g.Label)
	bars := &whatif.Bars{Why: make([][]place.Reason, len(s.nodes))}
	for i := range bars.Why {
		if w.Want.Bars != nil && i < len(w.Want.Bars.Why) {
			bars.Why[i] = w.Want.Bars.Why[i]
		}
		if has := s.labelOf(i, g.Label); has != rack || rack == "" {
			bars.Why[i] = append(slices.Clone(bars.Why[i]), place.Reason{Code: place.Unselected, With: has,
				Resource: g.Label + "=" + rack})
		}
	}
	w.Want.Bars = bars
	return w, nil
}
