// Package podtest builds pods of the API for tests. Amounts are texts such as "cpu=2 memory=1Gi acme.com/gpu=1".
//
// Invariant: equal arguments give equal pods. A text that is not a list of amounts panics, because only tests write it.
package podtest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// List parses amounts. The empty text is an empty list.
func List(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, f := range strings.Fields(text) {
		name, q, _ := strings.Cut(f, "=")
		out[v1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

// Box returns a container with requests and limits.
func Box(name, requests, limits string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: List(requests), Limits: List(limits)}}
}

// Exact returns a container whose limits equal its requests.
func Exact(name, amounts string) v1.Container { return Box(name, amounts, amounts) }

// Pod returns a pod in the namespace default, with the UID "uid-NAME".
func Pod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{Containers: containers}}
}
