package sched

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/inspect"
)

// DefaultInspection is where inspection is served. kube-scheduler has no place for further paths at its
// own port.
const DefaultInspection = "127.0.0.1:10261"

const shutdownTimeout = 5 * time.Second

// Inspect serves inspection on an address until the context ends, with the certificate, authentication
// and authorization of the scheduler's secure port: who may get /metrics there still needs leave to get
// [inspect.Prefix]. It returns the address that it listens on. Without a secure port nothing is served,
// and the address is nil.
func (s *Scheduler) Inspect(ctx context.Context, address string) (net.Addr, error) {
	logger := klog.FromContext(ctx).WithName(Name)
	if s.config.SecureServing == nil {
		logger.Info("Inspection is off, as the secure port is", "address", address)
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve inspection: %w", err)
	}
	own := *s.config.SecureServing
	own.Listener = l
	if _, _, err := own.Serve(s.guarded(inspect.Handler(s.source)), shutdownTimeout, ctx.Done()); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("serve inspection on %s: %w", address, err)
	}
	logger.Info("Inspection is served", "address", l.Addr().String(), "path", inspect.Prefix)
	return l.Addr(), nil
}

// guarded lets through to a handler whom the API server knows and allows.
func (s *Scheduler) guarded(h http.Handler) http.Handler {
	infos := &request.RequestInfoFactory{}
	h = filters.WithAuthorization(h, s.config.Authorization.Authorizer, scheme.Codecs)
	h = filters.WithAuthentication(h, s.config.Authentication.Authenticator, filters.Unauthorized(scheme.Codecs), nil, nil)
	h = filters.WithRequestInfo(h, infos)
	h = filters.WithCacheControl(h)
	return genericfilters.WithPanicRecovery(h, infos)
}
