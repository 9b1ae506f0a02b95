package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Shared returns an Open function that opens one view for equal credentials. The view ends when no identity uses it
// any more.
func Shared(open Open) Open {
	s := &sharing{open: open, all: map[[sha256.Size]byte]*sharedView{}}
	return s.get
}

// sharing has the views that are in use, by the digest of their credential.
type sharing struct {
	open Open
	mu   sync.Mutex
	all  map[[sha256.Size]byte]*sharedView
}

type sharedView struct {
	who   *Identity
	users int
}

// get returns an identity for a credential. It does not hold the lock while it opens a view, which may take long.
func (s *sharing) get(ctx context.Context, c Credential) (*Identity, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("digest a credential: %w", err)
	}
	key := sha256.Sum256(data)
	if who := s.use(key, nil); who != nil {
		return who, nil
	}
	opened, err := s.open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.use(key, opened), nil
}

// use returns an identity of the view with the key. opened is a new view, or nil. If there is no view with the key,
// use stores opened under the key; without opened it returns nil. If there is a view already, because another request
// was faster, use closes opened.
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
		Schedulers: w.Schedulers, Doctor: w.Doctor, Kubelets: w.Kubelets, Use: w.Use, Affinity: w.Affinity,
		Misaligned: w.Misaligned, Claims: w.Claims, Kept: w.Kept, Valid: w.Valid,
		Close: sync.OnceFunc(func() { s.leave(key, one) })}
}

// leave ends one use of a view. It closes the view after the last use.
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

// Tokens are [Identities] by Kubernetes tokens. Either a person signs in with a token and gets a session, or a proxy
// in front of the console sends a token with each request ("Authorization: Bearer").
type Tokens struct{ *Sessions }

// Identify returns the identity of a request. A token from a proxy takes precedence over a cookie.
func (t Tokens) Identify(r *http.Request) (*Identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return t.Sessions.Identify(r)
	}
	return t.proxySession(r, Credential{Secret: token})
}

// proxySession returns the identity of the session that belongs to a credential from a proxy, and begins the session
// if it does not exist. Only a request without a session waits until its credential is checked; a request with a
// session never waits.
func (s *Sessions) proxySession(r *http.Request, c Credential) (*Identity, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("digest a credential: %w", err)
	}
	digest := sha256.Sum256(data)
	id := "proxy " + string(digest[:])
	if who, err := s.session(id); err == nil {
		return who, nil
	}
	return s.proxyChecks.do(r.Context(), r.RemoteAddr, func() (*Identity, error) {
		if who, err := s.session(id); err == nil { // another request of the same proxy came first
			return who, nil
		}
		return s.begin(r.Context(), id, c)
	})
}

// Proxied are [Identities] by an authenticating proxy that names the user in a header; other requests go to Tokens.
// The proxy proves its identity by a client certificate that TLS has verified; headers from other clients are
// refused.
type Proxied struct {
	Tokens
	// User and Group are names of headers; Group may be repeated.
	User, Group string
	// Names are the common names of the proxies' certificates. Without any name, the headers are always refused.
	Names []string
}

// maxGroups bounds the groups of a user.
const maxGroups = 256

// Identify returns the identity of a request.
func (p Proxied) Identify(r *http.Request) (*Identity, error) {
	users, groups := r.Header.Values(p.User), r.Header.Values(p.Group)
	if len(users) == 0 && len(groups) == 0 {
		return p.Tokens.Identify(r)
	}
	switch {
	case !p.verified(r):
		return nil, fail(http.StatusForbidden, "header "+p.User, "the header is not accepted from here")
	case len(users) != 1 || users[0] == "" || len(groups) > maxGroups:
		return nil, fail(http.StatusBadRequest, "header "+p.User, "want one user, and not too many groups")
	}
	return p.proxySession(r, Credential{User: users[0], Groups: groups})
}

// verified reports whether the request comes from a proxy with an accepted certificate.
func (p Proxied) verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.PeerCertificates) > 0 &&
		slices.Contains(p.Names, r.TLS.PeerCertificates[0].Subject.CommonName)
}
