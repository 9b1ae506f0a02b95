package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/console"
)

// Times and bounds of a user's requests to the API server.
const (
	recheck      = time.Minute // least time between two checks of a token
	checkTimeout = 5 * time.Second
	maxToken     = 16 << 10 // bytes
	userQPS      = 50       // requests per second
	userBurst    = 100
)

// users opens identities at one API server. The views of the identities end with ctx.
type users struct {
	ctx        context.Context
	api        *rest.Config
	namespaces []string
	use        func(ctx context.Context, node, pod string) document.NodeUse // reads with the console's own account
	now        func() time.Time
}

// open checks a credential, and follows the cluster with only the rights of that credential. The error wraps
// [console.ErrSignIn] if the credential is not accepted.
func (u *users) open(ctx context.Context, c console.Credential) (*console.Identity, error) {
	cfg, err := u.config(c)
	if err != nil {
		return nil, err
	}
	name, err := whoAmI(ctx, cfg)
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("%w: the API server does not accept the token", console.ErrSignIn)
	case apierrors.IsForbidden(err) && c.User != "":
		return nil, fmt.Errorf("%w: the console may not act as user %q", console.ErrSignIn, c.User)
	case err != nil:
		return nil, fmt.Errorf("ask the API server who signs in: %w", err)
	}
	who, err := commands.Watch(u.ctx, cfg, name, u.shown(name, c.Namespaces)...)
	if err != nil {
		return nil, err
	}
	check := &validity{cfg: cfg, now: u.now, last: u.now(), valid: true}
	who.Use = u.use
	watched := who.Valid
	who.Valid = func() bool { return watched() && check.holds() }
	return who, nil
}

// config returns a configuration with the rights of a credential. If a proxy has named a user, the configuration
// impersonates that user. For a token, it has the token and none of the console's own credentials.
func (u *users) config(c console.Credential) (*rest.Config, error) {
	cfg := rest.AnonymousClientConfig(u.api)
	switch {
	case c.User != "":
		cfg = rest.CopyConfig(u.api)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: c.User, Groups: c.Groups}
	case c.Secret == "" || len(c.Secret) > maxToken || strings.ContainsAny(c.Secret, " \t\r\n"):
		return nil, fmt.Errorf("%w: this is no token", console.ErrSignIn)
	default:
		cfg.BearerToken = c.Secret
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = userQPS, userBurst, "tenon-console"
	return cfg, nil
}

// shown returns the namespaces that are shown to an identity that may not list all pods. If asked has namespaces, it
// returns them. Otherwise it returns the flag's namespaces, and for a service account its own namespace before them.
func (u *users) shown(name string, asked []string) []string {
	if len(asked) > 0 {
		return asked
	}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return append([]string{namespace}, u.namespaces...)
	}
	return u.namespaces
}

// whoAmI returns the name of the user whom the API server identifies in requests with cfg.
func whoAmI(ctx context.Context, cfg *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	g, err := objects.NewGroup(cfg, authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme)
	if err != nil {
		return "", err
	}
	var out authenticationv1.SelfSubjectReview
	if err := g.Create(ctx, "selfsubjectreviews", &authenticationv1.SelfSubjectReview{}, &out); err != nil {
		return "", err
	}
	if out.Status.UserInfo.Username == "" {
		return "", errors.New("the API server names no user")
	}
	return out.Status.UserInfo.Username, nil
}

// validity checks from time to time whether the API server still accepts a credential.
type validity struct {
	cfg *rest.Config
	now func() time.Time

	mu    sync.Mutex
	last  time.Time
	valid bool
}

// holds reports whether the API server accepts the credential. It asks the API server at most once a minute
// (recheck). A refused credential stays refused. If the API server does not answer, holds returns true: such an API
// server returns no data either.
func (v *validity) holds() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.valid || v.now().Sub(v.last) < recheck {
		return v.valid
	}
	v.last = v.now()
	_, err := whoAmI(context.Background(), v.cfg)
	v.valid = !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err)
	return v.valid
}
