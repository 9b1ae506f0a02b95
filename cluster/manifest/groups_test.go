package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const podGroupForm = `
apiVersion: scheduling.k8s.io/%s
kind: PodGroup
metadata: {name: g, namespace: ml}
spec: {%s}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
`

func TestGroupsAreRead(t *testing.T) {
	for spec, want := range map[string]Group{
		"schedulingPolicy: {basic: {}}":           {Namespace: "ml", Name: "g"},
		"schedulingPolicy: {gang: {minCount: 3}}": {Namespace: "ml", Name: "g", Least: 3},
		"schedulingPolicy: {gang: {minCount: 3}}, schedulingConstraints: {topology: [{key: example.com/rack}]}, " +
			"disruptionMode: {all: {}}, priorityClassName: high, preemptionPolicy: Never, priority: 5, " +
			"resourceClaims: [{name: x}]": {Namespace: "ml", Name: "g", Least: 3, Label: "example.com/rack",
			PriorityClass: "high", Priority: new(int32(5)), PreemptionPolicy: "Never"},
		"schedulingPolicy: {gang: {minCount: 3}}, parentCompositePodGroupName: all, workloadRef: {workloadName: w, " +
			"templateName: t}": {Namespace: "ml", Name: "g", Least: 3, Parent: "all"},
	} {
		for _, version := range []string{"v1beta1", "v1alpha3"} {
			f, err := Read(fmt.Appendf(nil, podGroupForm, version, spec))
			if err != nil || !reflect.DeepEqual(f.Groups, []Group{want}) || len(f.Left) > 0 {
				t.Errorf("%s of %s: %v, %+v", spec, version, err, f)
			}
		}
	}
	if f, err := Read(fmt.Appendf(nil, podGroupForm, "v1alpha9", "any: 1")); err != nil || len(f.Groups) > 0 ||
		!slices.Equal(f.Left, []string{"document 1: PodGroup g (scheduling.k8s.io/v1alpha9)"}) {
		t.Errorf("a version that is not known: %v, %+v", err, f)
	}
	var none *NoPodsError
	alone, _, _ := strings.Cut(fmt.Sprintf(podGroupForm, "v1beta1", "schedulingPolicy: {basic: {}}"), "---")
	if _, err := Read([]byte(alone)); !errors.As(err, &none) || len(none.File.Groups) != 1 {
		t.Errorf("a group alone: %v", err)
	}
}

// What the API server refuses is an error that names document, object and field.
func TestGroupsThatTheAPIServerRefuses(t *testing.T) {
	const gang = "schedulingPolicy: {gang: {minCount: 1}}, "
	for spec, want := range map[string]string{
		"":                       "spec.schedulingPolicy: Required value",
		"schedulingPolicy: {}":   "spec.schedulingPolicy: Required value",
		"schedulingPolicy: null": "spec.schedulingPolicy: Required value",
		"schedulingPolicy: {basic: {}, gang: {minCount: 1}}":             "spec.schedulingPolicy: Forbidden",
		"schedulingPolicy: {gang: {}}":                                   "gang.minCount: Required value",
		"schedulingPolicy: {gang: {minCount: -1}}":                       "gang.minCount: Invalid value: -1",
		"schedulingPolicy: {gang: {minCount: 1e12}}":                     "minCount",
		"schedulingPolicy: {basic: {}}, replicas: 4":                     `unknown field "spec.replicas"`,
		gang + "schedulingConstraints: {topology: [{key: a}, {key: b}]}": "schedulingConstraints.topology: Too many",
		gang + "schedulingConstraints: {topology: [{key: a b}]}":         "topology[0].key: Invalid value",
	} {
		_, err := Read(fmt.Appendf(nil, podGroupForm, "v1beta1", spec))
		if err == nil || !strings.HasPrefix(err.Error(), "document 1: PodGroup g: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", spec, err, want)
		}
	}
}
