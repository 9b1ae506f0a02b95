package console

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
)

// Shared returns an Open under which equal credentials share one view while anybody uses it.
func Shared(open Open) Open {
	s := &sharing{open: open, all: map[[sha256.Size]byte]*sharedView{}}
	return s.get
}

// sharing is the views that are in use, by the digest of their credential.
type sharing struct {
	open Open
	mu   sync.Mutex
	all  map[[sha256.Size]byte]*sharedView
}

type sharedView struct {
	who   *Identity
	users int
}

func (s *sharing) get(ctx context.Context, credential string) (*Identity, error) {
	key := sha256.Sum256([]byte(credential))
	if who := s.use(key, nil); who != nil {
		return who, nil
	}
	opened, err := s.open(ctx, credential)
	if err != nil {
		return nil, err
	}
	return s.use(key, opened), nil
}

// use returns an identity of the view that has the key, or of the one that was opened for it. It returns nil where
// there is neither. Where two were opened at the same time, the second is closed.
func (s *sharing) use(key [sha256.Size]byte, opened *Identity) *Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	switch {
	case one == nil && opened == nil:
		return nil
	case one == nil:
		one = &sharedView{who: opened}
		s.all[key] = one
	case opened != nil && opened.Close != nil:
		opened.Close()
	}
	one.users++
	w := one.who
	return &Identity{Name: w.Name, View: w.View, Cluster: w.Cluster, Stages: w.Stages, History: w.History,
		Schedulers: w.Schedulers, Valid: w.Valid, Close: sync.OnceFunc(func() { s.leave(key, one) })}
}

func (s *sharing) leave(key [sha256.Size]byte, one *sharedView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.users--; one.users > 0 {
		return
	}
	if s.all[key] == one {
		delete(s.all, key)
	}
	if one.who.Close != nil {
		one.who.Close()
	}
}

// Tokens are [Identities] by Kubernetes tokens: a person signs in with one and gets a session, or a proxy in front of
// the console sends one with each request, as "Authorization: Bearer".
type Tokens struct{ *Sessions }

// Identify returns who makes a request. What a proxy sends goes before a cookie.
func (t Tokens) Identify(r *http.Request) (*Identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return t.Sessions.Identify(r)
	}
	digest := sha256.Sum256([]byte(token))
	return t.known(r.Context(), "token "+string(digest[:]), token)
}

// known returns the identity of a session that a proxy keeps, and begins it where there is none.
func (t Tokens) known(ctx context.Context, id, token string) (*Identity, error) {
	if who, err := t.session(id); err == nil {
		return who, nil
	}
	who, err := t.begin(ctx, id, token)
	if err != nil {
		return nil, err
	}
	return who, nil
}
