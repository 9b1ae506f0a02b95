package console_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/face/console"
)

func TestNobodyWithoutASessionReadsAnything(t *testing.T) {
	s := open(t)
	for _, path := range []string{"/api/v1/cluster", "/api/v1/nodes/a", "/api/v1/pods", "/api/v1/pods/ml/p",
		"/api/v1/fitting", "/api/v1/changes", "/api/v1/session"} {
		for _, header := range []string{"X: y", "Cookie: tenon-console=x", "Authorization: Bearer x"} {
			if code, body, _ := s.ask(t, "GET", path, "", header); code != http.StatusUnauthorized {
				t.Errorf("GET %s with %s answers %d: %.200s", path, header, code, body)
			}
		}
	}
	for _, path := range []string{"/api/v1/simulate", "/api/v1/check"} {
		if code, _, _ := s.ask(t, "POST", path, manifest, "Content-Type: application/yaml"); code != 401 {
			t.Errorf("POST %s answers %d", path, code)
		}
	}
}

func TestASecretIsWorthOneSession(t *testing.T) {
	s, other := open(t), open(t)
	text := "Content-Type: text/plain"
	for _, wrong := range []string{"", "x", s.secret[:len(s.secret)-1], s.secret + "x", strings.ToLower(s.secret),
		other.secret} {
		if code, _, h := s.ask(t, "POST", "/api/v1/session", wrong, text); code != 401 || h.Get("Set-Cookie") != "" {
			t.Errorf("secret %q answers %d", wrong, code)
		}
	}
	code, _, h := s.ask(t, "POST", "/api/v1/session", s.secret, text)
	cookie := h.Get("Set-Cookie")
	if code != 200 || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Fatalf("the right secret answers %d, cookie %q", code, cookie)
	}
	if code, _, _ := s.ask(t, "POST", "/api/v1/session", s.secret, text); code != 401 && code != 503 {
		t.Errorf("the secret works again: %d", code)
	}
	value, _, _ := strings.Cut(cookie, ";")
	if code, _, _ := s.ask(t, "GET", "/api/v1/session", "", "Cookie: "+value); code != 200 {
		t.Errorf("the session answers %d", code)
	}
	if code, _, _ := other.ask(t, "GET", "/api/v1/session", "", "Cookie: "+value); code != 401 {
		t.Errorf("another console takes the session: %d", code)
	}
	if code, _, _ := s.ask(t, "DELETE", "/api/v1/session", "", "Cookie: "+value); code != 204 {
		t.Errorf("signing out answers %d", code)
	}
	if code, _, _ := s.ask(t, "GET", "/api/v1/session", "", "Cookie: "+value); code != 401 {
		t.Errorf("after signing out the session answers %d", code)
	}
}

func TestASecretExpires(t *testing.T) {
	now := time.Unix(1e9, 0)
	secret, open := console.OneTime(&console.Identity{}, time.Minute, func() time.Time { return now })
	now = now.Add(time.Minute + 1)
	if _, err := open(t.Context(), console.Credential{Secret: secret}); !errors.Is(err, console.ErrSignIn) {
		t.Errorf("after a minute: %v", err)
	}
}

