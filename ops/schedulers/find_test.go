package schedulers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// inPlace answers requests in place of an API server.
type inPlace func(*http.Request) *http.Response

func (f inPlace) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// of returns a Deployment that looks like tenon-scheduler.
func of(namespace, name string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Template.Spec = v1.PodSpec{
		Containers: []v1.Container{{Args: []string{"--config=/etc/x/scheduler.yaml"},
			VolumeMounts: []v1.VolumeMount{{Name: "x", MountPath: "/etc/x"}}}},
		Volumes: []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: name}}}}}}
	return d
}

// finds returns where the schedulers are, by their ids, if Deployments are these. forbidden are namespaces whose
// Deployments may not be listed, "" for all together.
func finds(t *testing.T, forbidden []string, all ...appsv1.Deployment) (ids []string, limits int) {
	t.Helper()
	c, err := New(&rest.Config{Host: "http://server", Transport: inPlace(func(r *http.Request) *http.Response {
		_, path, _ := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(path, "/")
		list := appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}}
		for _, d := range all {
			tenon := strings.Contains(r.URL.RawQuery, "tenon-scheduler")
			if tenon && (namespace == "" || namespace == d.Namespace) {
				list.Items = append(list.Items, d)
			}
		}
		if limit := r.URL.Query().Get("limit"); limit == fmt.Sprint(maxFound) && len(list.Items) > maxFound {
			list.Items = list.Items[:maxFound]
		}
		code, body := http.StatusOK, any(list)
		if slices.Contains(forbidden, namespace) {
			code = http.StatusForbidden
			body = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden}
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(string(text))), Request: r}
	})}, "test")
	if err != nil {
		t.Fatal(err)
	}
	places, limited, err := c.places(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.schedulerType == kinds()[0].schedulerType {
			ids = append(ids, p.id())
		}
	}
	return ids, len(limited)
}

// Whoever may create a Deployment in a namespace cannot add a scheduler beside one of a usual namespace. Elsewhere, a
// few are looked at.
func TestWhoIsTakenForAScheduler(t *testing.T) {
	var many []appsv1.Deployment
	for i := range 800 {
		many = append(many, of("web", fmt.Sprint("d", i)))
	}
	for name, c := range map[string]struct {
		forbidden []string
		all       []appsv1.Deployment
		want      []string
		limits    int
	}{
		"one, and a user's": {nil, []appsv1.Deployment{of("web", "mine"), of("tenon-system", "tenon")},
			[]string{"tenon-system/tenon"}, 0},
		"of kube-system": {nil, []appsv1.Deployment{of("kube-system", "tenon"), of("web", "mine")},
			[]string{"kube-system/tenon"}, 0},
		"one, and a user's, where kube-system may not be listed": {[]string{"kube-system"},
			[]appsv1.Deployment{of("web", "mine"), of("tenon-system", "tenon")}, []string{"tenon-system/tenon"}, 0},
		"of a release's namespace": {nil, []appsv1.Deployment{of("numa", "tenon")}, []string{"numa/tenon"}, 0},
		"none":                     {nil, nil, []string{"tenon-system/tenon-scheduler"}, 0},
		"for the usual namespace alone": {[]string{"", "kube-system"}, []appsv1.Deployment{of("tenon-system", "tenon")},
			[]string{"tenon-system/tenon"}, 0},
		"for all but the usual namespaces": {[]string{"kube-system", "tenon-system", "volcano-system"},
			[]appsv1.Deployment{of("numa", "tenon")}, []string{"numa/tenon"}, 0},
		"for nobody": {[]string{"", "kube-system", "tenon-system", "volcano-system"},
			[]appsv1.Deployment{of("tenon-system", "tenon")}, []string{"tenon-system/tenon-scheduler"}, 2},
	} {
		got, limits := finds(t, c.forbidden, c.all...)
		if !slices.Equal(got, c.want) || limits != c.limits {
			t.Errorf("%s: %v with %d limits, want %v with %d", name, got, limits, c.want, c.limits)
		}
	}
	if got, _ := finds(t, nil, many...); len(got) != maxFound {
		t.Errorf("%d Deployments of a user are looked at", len(got))
	}
}
