package manifest

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// This file checks the objects that have pod templates. The API server has rules for such an object in addition to
// the rules for its pods, and refuses the whole object (pkg/apis/apps/validation, pkg/apis/batch/validation).

// selectorRefusal returns why the API server refuses the selector or the pod template of an object whose pods always
// restart, such as a Deployment; "" if it accepts both.
func selectorRefusal(s *metav1.LabelSelector, t *v1.PodTemplateSpec) string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return "spec.selector is missing or empty"
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case err != nil:
		return "spec.selector: " + err.Error()
	case !selector.Matches(labels.Set(t.Labels)):
		return "spec.selector does not match spec.template.metadata.labels"
	}
	return restartRefusal(t, "spec", v1.RestartPolicyAlways)
}

// restartRefusal returns a text that names the restart policy of a template if it is not one of want, and otherwise
// "". The default policy is Always.
func restartRefusal(t *v1.PodTemplateSpec, path string, want ...v1.RestartPolicy) string {
	have := cmp.Or(t.Spec.RestartPolicy, v1.RestartPolicyAlways)
	if slices.Contains(want, have) {
		return ""
	}
	return fmt.Sprintf("%s.template.spec.restartPolicy: %s is not one of %v", path, have, want)
}

// hasPods reports whether kinds has a kind of this name, in any group and version.
func hasPods(kind string) bool {
	for gvk := range kinds {
		if gvk.Kind == kind {
			return true
		}
	}
	return false
}
