package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// tries signs in with a secret from an address.
func (s *site) tries(address, secret string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, s.URL+"/api/v1/session", strings.NewReader(secret))
	r.Header.Set("Content-Type", "text/plain")
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// A client that guesses secrets blocks no other client, not even at the same address, as behind an ingress.
func TestGuessesKeepNobodyOut(t *testing.T) {
	s := open(t)
	for i := range 100 {
		if w := s.tries(fmt.Sprintf("203.0.113.7:%d", 1000+i), fmt.Sprint("guess", i)); w.Code != http.StatusUnauthorized {
			t.Fatalf("answers %d %s", w.Code, w.Body)
		}
	}
	if w := s.tries("203.0.113.7:80", s.secret); w.Code != http.StatusOK {
		t.Errorf("a person at the same address is answered %d %s", w.Code, w.Body)
	}
}

// A client that floods the console blocks neither signed-in people nor others at the same address.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	s := signedIn(t)
	ask := func(path string) int {
		r := httptest.NewRequest(http.MethodGet, s.URL+path, nil)
		r.RemoteAddr = "203.0.113.7:80"
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 3000 {
		ask([]string{"/api/v1/cluster", "/", "/api/v1/openapi.json"}[i%3])
	}
	if code, body, _ := s.ask(t, "GET", "/api/v1/cluster", ""); code != http.StatusOK {
		t.Errorf("who is signed in is answered %d %s", code, body)
	}
	if code := ask("/"); code != http.StatusOK {
		t.Errorf("who comes from the same address is answered %d", code)
	}
}
