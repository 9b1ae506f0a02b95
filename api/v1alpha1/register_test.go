package v1alpha1

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestTypedReadsWhatADynamicInformerGets(t *testing.T) {
	want := big(t)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := raw["status"]; ok {
		t.Error("an agent's object has a status")
	}
	u := &unstructured.Unstructured{Object: raw}
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"manager": "tenon-agent"}}, "metadata",
		"managedFields"); err != nil {
		t.Fatal(err)
	}
	got, err := Typed(u)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestOneUnreadableObjectStopsNoInformer(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"machine": "yes"}}
	u.SetName("node-b")
	u.SetResourceVersion("7")
	got, err := Typed(u)
	if err != nil {
		t.Fatalf("transform failed: %v", err)
	}
	l := got.(*NodeLayout)
	if l.Name != "node-b" || l.ResourceVersion != "7" {
		t.Errorf("object is %+v", l)
	}
	if _, err := l.Core(); err == nil || !strings.Contains(err.Error(), "node-b") ||
		!strings.Contains(err.Error(), "decode") {
		t.Errorf("Core says %v", err)
	}
	if _, err := Typed("text"); err == nil {
		t.Error("a string became a layout")
	}
}
