package authfilter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

// reviewer answers reviews as an API server does: the token t-X belongs to user X, and only prometheus, of the group
// monitors, may get /metrics.
type reviewer struct {
	down   atomic.Bool
	hold   chan struct{} // where not nil, a TokenReview is answered when it is closed
	held   chan struct{} // receives for each review that waits
	tokens atomic.Int32
	access atomic.Int32
}

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.down.Load() {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		a.tokens.Add(1)
		if a.hold != nil {
			a.held <- struct{}{}
			<-a.hold
		}
		var in authenticationapi.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		user, ok := strings.CutPrefix(in.Spec.Token, "t-")
		in.Status.Authenticated = ok
		in.Status.User = authenticationapi.UserInfo{Username: user, Groups: []string{"monitors"},
			Extra: map[string]authenticationapi.ExtraValue{"from": {"here"}}}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(in)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		a.access.Add(1)
		var in authorizationapi.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		s := in.Spec
		in.Status.Allowed = s.User == "prometheus" && len(s.Groups) == 1 && s.Groups[0] == "monitors" &&
			s.Extra["from"][0] == "here" && s.NonResourceAttributes.Path == "/metrics" && s.NonResourceAttributes.Verb == "get"
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(in)
	default:
		http.NotFound(w, r)
	}
}

// opened returns a filter, a handler behind it, and the filter's clock.
func opened(t *testing.T, a *reviewer) (*Filter, http.Handler, *time.Time) {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	content := rest.ContentConfig{ContentType: "application/json"}
	f, err := New(&rest.Config{Host: s.URL, ContentConfig: content}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	f.now = func() time.Time { return now }
	return f, f.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })), &now
}

func ask(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWhoPasses(t *testing.T) {
	_, h, _ := opened(t, &reviewer{})
	for _, c := range []struct {
		method, path, authorization string
		want                        int
	}{
		{"GET", "/metrics", "Bearer t-prometheus", 200},
		{"GET", "/metrics", "bearer t-prometheus", 200},
		{"GET", "/other", "Bearer t-prometheus", 403},
		{"POST", "/metrics", "Bearer t-prometheus", 403},
		{"GET", "/metrics", "Bearer t-somebody", 403},
		{"GET", "/metrics", "Bearer stolen", 401},
		{"GET", "/metrics", "Bearer ", 401},
		{"GET", "/metrics", "Basic t-prometheus", 401},
		{"GET", "/metrics", "t-prometheus", 401},
		{"GET", "/metrics", "", 401},
		{"GET", "/metrics", "Bearer t-" + strings.Repeat("x", maxToken), 401},
	} {
		w := ask(h, c.method, c.path, c.authorization)
		if w.Code != c.want || strings.Contains(w.Body.String(), "secret") != (c.want == 200) {
			t.Errorf("%s %s with %.40q is answered %d %q, want %d", c.method, c.path, c.authorization, w.Code, w.Body, c.want)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (c.want == 401) {
			t.Errorf("%.40q is challenged %q", c.authorization, challenge)
		}
	}
}

func TestDecisionsHoldForAWhile(t *testing.T) {
	a := &reviewer{}
	_, h, now := opened(t, a)
	for _, c := range []struct {
		after time.Duration
		asked int32
	}{{0, 1}, {allowFor - 1, 1}, {1, 2}, {allowFor, 3}} {
		*now = now.Add(c.after)
		if w := ask(h, "GET", "/metrics", "Bearer t-prometheus"); w.Code != 200 {
			t.Errorf("answered %d", w.Code)
		}
		if a.tokens.Load() != c.asked || a.access.Load() != c.asked {
			t.Errorf("after %s: %d and %d reviews, want %d", c.after, a.tokens.Load(), a.access.Load(), c.asked)
		}
	}
	// A refused user may be allowed soon, but is not reviewed at every request.
	a.tokens.Store(0)
	for _, c := range []struct {
		after time.Duration
		asked int32
	}{{0, 1}, {refuseFor - 1, 1}, {1, 2}} {
		*now = now.Add(c.after)
		if w := ask(h, "GET", "/metrics", "Bearer nobody"); w.Code != 401 || a.tokens.Load() != c.asked {
			t.Errorf("after %s: answered %d with %d reviews, want %d", c.after, w.Code, a.tokens.Load(), c.asked)
		}
	}
}

// While the API server is down, only requests that it allowed a moment ago pass, and no decision is kept.
func TestAPIServerDown(t *testing.T) {
	a := &reviewer{}
	_, h, now := opened(t, a)
	ask(h, "GET", "/metrics", "Bearer t-prometheus")
	a.down.Store(true)
	if w := ask(h, "GET", "/metrics", "Bearer t-prometheus"); w.Code != 200 {
		t.Errorf("allowed a moment ago: %d", w.Code)
	}
	*now = now.Add(allowFor)
	if w := ask(h, "GET", "/metrics", "Bearer t-prometheus"); w.Code != 503 {
		t.Errorf("allowed long ago: %d", w.Code)
	}
	a.down.Store(false)
	if w := ask(h, "GET", "/metrics", "Bearer t-prometheus"); w.Code != 200 {
		t.Errorf("up again: %d", w.Code)
	}
}

func TestTooManyAsk(t *testing.T) {
	a := &reviewer{hold: make(chan struct{}), held: make(chan struct{}, maxReviews)}
	_, h, _ := opened(t, a)
	answers := make(chan int, maxReviews)
	for i := range maxReviews {
		go func() { answers <- ask(h, "GET", "/metrics", fmt.Sprint("Bearer nobody", i)).Code }()
	}
	for range maxReviews {
		<-a.held
	}
	if w := ask(h, "GET", "/metrics", "Bearer t-prometheus"); w.Code != 429 {
		t.Errorf("one more is answered %d", w.Code)
	}
	close(a.hold)
	for range maxReviews {
		if code := <-answers; code != 401 {
			t.Errorf("one of those that waited is answered %d", code)
		}
	}
}

// The cache returns the decision that was put last. Decisions last no longer than they should, and their number is
// bounded.
func TestDecisions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := newDecisions(allowFor)
		now := time.Unix(1e9, 0)
		model := map[hash]decision{}
		for range rapid.IntRange(0, 600).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(r, "ms")) * time.Millisecond)
			n := rapid.IntRange(0, 400).Draw(r, "key")
			key := hash{byte(n), byte(n >> 8)}
			code := rapid.SampledFrom([]int{200, 401, 403}).Draw(r, "code")
			d.put(key, code, now)
			model[key] = decision{code, now.Add(allowFor)}
			if got, ok := d.get(key, now); !ok || got != code {
				r.Fatalf("just put %d, got %d, %v", code, got, ok)
			}
			if len(d.known) > maxDecisions || len(d.order) != len(d.known) {
				r.Fatalf("%d decisions in an order of %d", len(d.known), len(d.order))
			}
		}
		for key, want := range model {
			if got, ok := d.get(key, now); ok && (got != want.code || !now.Before(want.until)) {
				r.Fatalf("kept %d, want %+v", got, want)
			}
		}
	})
}
