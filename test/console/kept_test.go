package console_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kept shows room that a ProvisioningRequest keeps, on the page of its node.
func kept(t *testing.T, b browser, c cluster) {
	t.Helper()
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	c.create(t, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}, "", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "provisioningrequests.autoscaling.x-k8s.io",
			"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler/pull/5848"}},
		"spec": map[string]any{"group": "autoscaling.x-k8s.io", "scope": "Namespaced",
			"names": map[string]any{"kind": "ProvisioningRequest", "listKind": "ProvisioningRequestList",
				"plural": "provisioningrequests", "singular": "provisioningrequest"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": open}}}}})
	requests := schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1", Resource: "provisioningrequests"}
	for {
		// The API server serves the kind a moment later.
		if _, err := c.any.Resource(requests).List(t.Context(), metav1.ListOptions{}); err == nil {
			break
		} else if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	c.create(t, requests, "default", map[string]any{"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
		"metadata": map[string]any{"name": "coming"},
		"spec": map[string]any{"provisioningClassName": "check-capacity.tenon.sh",
			"podSets": []any{map[string]any{"count": int64(2), "podTemplateRef": map[string]any{"name": "shape"}}}},
		"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Provisioned", "status": "True", "reason": "Booked", "message": "",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
			"provisioningClassDetails": map[string]any{
				"tenon.sh/places-0": `[{"node":"gpu-8","count":2}]`,
				"tenon.sh/pod-0": `{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"2","memory":"1Gi"},` +
					`"requests":{"cpu":"2","memory":"1Gi"}}}]}}`}}})
	goTo(b, "#/", "Cluster")
	goTo(b, "#/nodes/gpu-8", "gpu-8")
	b.says(".note", "Room is kept for pods that have not come yet: 2 of request default/coming.")
}

// create creates an object.
func (c cluster) create(t *testing.T, kind schema.GroupVersionResource, namespace string, object map[string]any) {
	t.Helper()
	_, err := c.any.Resource(kind).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
