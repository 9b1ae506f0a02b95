// Package gate lets a request to this process pass where the API server says that its sender may: who the
// bearer token is of (TokenReview), and whether that one may get the path (SubjectAccessReview of a
// nonResourceURL). So who may read metrics is said by RBAC.
//
// Invariant: what the API server did not allow within the last minute does not pass. A sender costs the API
// server two requests per token and minute at most, all senders together are bounded, and no more is kept
// than a bound. The package refuses requests without a token, client certificates, and to decide anything
// by itself: where the API server does not answer, nobody passes.
package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

const (
	passFor    = time.Minute      // how long a request that was allowed is allowed again
	refuseFor  = 10 * time.Second // how long one that was not is refused again
	maxKept    = 256              // decisions, of either kind
	maxAsking  = 8                // requests that wait for the API server at a time
	maxToken   = 12 << 10         // bytes
	askTimeout = 5 * time.Second  // for both reviews
)

// Gate decides who passes. Its methods may be called from any goroutine.
type Gate struct {
	tokens  *objects.Group
	access  *objects.Group
	log     logr.Logger
	now     func() time.Time
	asking  chan struct{}
	passed  *decisions
	refused *decisions
}

// New returns a gate that asks the API server of cfg, which is not changed.
func New(cfg *rest.Config, log logr.Logger) (*Gate, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 10, 20
	tokens, err := objects.NewGroup(cfg, authenticationapi.SchemeGroupVersion, authenticationapi.AddToScheme)
	if err != nil {
		return nil, err
	}
	access, err := objects.NewGroup(cfg, authorizationapi.SchemeGroupVersion, authorizationapi.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Gate{tokens: tokens, access: access, log: log, now: time.Now,
		asking: make(chan struct{}, maxAsking), passed: newDecisions(passFor), refused: newDecisions(refuseFor)}, nil
}

// Guard returns a handler that hands to h what may pass. All else is answered 401 (the token is nobody's),
// 403 (its user may not), 429 (too many ask at a time) or 503 (the API server does not answer).
func (g *Gate) Guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := g.decide(r)
		switch code {
		case http.StatusOK:
			h.ServeHTTP(w, r)
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(code), code)
	})
}

// decide returns the code of the answer, 200 for one that passes.
func (g *Gate) decide(r *http.Request) int {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	verb, path := strings.ToLower(r.Method), r.URL.Path
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	now := g.now()
	for _, kept := range []*decisions{g.passed, g.refused} {
		if code, ok := kept.get(key, now); ok {
			return code
		}
	}
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	default:
		return http.StatusTooManyRequests
	}
	code, err := g.ask(r.Context(), token, verb, path)
	if err != nil {
		g.log.Error(err, "cannot decide on a request", "path", path)
		return http.StatusServiceUnavailable
	}
	if code == http.StatusOK {
		g.passed.put(key, code, now)
	} else {
		g.refused.put(key, code, now)
	}
	return code
}

// ask lets the API server decide.
func (g *Gate) ask(ctx context.Context, token, verb, path string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var who authenticationapi.TokenReview
	in := &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: token}}
	if err := g.tokens.Create(ctx, "tokenreviews", in, &who); err != nil {
		return 0, fmt.Errorf("create TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	u := who.Status.User
	extra := map[string]authorizationapi.ExtraValue{}
	for k, v := range u.Extra {
		extra[k] = authorizationapi.ExtraValue(v)
	}
	var may authorizationapi.SubjectAccessReview
	asked := &authorizationapi.SubjectAccessReview{Spec: authorizationapi.SubjectAccessReviewSpec{
		User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra,
		NonResourceAttributes: &authorizationapi.NonResourceAttributes{Path: path, Verb: verb}}}
	if err := g.access.Create(ctx, "subjectaccessreviews", asked, &may); err != nil {
		return 0, fmt.Errorf("create SubjectAccessReview of %q: %w", u.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
