package pod

// MoveCostAnnotation is what it costs to move a pod so that others get room: a number of 1 to 1000, 1 without it.
const MoveCostAnnotation = "tenon.sh/move-cost"

// Annotations of others that keep pods where they are.
const (
	// SafeToEvict is Cluster Autoscaler's annotation, which users set to "false", or to "true" for pods of Jobs.
	SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// VolcanoGroup is Volcano's annotation with the PodGroup of a pod.
	VolcanoGroup = "scheduling.k8s.io/group-name"
	// KoordinatorGang is Koordinator's annotation with the gang of a pod.
	KoordinatorGang = "gang.scheduling.koordinator.sh/name"
)