// A token that the API server does not accept any more ends the session.
func TestAnExpiredTokenSignsOut(t *testing.T) {
	s := signedIn(t)
	ended := false
	who := &console.Identity{Valid: func() bool { return !ended }}
	open := func(context.Context, console.Credential) (*console.Identity, error) { return who, nil }
	all := console.NewSessions(open, true, 1, time.Hour)
	_, cookie, err := all.SignIn(t.Context(), console.Credential{Secret: "token"})
	if err != nil || !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Fatalf("cookie %v, error %v", cookie, err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	r.AddCookie(cookie)
	if _, err := all.Identify(r); err != nil {
		t.Fatal(err)
	}
	ended = true
	if _, err := all.Identify(r); !errors.Is(err, console.ErrSignIn) {
		t.Errorf("error %v", err)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	s := signedIn(t)
	yaml := "Content-Type: application/yaml"
	for _, c := range []struct {
		method, path string
		headers      []string
		code         int
	}{
		{"GET", "/api/v1/cluster", []string{"Host: evil.example"}, 421},
		{"GET", "/", []string{"Host: evil.example:80"}, 421},
		{"GET", "/api/v1/cluster", []string{"Host: 127.0.0.1"}, 421},
		{"GET", "/api/v1/cluster", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"GET", "/api/v1/changes", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"GET", "/api/v1/pods", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate",
			"Sec-Fetch-Dest: document"}, 403},
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"POST", "/api/v1/simulate", []string{yaml, "Origin: http://evil.example"}, 403},
		{"POST", "/api/v1/simulate", []string{yaml, "Origin: null"}, 403},
		{"POST", "/api/v1/simulate", []string{yaml, "Sec-Fetch-Site: cross-site"}, 403},
		{"POST", "/api/v1/session", []string{"Content-Type: text/plain", "Origin: http://127.0.0.1:1"}, 403},
		{"DELETE", "/api/v1/session", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"POST", "/api/v1/simulate", []string{yaml, "Origin: " + s.URL, "Sec-Fetch-Site: same-origin"}, 200},
	} {
		if code, body, _ := s.ask(t, c.method, c.path, manifest, c.headers...); code != c.code {
			t.Errorf("%s %s with %v answers %d, want %d: %.200s", c.method, c.path, c.headers, code, c.code, body)
		}
	}
}

func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	s := open(t)
	code, body, h := s.ask(t, "GET", "/", "")
	if code != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		t.Fatalf("the page answers %d %s", code, h.Get("Content-Type"))
	}
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if got := h.Get("Content-Security-Policy"); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
			t.Errorf("policy %q", got)
		}
	}
	for _, no := range []string{"http://", "https://", "<style", "onclick", "style="} {
		if strings.Contains(body, no) {
			t.Errorf("the page has %s", no)
		}
	}
}

func TestManyRequestsAreRefused(t *testing.T) {
	s := open(t)
	for range 10_000 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = strings.TrimPrefix(s.URL, "http://")
		w := httptest.NewRecorder()
		if s.Config.Handler.ServeHTTP(w, r); w.Code == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("10,000 requests at once are answered")
}

// slowConnections are 10,000, or as many as this process may open on both sides.
func slowConnections(t *testing.T) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	return int(min(10_000, files.Cur-600)) // on the server's side at most 256 are open
}

// Clients that send half a request keep nobody out, however many they are.
func TestSlowConnectionsKeepNobodyOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- console.Serve(ctx, on, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	}()
	var d net.Dialer
	for i := range slowConnections(t) {
		c, err := d.DialContext(ctx, "tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n")[:i%20]); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+on.Addr().String(), nil)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Two sessions of one token share a view; the view ends with the last of them, and a token does not open another's.
