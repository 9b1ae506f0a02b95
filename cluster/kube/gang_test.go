package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A PodGroup that does not exist is another thing than an API server that serves no PodGroups.
func TestPodGroupsAreRead(t *testing.T) {
	answers := map[string]string{
		"g": `{"spec":{"schedulingPolicy":{"gang":{"minCount":4}},` +
			`"schedulingConstraints":{"topology":[{"key":"rack"}]}}}`,
		"basic": `{"spec":{"schedulingPolicy":{"basic":{}}}}`,
		"one":   `{"spec":{"schedulingPolicy":{"gang":{"minCount":1}}}}`,
		"whole": `{"spec":{"schedulingPolicy":{"gang":{"minCount":2}},"disruptionMode":{"all":{}}}}`,
		"shares": `{"spec":{"schedulingPolicy":{"basic":{}},"disruptionMode":{"single":{}},` +
			`"resourceClaims":[{"name":"c"}]}}`,
		"part": `{"spec":{"parentCompositePodGroupName":"all","schedulingPolicy":{"basic":{}}}}`,
		"absent": `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,` +
			`"details":{"name":"absent","kind":"podgroups"}}`,
		"unserved": "404 page not found",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[len("/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/"):]
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(answers[name], "404") {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, answers[name])
	}))
	defer server.Close()
	r := &Reader{cfg: &rest.Config{Host: server.URL}}
	if needs, label, err := r.Gang(t.Context(), "ml", "g"); needs != 4 || label != "rack" || err != nil {
		t.Errorf("the group needs %d pods on nodes of one %q, %v", needs, label, err)
	}
	if _, _, err := r.Gang(t.Context(), "ml", "absent"); !apierrors.IsNotFound(err) {
		t.Errorf("a group that does not exist: %v", err)
	}
	if _, _, err := r.Gang(t.Context(), "ml", "unserved"); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("without the API: %v", err)
	}
	for name, want := range map[string]PodGroup{"g": {Least: 4, Label: "rack"}, "basic": {}, "one": {Least: 1},
		"part": {Part: true}, "whole": {Least: 2, Whole: true}, "shares": {Shares: true}} {
		if got, err := r.PodGroup(t.Context(), "ml", name); got != want || err != nil {
			t.Errorf("group %s is %+v, %v, want %+v", name, got, err, want)
		} else if alone := name == "basic" || name == "one" || name == "shares"; got.StartsAlone() != alone {
			t.Errorf("a pod of group %s starts alone: %t", name, !alone)
		}
	}
}
