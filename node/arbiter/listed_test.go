package arbiter

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// inPlace answers requests in place of an API server.
type inPlace func(*http.Request) *http.Response

func (f inPlace) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// Of the node's pods that are listed, only what is read is kept, whatever their authors have written into them.
func TestListedPodsAreSmall(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi")}
	var pods v1.PodList
	for _, name := range []string{"a", "b", "c"} {
		pods.Items = append(pods.Items, v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			UID: types.UID("uid-" + name), Labels: map[string]string{"x": long},
			Annotations: map[string]string{"x": long, v1alpha1.DecisionAnnotation: "{}"}},
			Spec: v1.PodSpec{NodeName: "n", InitContainers: []v1.Container{{Name: "i", Command: []string{long}}},
				Containers: []v1.Container{{Name: "c", Env: []v1.EnvVar{{Name: "X", Value: long}},
					Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}}})
	}
	text, err := json.Marshal(pods)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPods(Config{NodeName: "n", Translate: pod.ToPlace, Logger: logr.Discard(),
		PodResourcesSocket: t.TempDir() + "/none", REST: &rest.Config{Host: "http://server",
			Transport: inPlace(func(r *http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(string(text))), Request: r}
			})}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.refresh(t.Context()); err != nil || len(p.listed) != len(pods.Items) {
		t.Fatalf("%d pods are listed: %v", len(p.listed), err)
	}
	for i, got := range p.listed {
		whole, _ := pod.ToPlace(&pods.Items[i])
		spec, err := pod.ToPlace(got)
		if err != nil || !reflect.DeepEqual(spec, whole) || got.Annotations[v1alpha1.DecisionAnnotation] != "{}" {
			t.Errorf("pod %s asks for %+v, and for %+v as it was: %v", got.Name, spec, whole, err)
		}
		if n := got.Size(); n > 1<<10 {
			t.Errorf("%d bytes of pod %s are kept", n, got.Name)
		}
	}
}