func TestViewsAreSharedByTokenAndEnd(t *testing.T) {
	opened, closed := map[string]int{}, map[string]int{}
	sessions := console.Tokens{Sessions: console.NewSessions(console.Shared(func(_ context.Context, c console.Credential) (
		*console.Identity, error) {
		token := c.Secret
		if token == "expired" {
			return nil, console.ErrSignIn
		}
		opened[token]++
		return &console.Identity{Name: token, Close: func() { closed[token]++ }}, nil
	}), true, 3, time.Hour)}
	request := func(cookie *http.Cookie, bearer string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		return r
	}
	_, cookie, err := sessions.SignIn(t.Context(), console.Credential{Secret: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if who, err := sessions.Identify(request(nil, "anna")); err != nil || who.Name != "anna" {
			t.Fatalf("%v, %v", who, err)
		}
	}
	if who, err := sessions.Identify(request(cookie, "bob")); err != nil || who.Name != "bob" {
		t.Errorf("a proxy that sends bob's token gets %v, %v", who, err)
	}
	if _, err := sessions.Identify(request(nil, "expired")); err == nil {
		t.Error("an expired token is accepted")
	}
	if _, _, err := sessions.SignIn(t.Context(), console.Credential{Secret: "carl"}); err == nil {
		t.Error("a fourth session begins")
	}
	sessions.SignOut(request(cookie, ""))
	if opened["anna"] != 1 || closed["anna"] != 0 || opened["bob"] != 1 {
		t.Errorf("opened %v, closed %v", opened, closed)
	}
	if _, err := sessions.Identify(request(cookie, "")); !errors.Is(err, console.ErrSignIn) {
		t.Errorf("after signing out: %v", err)
	}
}

// Everything that an identity can do is there for everybody who shares its view.
func TestASharedViewLacksNothing(t *testing.T) {
	full := &console.Identity{Name: "anna"}
	fields := reflect.ValueOf(full).Elem()
	for i := range fields.NumField() {
		f := fields.Field(i)
		if f.CanSet() && f.Kind() == reflect.Func {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		}
	}
	open := console.Shared(func(context.Context, console.Credential) (*console.Identity, error) { return full, nil })
	got, err := open(t.Context(), console.Credential{Secret: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range fields.NumField() {
		if f := fields.Type().Field(i); f.IsExported() && f.Type.Kind() == reflect.Func &&
			reflect.ValueOf(got).Elem().Field(i).IsNil() {
			t.Errorf("%s is missing", f.Name)
		}
	}
}

// Who signs in at the same time as others is counted, too: no more views are opened than sessions may begin.
func TestSignInsAtTheSameTimeAreCounted(t *testing.T) {
	const most, tries = 2, 5
	opening, proceed := make(chan struct{}, tries), make(chan struct{})
	sessions := console.NewSessions(func(context.Context, console.Credential) (*console.Identity, error) {
		opening <- struct{}{}
		<-proceed
		return &console.Identity{}, nil
	}, true, most, time.Hour)
	refused := make(chan error, tries)
	for range tries {
		go func() {
			_, _, err := sessions.SignIn(t.Context(), console.Credential{})
			refused <- err
		}()
	}
	for range tries - most {
		if err := <-refused; err == nil {
			t.Error("a session began before its view was open")
		}
	}
	close(proceed)
	for range most {
		if err := <-refused; err != nil {
			t.Errorf("one of the first %d is refused: %v", most, err)
		}
	}
	if n := len(opening); n != most {
		t.Errorf("%d views were opened, want %d", n, most)
	}
}

// Whoever tries tokens soon asks the API server no more, and keeps nobody out who has a session.
func TestTriedTokensAreBounded(t *testing.T) {
	asked := 0
	open := func(_ context.Context, c console.Credential) (*console.Identity, error) {
		asked++
		if c.Secret != "good" {
			return nil, console.ErrSignIn
		}
		return &console.Identity{Name: "ada"}, nil
	}
	tokens := console.Tokens{Sessions: console.NewSessions(open, true, 10, time.Minute)}
	from := "192.0.2.1:1"
	identify := func(token string) error {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/nodes", http.NoBody)
		r.RemoteAddr = from
		r.Header.Set("Authorization", "Bearer "+token)
		_, err := tokens.Identify(r)
		return err
	}
	if err := identify("good"); err != nil {
		t.Fatal(err)
	}
	const tries = 1000
	refused := 0
	for i := range tries {
		if err := identify(fmt.Sprint("bad-", i)); err == nil {
			t.Fatalf("token bad-%d is accepted", i)
		} else if !errors.Is(err, console.ErrSignIn) {
			refused++
		}
		if err := identify("good"); err != nil {
			t.Fatalf("after %d wrong tokens, the session of another token answers: %v", i, err)
		}
	}
	if asked > tries/2 || refused+asked != tries+1 {
		t.Errorf("the API server is asked for %d of %d tokens, and %d are refused before that", asked, tries+1, refused)
	}
	// The others of the address wait, and new clients elsewhere do not.
	for _, elsewhere := range []string{"192.0.2.2:1", "[2001:db8::1]:1"} {
		if from = elsewhere; identify("new") == nil || !errors.Is(identify("new"), console.ErrSignIn) {
			t.Errorf("after wrong tokens from one address, none is examined from %s", elsewhere)
		}
	}
	asked = 0
	for i := range tries {
		from = fmt.Sprintf("[2001:db8:%x::%x]:1", i, i)
		if err := identify("bad"); err == nil {
			t.Fatal("a wrong token is accepted")
		}
	}
	if asked > tries/2 {
		t.Errorf("from %d addresses, the API server is asked for %d tokens", tries, asked)
	}
	from = "192.0.2.1:1"
	if err := identify("good"); err != nil {
		t.Errorf("after wrong tokens from everywhere, a session answers: %v", err)
	}
}
