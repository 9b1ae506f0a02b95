package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrSignIn is the error of a request without a session, and of a credential that is not accepted.
var ErrSignIn = errors.New("you are not signed in")

// Credential is what a person signs in with.
type Credential struct {
	// Secret is the one-time secret from a console address, or a token.
	Secret string
	// User and Groups are the user and groups that an authenticating proxy names, in place of a secret; see
	// [Proxied].
	User   string
	Groups []string
	// Namespaces are shown to an identity that may not list the pods of all namespaces.
	Namespaces []string
}

// Open makes an identity from a credential. An error that does not wrap [ErrSignIn] is an error of the server.
type Open func(ctx context.Context, c Credential) (*Identity, error)

// Sessions are [Identities] by cookie: the identities that have signed in.
type Sessions struct {
	open        Open
	name        string // name of the cookie
	secure      bool
	limit       int // largest number of sessions
	idle        time.Duration
	proxyChecks checks // checks the credentials of requests that have no session yet; see proxySession

	mu   sync.Mutex
	all  map[string]*session
	uses int // counts the uses of all sessions together
}

type session struct {
	who  *Identity
	end  *time.Timer // ends the session after the idle time
	used int         // value of Sessions.uses at the last use
}

// NewSessions returns a store of at most limit sessions. A session ends after it was idle for the given time. If the
// store is full, a new session takes the place of a session of the person whom givesWay returns, and is refused if
// there is no such person. secure is set if browsers use HTTPS.
func NewSessions(open Open, secure bool, limit int, idle time.Duration) *Sessions {
	// Cookies ignore ports: consoles of several clusters on one computer need different names.
	name := "tenon-console-" + rand.Text()[:8]
	if secure {
		name = "__Host-" + name
	}
	return &Sessions{open: open, name: name, secure: secure, limit: limit, idle: idle, all: map[string]*session{},
		proxyChecks: newChecks()}
}

// Identify returns the identity of a request.
func (s *Sessions) Identify(r *http.Request) (*Identity, error) {
	c, err := r.Cookie(s.name)
	if err != nil {
		return nil, ErrSignIn
	}
	return s.session(c.Value)
}

// session returns the identity of the session with an id, and begins the session's idle time anew. An id has 130
// random bits, so the time that a lookup takes reveals nothing useful.
func (s *Sessions) session(id string) (*Identity, error) {
	s.mu.Lock()
	one := s.all[id]
	if one != nil {
		one.end.Reset(s.idle)
		s.uses++
		one.used = s.uses
	}
	s.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("%w: the session has ended", ErrSignIn)
	}
	if one.who.Valid != nil && !one.who.Valid() {
		s.drop(id)
		return nil, fmt.Errorf("%w any more: the API server does not accept your credentials", ErrSignIn)
	}
	return one.who, nil
}

// SignIn begins a session, and returns its identity and its cookie. On an error the cookie is useless.
func (s *Sessions) SignIn(ctx context.Context, c Credential) (*Identity, *http.Cookie, error) {
	id := rand.Text()
	who, err := s.begin(ctx, id, c)
	return who, s.cookie(id, 0), err
}

// begin opens an identity for a session with the id, and closes the identities whose sessions end to make room.
func (s *Sessions) begin(ctx context.Context, id string, c Credential) (*Identity, error) {
	who, err := s.open(ctx, c)
	if err != nil {
		return nil, err
	}
	ended, ok := s.put(id, who)
	if !ok {
		ended = append(ended, who)
	}
	for _, one := range ended {
		if one.Close != nil {
			one.Close()
		}
	}
	if !ok {
		return nil, fail(http.StatusServiceUnavailable, "", "too many people are signed in")
	}
	return who, nil
}

// put adds a session, and returns the identities of the sessions that it ends, which the caller closes. ok is false
// if there is no room; then the session is not added.
func (s *Sessions) put(id string, who *Identity) (ended []*Identity, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id] != nil { // another request with the same credential was faster; see proxySession
		ended = append(ended, s.remove(id))
	}
	if len(s.all) >= s.limit {
		held := map[string]int{}
		for _, one := range s.all {
			held[one.who.person()]++
		}
		from, ok := givesWay(held, who.person())
		if !ok {
			return ended, false
		}
		ended = append(ended, s.remove(s.leastRecent(from)))
	}
	s.uses++
	s.all[id] = &session{who, time.AfterFunc(s.idle, func() { s.drop(id) }), s.uses}
	return ended, true
}

// leastRecent returns the id of the person's least recently used session. The caller holds the lock.
func (s *Sessions) leastRecent(who string) (id string) {
	for at, one := range s.all {
		if one.who.person() == who && (id == "" || one.used < s.all[id].used) {
			id = at
		}
	}
	return id
}

// remove deletes a session, and returns its identity. The caller holds the lock.
func (s *Sessions) remove(id string) *Identity {
	one := s.all[id]
	delete(s.all, id)
	one.end.Stop()
	return one.who
}

// SignOut ends the session of a request, if it has one, and returns a cookie that deletes the session's cookie.
func (s *Sessions) SignOut(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(s.name); err == nil {
		s.drop(c.Value)
	}
	return s.cookie("", -1)
}

// drop ends a session and closes its identity, if the session exists.
func (s *Sessions) drop(id string) {
	var who *Identity
	s.mu.Lock()
	if s.all[id] != nil {
		who = s.remove(id)
	}
	s.mu.Unlock()
	if who != nil && who.Close != nil {
		who.Close()
	}
}

// cookie returns the cookie with an id of a session. A negative age deletes it in the browser.
func (s *Sessions) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: s.name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteStrictMode}
}

// OneTime returns a new secret, and a function that returns the given identity to the first client with the secret.
// The secret works once, and only within the lifetime.
func OneTime(who *Identity, lifetime time.Duration, now func() time.Time) (secret string, open Open) {
	secret = rand.Text() + rand.Text()
	var mu sync.Mutex
	used, end := false, now().Add(lifetime)
	return secret, func(_ context.Context, c Credential) (*Identity, error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1:
			return nil, fmt.Errorf("%w: this is not the address that the command has printed", ErrSignIn)
		case used:
			return nil, fmt.Errorf("%w: the address was used before; run the command again", ErrSignIn)
		case now().After(end):
			return nil, fmt.Errorf("%w: the address has expired; run the command again", ErrSignIn)
		}
		used = true
		return who, nil
	}
}
