// Package authfilter passes an HTTP request only if the API server permits its sender to make it. The sender is the
// user of the bearer token (TokenReview), and that user must have the right to get the path (SubjectAccessReview of a
// nonResourceURL). So RBAC decides who may read metrics.
//
// Invariant: a request passes only if the API server allowed an equal one, with the same token, verb and path, within
// the last minute. Repeated equal requests cost the API server two reviews per minute if they are allowed, and two per
// 10 seconds if they are refused. The reviews for all senders together are bounded, and so is the kept state. The
// package refuses requests without a token, and accepts no client certificates. It decides nothing by itself: if the
// API server does not answer, only requests that it has decided on recently can pass.
package authfilter

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
	allowFor      = time.Minute      // how long an allowed request stays allowed
	refuseFor     = 10 * time.Second // how long a refused request stays refused
	maxDecisions  = 256              // of each kind: allowed and refused
	maxReviews    = 8                // concurrent requests to the API server
	maxToken      = 12 << 10         // bytes
	reviewTimeout = 5 * time.Second  // for both reviews
)

// Filter decides which requests pass. Its methods may be called from any goroutine.
type Filter struct {
	tokens  *objects.Group
	access  *objects.Group
	log     logr.Logger
	now     func() time.Time
	reviews chan struct{} // has an element for each review in progress
	allowed *decisions
	refused *decisions
}

// New returns a filter that asks the API server of cfg. It does not change cfg.
func New(cfg *rest.Config, log logr.Logger) (*Filter, error) {
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
	return &Filter{tokens: tokens, access: access, log: log, now: time.Now, reviews: make(chan struct{}, maxReviews),
		allowed: newDecisions(allowFor), refused: newDecisions(refuseFor)}, nil
}

// Wrap returns a handler that passes requests on to h. It answers the others with 401 (no token, or one without a
// user), 403 (the user is not permitted), 429 (too many concurrent reviews) or 503 (the API server does not answer).
func (f *Filter) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := f.decide(r)
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

// decide returns the code of the answer; 200 lets the request pass.
func (f *Filter) decide(r *http.Request) int {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	verb, path := strings.ToLower(r.Method), r.URL.Path
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	now := f.now()
	for _, kept := range []*decisions{f.allowed, f.refused} {
		if code, ok := kept.get(key, now); ok {
			return code
		}
	}
	select {
	case f.reviews <- struct{}{}:
		defer func() { <-f.reviews }()
	default:
		return http.StatusTooManyRequests
	}
	code, err := f.review(r.Context(), token, verb, path)
	if err != nil {
		f.log.Error(err, "cannot decide on a request", "path", path)
		return http.StatusServiceUnavailable
	}
	if code == http.StatusOK {
		f.allowed.put(key, code, now)
	} else {
		f.refused.put(key, code, now)
	}
	return code
}

// review asks the API server for the user of a token, and whether that user may make the request. It returns the code
// of the answer: 200, 401 or 403.
func (f *Filter) review(ctx context.Context, token, verb, path string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	var who authenticationapi.TokenReview
	in := &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: token}}
	if err := f.tokens.Create(ctx, "tokenreviews", in, &who); err != nil {
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
	if err := f.access.Create(ctx, "subjectaccessreviews", asked, &may); err != nil {
		return 0, fmt.Errorf("create SubjectAccessReview of %q: %w", u.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
