//go:build !upto1.35

package stage

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// An API server without the feature gate drops the group of a pod. The pod still belongs to it in the file.
func TestAnAPIServerMayDropTheGroup(t *testing.T) {
	s, api := made(t, []v1.Node{node("a", nil)}), &server{}
	file := pod(`, "schedulingGroup": {"podGroupName": "g"}`)
	api.stored.Spec.Containers = []v1.Container{{Name: "c"}}
	if w := read(t, s.Asking(t.Context(), api), file); !w.Asked || w.Group != "g" || !w.Ungrouped {
		t.Errorf("asked %t, group %q, dropped %t", w.Asked, w.Group, w.Ungrouped)
	}
	if w := read(t, s, file); w.Group != "g" || w.Ungrouped {
		t.Errorf("without an API server: group %q, dropped %t", w.Group, w.Ungrouped)
	}
}
