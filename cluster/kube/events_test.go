package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
)

// answering answers requests in place of an API server.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// endless is a list of large events that has no end. read is how much was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	const begin = `{"kind": "EventList", "apiVersion": "v1", "items": [{"message": "`
	n := copy(p, begin[min(e.read, len(begin)):])
	for i := n; i < len(p); i++ {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

// However large the events of a pod are, little of them is read, and the pod's state is found without them. A message
// is clipped.
func TestEventsThatAreTooLarge(t *testing.T) {
	var body io.Reader
	var asked []string
	r, err := NewReader(&rest.Config{Host: "http://server", Transport: answering(func(q *http.Request) *http.Response {
		code, answer := http.StatusOK, io.Reader(strings.NewReader(`{"kind": "EventList", "apiVersion": "v1"}`))
		switch {
		case strings.HasSuffix(q.URL.Path, "/namespaces/ml/events"):
			asked, answer = append(asked, q.URL.RawQuery), body
		case !strings.HasSuffix(q.URL.Path, "/events"):
			code = http.StatusNotFound
			answer = strings.NewReader(`{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}`)
		}
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(answer), Request: q}
	})})
	if err != nil {
		t.Fatal(err)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", UID: "u"},
		Spec: v1.PodSpec{SchedulerName: "tenon-sheduler"}}
	large := &endless{}
	body = large
	got, err := r.Scheduling(t.Context(), p, nil)
	if err != nil || got.State != document.Unseen || large.read > 2*maxEventBytes {
		t.Errorf("state %v after %d bytes: %v", got.State, large.read, err)
	}
	large = &endless{}
	body = large
	history, err := r.History(t.Context(), "ml", "p")
	if err != nil || !strings.Contains(history.Problem, "bytes") || large.read > 2*maxEventBytes {
		t.Errorf("problem %q after %d bytes: %v", history.Problem, large.read, err)
	}
	body = strings.NewReader(fmt.Sprintf(`{"kind": "EventList", "apiVersion": "v1", "items": [
		{"message": %q, "reason": "FailedScheduling", "lastTimestamp": "2026-01-02T12:00:00Z"}]}`,
		strings.Repeat("x", 100<<10)))
	got, err = r.Scheduling(t.Context(), p, nil)
	if err != nil || len(got.Message) == 0 || len(got.Message) > 2*maxMessage {
		t.Errorf("the message has %d bytes: %v", len(got.Message), err)
	}
	for _, query := range asked {
		if !strings.Contains(query, "limit=") {
			t.Errorf("asked without a limit: %s", query)
		}
	}
}

// A pod that claims by its label to be of a job of an operator is one of its pods, in its own namespace only.
func TestPodsThatClaimToBeOfAJob(t *testing.T) {
	r, err := NewReader(&rest.Config{Host: "http://server", Transport: answering(func(q *http.Request) *http.Response {
		answer := `{"kind": "PodList", "apiVersion": "v1", "items": []}`
		if strings.Contains(q.URL.Path, "/namespaces/web/") &&
			q.URL.Query().Get("labelSelector") == "volcano.sh/job-name=train" {
			answer = `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"namespace": "web", "name": "liar"}}]}`
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(answer)), Request: q}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.labelledPods(t.Context(), "vcjob", "web", "train"); err != nil || len(got) != 1 {
		t.Errorf("pods %v, %v", got, err)
	}
	if got, err := r.labelledPods(t.Context(), "vcjob", "ml", "train"); err == nil {
		t.Errorf("pods of another namespace: %v", got)
	}
}
