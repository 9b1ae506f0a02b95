package kube

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
)

// Numbers reports whether a label or an annotation of this key numbers the pods of a controller.
func Numbers(key string) bool {
	return key == appsv1.StatefulSetPodNameLabel || key == appsv1.PodIndexLabel ||
		key == batchv1.JobCompletionIndexAnnotation // a label, too
}

// Unnumbered returns labels or annotations without those that number the pods of a controller.
func Unnumbered(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool { return Numbers(key) })
	return out
}
