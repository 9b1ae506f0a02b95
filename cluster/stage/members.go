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
	for i := range s.nodes {
		for _, kept := range s.on[s.nodes[i].Name] {
			p := kept.Pod()
			g := s.groups[groupOf(p)]
			if g == nil {
				continue
			}
			m, rack := out[groupOf(p)], s.labelOf(i, g.Label)
			switch {
			case m == nil:
				m = &memberList{rack: rack}
				out[groupOf(p)] = m
			case m.rack != rack:
				m.rack = ""
			}
			if p.DeletionTimestamp == nil {
				m.stay++
			}
		}
	}
	return out
}

// labelOf returns the value of a label of a node; "" if it has none, or if labels are unknown.
func (s *Stage) labelOf(node int, label string) string {
	if label == "" || s.objects == nil {
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
	case g.Whole:
		return "belongs to a PodGroup whose pods may be disrupted only together (disruptionMode)"
	case g.Shares:
		return "belongs to a PodGroup whose pods share claims of devices (DRA)"
	case b.Pinned:
		return "belongs to a PodGroup, for whose pods the scheduler does not keep to the nodes of a plan"
	case g.StartsAlone() && g.Label == "":
		return ""
	case !g.StartsAlone() && p.Annotations[podapi.SafeToEvict] != "true":
		return "belongs to a gang, and lacks the annotation " + podapi.SafeToEvict + "=true"
	case of.stay < g.Least:
		return "belongs to a gang of which fewer pods are left than it needs, so its successor would not start"
	case g.Label != "" && of.rack == "":
		return "belongs to a PodGroup whose pods are not on nodes with one value of the label that it names"
	case g.Label != "" && of.stay < 2:
		return "is the only pod of a PodGroup that names a label of nodes, so its successor may get any value of it"
	}
	return ""
}

// limit has a plan leave one pod of a group where it is, if the group names a label of nodes. Without any pod that has
// a node, kube-scheduler would choose the value of the label anew.
func (s *Stage) limit(p *v1.Pod, all members, f *defrag.Field, m *defrag.Mover) {
	g, of := s.groups[groupOf(p)], all[groupOf(p)]
	if g == nil || g.Label == "" {
		return
	}
	if of.index == 0 {
		f.Gangs = append(f.Gangs, defrag.Gang{Most: of.stay - 1})
		of.index = len(f.Gangs)
	}
	m.Gang = of.index
}

// Successor returns the workload of the pod that is created when an existing one is evicted: the pod itself, as if it
// had no node, on nodes where its PodGroup lets it be.
func (s *Stage) Successor(p *v1.Pod) (*whatif.Workload, error) {
	w, err := s.Existing(p)
	g := s.groups[groupOf(p)]
	if err != nil || g == nil || g.Label == "" {
		return w, err
	}
	at, ok := slices.BinarySearchFunc(s.nodes, p.Spec.NodeName, func(n whatif.Node, name string) int {
		return strings.Compare(n.Name, name)
	})
	if !ok {
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
