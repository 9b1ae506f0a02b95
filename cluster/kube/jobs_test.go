package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// Without the right to list Jobs, these are not known, and that is no error.
func TestJobsAreRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/batch/v1/namespaces/ml/jobs":
			fmt.Fprint(w, `{"kind":"JobList","apiVersion":"batch/v1","items":[{"metadata":{"uid":"j"},"spec":{`+
				`"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}`+
				`]}}}]}`)
		case "/apis/batch/v1/namespaces/closed/jobs":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	r := &Reader{cfg: &rest.Config{Host: server.URL}}
	all, known, err := r.Jobs(t.Context(), "ml")
	if err != nil || !known || len(all) != 1 || all[0].UID != "j" || all[0].Spec.PodFailurePolicy == nil {
		t.Errorf("%+v, known %t, %v", all, known, err)
	}
	if all, known, err = r.Jobs(t.Context(), "closed"); err != nil || known || len(all) > 0 {
		t.Errorf("without the right: %+v, known %t, %v", all, known, err)
	}
	if _, _, err = r.Jobs(t.Context(), "broken"); err == nil {
		t.Error("a failure of the API server is no error")
	}
}
