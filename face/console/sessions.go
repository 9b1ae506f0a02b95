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

// ErrSignIn is the error of a request without a session.
var ErrSignIn = errors.New("you are not signed in")

// Credential is what somebody signs in by.
type Credential struct {
	// Secret is the secret of an address, or a token.
	Secret string
	// User and Groups are those that an authenticating proxy names, in place of a secret; see [Proxied].
	User   string
	Groups []string
	// Namespaces are those whose pods are shown to an identity that may not list the pods of all.
	Namespaces []string
}

// Open makes an identity of a credential. An error that does not wrap [ErrSignIn] is one of the server.
type Open func(ctx context.Context, c Credential) (*Identity, error)

// Sessions are the identities that have signed in, by a cookie. They are [Identities].
type Sessions struct {
	open   Open
	name   string // of the cookie
	secure bool
	most   int
	idle   time.Duration
	// unknown bounds the credentials without a session that requests bring: the API server is asked about each.
	unknown *attempts

	mu  sync.Mutex
	all map[string]*session
	// opening is how many sessions begin now: they count before they are in all.
	opening int
}

// newcomers is how many credentials without a session the requests of one address may bring in a second.
const newcomers = 10

type session struct {
	who *Identity
	end *time.Timer // ends the session when nobody has used it for a while
}

// NewSessions returns at most so many sessions, each of which ends when it was idle for some time. secure: browsers
// come by HTTPS.
func NewSessions(open Open, secure bool, most int, idle time.Duration) *Sessions {
	// Cookies do not know ports: consoles of several clusters on one computer must not share a name.
	name := "tenon-console-" + rand.Text()[:8]
	if secure {
		name = "__Host-" + name
	}
	return &Sessions{open: open, name: name, secure: secure, most: most, idle: idle, all: map[string]*session{},
		unknown: newAttempts(newcomers)}
}

// Identify returns who makes a request.
func (s *Sessions) Identify(r *http.Request) (*Identity, error) {
	c, err := r.Cookie(s.name)
	if err != nil {
		return nil, ErrSignIn
	}
	return s.session(c.Value)
}

// session returns who has a session, and lets it last. An id has 130 random bits: the time of a search tells nothing.
func (s *Sessions) session(id string) (*Identity, error) {
	s.mu.Lock()
	one := s.all[id]
	if one != nil {
		one.end.Reset(s.idle)
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

// SignIn begins a session.
func (s *Sessions) SignIn(ctx context.Context, c Credential) (*Identity, *http.Cookie, error) {
	id := rand.Text()
	who, err := s.begin(ctx, id, c)
	return who, s.cookie(id, 0), err
}

// begin opens an identity for a session.
func (s *Sessions) begin(ctx context.Context, id string, c Credential) (*Identity, error) {
	if !s.mayOpen() {
		return nil, fail(http.StatusServiceUnavailable, "", "too many people are signed in")
	}
	defer s.opened()
	who, err := s.open(ctx, c)
	if err != nil {
		return nil, err
	}
	s.drop(id) // another request of the same proxy may have been quicker
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = &session{who, time.AfterFunc(s.idle, func() { s.drop(id) })}
	return who, nil
}

// mayOpen reports whether one more session may begin, and counts it until opened is called.
func (s *Sessions) mayOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all)+s.opening >= s.most {
		return false
	}
	s.opening++
	return true
}

func (s *Sessions) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
}

// SignOut ends the session of a request, if it has one.
func (s *Sessions) SignOut(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(s.name); err == nil {
		s.drop(c.Value)
	}
	return s.cookie("", -1)
}

func (s *Sessions) drop(id string) {
	s.mu.Lock()
	one := s.all[id]
	delete(s.all, id)
	s.mu.Unlock()
	if one != nil {
		one.end.Stop()
		if one.who.Close != nil {
			one.who.Close()
		}
	}
}

func (s *Sessions) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: s.name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteStrictMode}
}

// OneTime returns a new secret, and what opens an identity for the first who has it. The secret is worth nothing after
// that, and after a while.
func OneTime(who *Identity, lasts time.Duration, now func() time.Time) (secret string, open Open) {
	secret = rand.Text() + rand.Text()
	var mu sync.Mutex
	used, end := false, now().Add(lasts)
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
