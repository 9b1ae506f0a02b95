package stage

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file reads the PodGroups of files. kube-scheduler tries a group only if its pods have the group's priority, one
// scheduler and one preemption policy (validatePodGroup in pkg/scheduler/schedule_one_podgroup.go of 1.37).

// leftOf returns the objects of a file that are no workloads. Groups without a namespace get the given one.
func leftOf(f *manifest.File, namespace string) whatif.Left {
	out := whatif.Left{NoPods: f.Left, NotJudged: f.Unjudged}
	for _, g := range f.Groups {
		out.Groups = append(out.Groups, whatif.Group{Namespace: cmp.Or(g.Namespace, namespace), Name: g.Name, Least: g.Least,
			Label: g.Label, Part: g.Parent != "", Rank: rankOf(g.PriorityClass, g.Priority),
			Preempts: g.PreemptionPolicy})
	}
	return out
}

// rankOf returns the priority of a pod or a group by its fields. Kubernetes itself makes two classes.
func rankOf(class string, priority *int32) whatif.Rank {
	system := map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
	if value, known := system[class]; known && priority == nil {
		priority = &value
	}
	return whatif.Rank{Class: class, Priority: priority}
}

// preempts returns the preemption policy of a pod of a file, as kube-scheduler reads it, or "": the API server takes it
// from a priority class, so it is known if the API server was asked, or if the file has it.
func preempts(p *v1.Pod, asked bool) string {
	switch {
	case p.Spec.PreemptionPolicy != nil:
		return string(*p.Spec.PreemptionPolicy)
	case asked:
		return string(v1.PreemptLowerPriority)
	}
	return ""
}

// rankGroups asks the API server, if it can be asked, for the priorities of the groups whose class is not that of their
// pods: by a dry run of such a pod with the class of the group, as the API server finds both priorities in one way.
// workloads and templates have the same order.
func (s *Stage) rankGroups(groups []whatif.Group, workloads []*whatif.Workload, templates []manifest.Template) {
	for i := range groups {
		g := &groups[i]
		for k, w := range workloads {
			if s.ask == nil || g.Rank.Priority != nil || !g.Has(w) || w.Rank.Class == g.Rank.Class {
				continue
			}
			pod := written(&templates[k])
			pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = g.Rank.Class, nil, nil
			if stored, _, _ := s.ask(pod); stored != nil {
				g.Rank.Priority = stored.Spec.Priority
			}
		}
	}
}
