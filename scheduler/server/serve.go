package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/plugin"
)

// DefaultInspection is the default address of inspection. It needs an address of its own, because kube-scheduler's
// port does not accept further paths.
const DefaultInspection = "127.0.0.1:10261"

const requestTimeout = 30 * time.Second

// Inspect serves inspection on an address until the context ends, with the certificate, authentication and
// authorization of the scheduler's secure port. A client needs the right to get the path below [inspect.Prefix]; the
// right to get /metrics is not enough. Inspect returns the address that it listens on. Without a secure port it
// serves nothing and returns nil.
func (s *Scheduler) Inspect(ctx context.Context, address string) (net.Addr, error) {
	logger := plugin.Logger(ctx)
	if s.config.SecureServing == nil || s.config.SecureServing.Cert == nil {
		logger.Info("Inspection is off, as the secure port is", "address", address)
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve inspection: %w", err)
	}
	web := &http.Server{Handler: indexed(s.guarded(inspect.Handler(s.source))),
		TLSConfig:         certified(s.config.SecureServing),
		ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		if err := web.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Inspection has ended", "address", l.Addr().String())
		}
	}()
	context.AfterFunc(ctx, func() { _ = web.Close() })
	logger.Info("Inspection is served", "address", l.Addr().String(), "path", inspect.Prefix)
	return l.Addr(), nil
}

// certified returns the TLS configuration of the secure port. It takes the certificate anew for every connection,
// because the secure port renews the certificate when its files change.
func certified(s *server.SecureServingInfo) *tls.Config {
	return &tls.Config{MinVersion: max(tls.VersionTLS12, s.MinTLSVersion), CipherSuites: s.CipherSuites,
		// The authenticator verifies the client's certificate.
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := tls.X509KeyPair(s.Cert.CurrentCertKeyContent())
			return &c, err
		}}
}

// indexed serves the list of paths at / to everybody, and all other paths by h.
func indexed(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, inspect.Index)
	})
	return mux
}

// guarded returns a handler that passes a request to h only if the API server authenticates and authorizes it.
func (s *Scheduler) guarded(h http.Handler) http.Handler {
	infos := &request.RequestInfoFactory{}
	h = filters.WithAuthorization(h, s.config.Authorization.Authorizer, scheme.Codecs)
	h = filters.WithAuthentication(h, s.config.Authentication.Authenticator, filters.Unauthorized(scheme.Codecs), nil, nil)
	h = filters.WithRequestInfo(h, infos)
	h = filters.WithCacheControl(h)
	return genericfilters.WithPanicRecovery(h, infos)
}
