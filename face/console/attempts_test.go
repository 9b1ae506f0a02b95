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

// Who guesses secrets is refused soon, and keeps nobody else out.
func TestGuessingIsBoundedByAddress(t *testing.T) {
	s := open(t)
	for name, of := range map[string]func(i int) string{
		"one address":         func(i int) string { return fmt.Sprintf("203.0.113.7:%d", 1000+i) },
		"one network of IPv6": func(i int) string { return fmt.Sprintf("[2001:db8::%x]:80", i+1) },
	} {
		guesses, refused := 0, 0
		for i := range 400 { // fewer than the requests that one address may make at once
			switch w := s.tries(of(i), fmt.Sprint("guess", i)); w.Code {
			case http.StatusUnauthorized:
				guesses++
			case http.StatusTooManyRequests:
				refused++
				if w.Header().Get("Retry-After") == "" {
					t.Fatal("no time to try again")
				}
			default:
				t.Fatalf("%s: answers %d %s", name, w.Code, w.Body)
			}
		}
		// 20 at once, and 2 for each second that this test takes.
		if guesses < 1 || guesses > 60 || refused < 340 {
			t.Errorf("%s: %d guesses were tried, %d were refused", name, guesses, refused)
		}
	}
	if w := s.tries("198.51.100.9:80", s.secret); w.Code != http.StatusOK {
		t.Errorf("a person at another address is answered %d %s", w.Code, w.Body)
	}
}

// Who floods the console keeps nobody out, neither who is signed in nor who comes.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	s := signedIn(t)
	flooded := map[int]int{}
	for i := range 3000 {
		r := httptest.NewRequest(http.MethodGet, s.URL+[]string{"/api/v1/cluster", "/", "/api/v1/openapi.json"}[i%3], nil)
		r.RemoteAddr = "203.0.113.7:80"
		r.Header.Set("Cookie", "tenon-console=guess")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		flooded[w.Code]++
	}
	if flooded[http.StatusTooManyRequests] < 1000 {
		t.Errorf("the flood is answered %v", flooded)
	}
	if code, body, _ := s.ask(t, "GET", "/api/v1/cluster", ""); code != http.StatusOK {
		t.Errorf("who is signed in is answered %d %s", code, body)
	}
	r := httptest.NewRequest(http.MethodGet, s.URL+"/", nil)
	r.RemoteAddr = "198.51.100.9:80"
	w := httptest.NewRecorder()
	if s.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("who comes is answered %d %s", w.Code, w.Body)
	}
}
