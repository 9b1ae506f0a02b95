package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
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

// A session ends when the API server no longer accepts its token.
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

// The console refuses requests of one person beyond a rate, and does not refuse other people's requests then.
func TestManyRequestsOfAPersonAreRefused(t *testing.T) {
	people := byHeader{}
	h, err := console.New(console.Config{Hosts: []string{"example.com"}, Identities: people})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(who string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/session", nil)
		r.Header.Set("Who", who)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	refused := 0
	for i := range 10_000 {
		// Service accounts of one namespace are one person.
		if ask(fmt.Sprintf("system:serviceaccount:evil:%d", i)) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("10,000 requests of the service accounts of one namespace are answered")
	}
	for _, who := range []string{"anna", "system:serviceaccount:ml:anna"} {
		if code := ask(who); code != http.StatusOK {
			t.Errorf("after that, %s is answered %d", who, code)
		}
	}
}

// byHeader are identities by the name in a header.
type byHeader struct{}

func (byHeader) Identify(r *http.Request) (*console.Identity, error) {
	return &console.Identity{Name: r.Header.Get("Who"), View: fixed{}}, nil
}

func (byHeader) SignIn(context.Context, console.Credential) (*console.Identity, *http.Cookie, error) {
	return nil, nil, console.ErrSignIn
}

func (byHeader) SignOut(*http.Request) *http.Cookie { return &http.Cookie{} }

// slowConnections returns 10,000, or fewer where this process may not open as many on both sides.
func slowConnections(t *testing.T) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	return int(min(10_000, files.Cur-600)) // on the server's side at most 256 are open
}

// However many clients send half a request, other clients are served.
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

// However many clients send the head of a request and no body, and however long the handler waits for them, others are
// served.
func TestHeadsWithoutBodiesKeepNobodyOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const clients = 300 // more than connections may be open
	reading, done := make(chan struct{}, 2*clients), make(chan error)
	go func() {
		done <- console.Serve(ctx, on, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reading <- struct{}{}
			_, _ = io.ReadAll(r.Body)
			w.WriteHeader(204)
		}))
	}()
	var d net.Dialer
	for range clients {
		c, err := d.DialContext(ctx, "tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-reading
	}
	for _, body := range []string{"", "0123456789"} {
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://"+on.Addr().String(), strings.NewReader(body))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("a whole request with %d bytes: %v", len(body), err)
		}
		res.Body.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Two sessions of one token share a view. The view ends with the last of them, and no other token opens it.
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
	for _, err := range []error{errors.New(""), console.ErrSignIn} { // the second time, no identity has two sessions
		_, _, got := sessions.SignIn(t.Context(), console.Credential{Secret: fmt.Sprint("carl", err)})
		if full := got != nil; full != errors.Is(err, console.ErrSignIn) {
			t.Errorf("carl signs in: %v", got)
		}
	}
	if _, err := sessions.Identify(request(cookie, "")); !errors.Is(err, console.ErrSignIn) {
		t.Errorf("the session of anna that was used before her other one: %v", err)
	}
	if opened["anna"] != 1 || closed["anna"] != 0 || opened["bob"] != 1 {
		t.Errorf("opened %v, closed %v", opened, closed)
	}
	if _, err := sessions.Identify(request(cookie, "")); !errors.Is(err, console.ErrSignIn) {
		t.Errorf("after signing out: %v", err)
	}
}

// A shared view offers every function of its identity to each session.
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

// One person fills all sessions. People who come later still get theirs, up to the number of places for people.
func TestOnePersonTakesNoSessionOfOthers(t *testing.T) {
	const most = 4
	closed := map[string]int{}
	sessions := console.NewSessions(func(_ context.Context, c console.Credential) (*console.Identity, error) {
		return &console.Identity{Name: c.User, Close: func() { closed[c.User]++ }}, nil
	}, true, most, time.Hour)
	signIn := func(who string) *http.Request {
		t.Helper()
		_, cookie, err := sessions.SignIn(t.Context(), console.Credential{User: who})
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(cookie)
		return r
	}
	var evil []*http.Request
	for i := range most {
		evil = append(evil, signIn(fmt.Sprintf("system:serviceaccount:evil:%d", i)))
	}
	honest := []*http.Request{signIn("anna"), signIn("bob"), signIn("carl")}
	for i := range 20 {
		again := console.Credential{User: fmt.Sprint("system:serviceaccount:evil:", i)}
		if _, _, err := sessions.SignIn(t.Context(), again); err == nil {
			t.Error("a person takes the session of another one")
		}
	}
	for i, r := range honest {
		if _, err := sessions.Identify(r); err != nil {
			t.Errorf("honest session %d: %v", i, err)
		}
	}
	if _, err := sessions.Identify(evil[most-1]); err != nil {
		t.Errorf("the last session of the first person: %v", err)
	}
	if len(closed) < most-1 {
		t.Errorf("closed %v: want the views of sessions that ended", closed)
	}
}

// The console opens a few views at a time. It refuses sessions beyond the bound, and closes their views.
func TestSignInsAtTheSameTimeAreCounted(t *testing.T) {
	const most, tries = 2, 5
	var opened, closed atomic.Int32
	sessions := console.NewSessions(func(_ context.Context, c console.Credential) (*console.Identity, error) {
		opened.Add(1)
		return &console.Identity{Name: c.User, Close: func() { closed.Add(1) }}, nil
	}, true, most, time.Hour)
	errs := make(chan error, tries)
	for i := range tries {
		go func() {
			_, _, err := sessions.SignIn(t.Context(), console.Credential{User: fmt.Sprint(i)})
			errs <- err
		}()
	}
	began := 0
	for range tries {
		if err := <-errs; err == nil {
			began++
		}
	}
	if began != most || opened.Load()-closed.Load() != most {
		t.Errorf("%d sessions began, %d views are open, want %d", began, opened.Load()-closed.Load(), most)
	}
}

// The console checks only a few tokens at a time. A client that tries many tokens blocks neither existing sessions nor
// other people who sign in from the same address.
func TestTriedTokensAreBounded(t *testing.T) {
	const tries = 100
	var asking, most atomic.Int32
	began, proceed := make(chan string, tries+1), make(chan struct{})
	open := func(_ context.Context, c console.Credential) (*console.Identity, error) {
		if c.Secret == "first" {
			return &console.Identity{Name: "ada"}, nil
		}
		n := asking.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		began <- c.Secret
		<-proceed
		asking.Add(-1)
		if c.Secret == "good" {
			return &console.Identity{Name: "bob"}, nil
		}
		return nil, console.ErrSignIn
	}
	tokens := console.Tokens{Sessions: console.NewSessions(open, true, 10, time.Minute)}
	identify := func(token string) error {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/nodes", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		_, err := tokens.Identify(r)
		return err
	}
	if err := identify("first"); err != nil {
		t.Fatal(err)
	}
	bad, good := make(chan error, tries), make(chan error)
	for i := range tries {
		go func() { bad <- identify(fmt.Sprint("bad-", i)) }()
	}
	<-began // some wait for the API server, others for their turn
	if err := identify("first"); err != nil {
		t.Errorf("while wrong tokens are examined, a session answers: %v", err)
	}
	go func() { good <- identify("good") }()
	close(proceed)
	if err := <-good; err != nil {
		t.Errorf("a good token from the address of wrong ones: %v", err)
	}
	for range tries {
		if err := <-bad; !errors.Is(err, console.ErrSignIn) {
			t.Errorf("a wrong token: %v", err)
		}
	}
	if most.Load() > 4 {
		t.Errorf("the API server is asked about %d tokens at a time", most.Load())
	}
}
