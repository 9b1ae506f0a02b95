package pod

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MoveCostAnnotation is what it costs to move a pod so that others get room: a number of 1 to 1000, 1 without it.
const MoveCostAnnotation = "tenon.sh/move-cost"

// Annotations and labels of others that keep pods where they are.
const (
	// SafeToEvict is Cluster Autoscaler's annotation, which users set to "false", or to "true" for pods of Jobs.
	SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// VolcanoGroup is Volcano's annotation with the PodGroup of a pod.
	VolcanoGroup = "scheduling.k8s.io/group-name"
	// CoschedulingGroup is the label with the PodGroup of a pod by which Coscheduling schedules (scheduler-plugins,
	// apis/scheduling/v1alpha1). Koordinator does not read it.
	CoschedulingGroup = "scheduling.x-k8s.io/pod-group"
	// YuniKornGroup is YuniKorn's annotation with the task group of a pod (yunikorn-k8shim, pkg/common/constants).
	YuniKornGroup = "yunikorn.apache.org/task-group-name"
	// JobSetExclusive is JobSet's annotation on pods that it keeps together in one domain of a topology.
	JobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	// KoordinatorGang is Koordinator's annotation with the gang of a pod. It counts for pods without the labels
	// KoordinatorGroup, which goes first, and KoordinatorLightweight (koordinator, extension.GetGangName).
	KoordinatorGang        = "gang.scheduling.koordinator.sh/name"
	KoordinatorGroup       = "pod-group.scheduling.sigs.k8s.io"
	KoordinatorLightweight = "pod-group.scheduling.sigs.k8s.io/name"
)

// replacing are the kinds of controllers that create a pod like an evicted one.
var replacing = map[schema.GroupKind]schema.GroupVersionResource{
	{Group: "apps", Kind: "ReplicaSet"}:  {Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Kind: "StatefulSet"}: {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Kind: "ReplicationController"}:      {Version: "v1", Resource: "replicationcontrollers"},
	{Group: "batch", Kind: "Job"}:        {Group: "batch", Version: "v1", Resource: "jobs"},
}

// ReplacedBy returns the resource of the controller of a pod if it creates a pod like an evicted one, as long as it has
// replicas. Other controllers may do otherwise, also those of a kind of the same name in another API: what runs steps
// takes an eviction for a failure.
func ReplacedBy(p *v1.Pod) (of schema.GroupVersionResource, known bool) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return of, false
	}
	of, known = replacing[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
	return of, known
}
