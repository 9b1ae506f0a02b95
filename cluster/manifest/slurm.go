package manifest

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file makes the pods of Slinky's NodeSets, which run slurmd (github.com/SlinkyProject/slurm-operator,
// internal/builder/workerbuilder and internal/controller/nodeset/utils). The container slurmd is a field of its own.
// The operator adds a sidecar for the log to each pod: without limits of its own it makes the pod Burstable.

// slurmd is the name of the container, and of the application in the label by which NodeSets' pods avoid each other.
const slurmd = "slurmd"

// slurmNodes counts the pods of a NodeSet. above are the NodeSet and its spec.
func slurmNodes(above []object) (int, error) { return number(above[1], "replicas", 1) }

// slurmPerNode reports whether a NodeSet has a pod on every node.
func slurmPerNode(above []object) bool { return above[1]["scalingMode"] == "DaemonSet" }

// slurmNode returns the pod template of a NodeSet. container is the NodeSet's field slurmd.
func slurmNode(container object, above []object) object {
	root, spec := above[0], above[1]
	given := child(spec, "template", "spec")
	pod := object{"tolerations": []any{object{"key": "nodeset.slinky.slurm.net/worker", "operator": "Equal",
		"effect": "NoExecute"}}}
	maps.Copy(pod, given)
	node := object{"name": slurmd}
	maps.Copy(node, container)
	logs := object{"name": "logfile", "restartPolicy": "Always"}
	maps.Copy(logs, child(spec, "logfile"))
	pod["containers"] = appended([]any{node}, given["containers"])
	pod["initContainers"] = appended([]any{logs}, given["initContainers"])

	meta := object{}
	for _, kind := range []string{"labels", "annotations"} {
		all := object{}
		maps.Copy(all, child(root, "metadata", kind))
		maps.Copy(all, child(spec, "template", "metadata", kind))
		meta[kind] = all
	}
	meta["labels"].(object)["app.kubernetes.io/name"] = slurmd
	return object{"metadata": meta, "spec": pod}
}

// appended returns a list followed by the elements of another one, if that is a list.
func appended(to []any, list any) []any {
	more, _ := list.([]any)
	return slices.Concat(to, more)
}

// slurmAlone keeps the pods of NodeSets on different nodes, unless the NodeSet permits several on one.
func slurmAlone(p *v1.Pod, above []object) {
	if several, _ := above[1]["oversubscribeNode"].(bool); several {
		return
	}
	a := v1.Affinity{}
	if p.Spec.Affinity != nil {
		a = *p.Spec.Affinity
	}
	anti := v1.PodAntiAffinity{}
	if a.PodAntiAffinity != nil {
		anti = *a.PodAntiAffinity
	}
	anti.RequiredDuringSchedulingIgnoredDuringExecution = append(
		slices.Clone(anti.RequiredDuringSchedulingIgnoredDuringExecution), v1.PodAffinityTerm{
			TopologyKey: v1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "app.kubernetes.io/name", Operator: metav1.LabelSelectorOpIn, Values: []string{slurmd}}}},
		})
	a.PodAntiAffinity = &anti
	p.Spec.Affinity = &a
}
