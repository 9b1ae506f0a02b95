package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/console"
	"github.com/tenon-numa/tenon/internal/version"
)

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	api, err := o.apiServer()
	if err != nil {
		return err
	}
	on, err := o.listen()
	if err != nil {
		return err
	}
	defer on.Close()
	if o.health != "" {
		health, err := net.Listen("tcp", o.health)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", o.health, err)
		}
		go func() { _ = console.Serve(ctx, health, healthy()) }()
	}
	fmt.Fprintf(os.Stderr, "%s serves on %s\n", version.Line("tenon-console"), on.Addr())
	return o.serve(ctx, on, api)
}

// serve serves the console of one API server.
func (o *options) serve(ctx context.Context, on net.Listener, api *rest.Config) error {
	use, err := commands.Use(api, o.agents, o.prometheus)
	if err != nil {
		return err
	}
	users := &users{ctx: ctx, api: api, use: use, namespaces: o.namespaces, now: time.Now}
	sessions := console.NewSessions(console.Shared(users.open), !o.plain, o.sessions, o.idle)
	h, err := console.New(console.Config{Version: version.Text(), Hosts: o.hosts, Secure: !o.plain,
		Identities: console.Proxied{Tokens: console.Tokens{Sessions: sessions}, User: o.userHeader, Group: o.groupHeader,
			Names: o.proxies}})
	if err != nil {
		return err
	}
	defer h.Close()
	return console.Serve(ctx, on, h)
}

// check returns an error for flags that are missing, out of bounds or contradict each other.
func (o *options) check() error {
	switch {
	case len(o.hosts) == 0:
		return errors.New("--hosts: say by which names browsers reach the console")
	case o.sessions < 1 || o.sessions > 1000:
		return fmt.Errorf("--sessions %d: want 1..1000", o.sessions)
	case o.idle < time.Minute:
		return fmt.Errorf("--session-idle %s: want a minute or more", o.idle)
	case o.userHeader == "" || o.groupHeader == "":
		return errors.New("--proxy-user-header and --proxy-group-header must not be empty")
	case len(o.proxies) > 0 && o.clientCA == "":
		return errors.New("--proxy-names needs --proxy-client-ca-file: a proxy proves itself by its certificate")
	case !o.plain && (o.cert == "" || o.key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file are needed, or --plain-http")
	}
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return fmt.Errorf("--address %q: %w", o.address, err)
	}
	if ip := net.ParseIP(host); o.plain && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--plain-http: %s is no loopback address, and tokens would pass in clear text", o.address)
	}
	return nil
}

// apiServer returns how to reach the API server with the console's own account. The rights of this account are used
// only to impersonate users and to read agents.
func (o *options) apiServer() (*rest.Config, error) {
	if o.kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server (or give --kubeconfig): %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", o.kubeconfig, err)
	}
	return cfg, nil
}

// listen opens the address.
func (o *options) listen() (net.Listener, error) {
	on, err := net.Listen("tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.address, err)
	}
	if o.plain {
		return on, nil
	}
	c, err := o.tlsConfig()
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return tls.NewListener(on, c), nil
}

// tlsConfig returns a configuration of TLS that reads the certificate for every connection. If that fails, for
// example while only one of its files is new, the last valid pair stays in use. Browsers get HTTP/1.1, so that a
// bound on connections also bounds requests.
func (o *options) tlsConfig() (*tls.Config, error) {
	first, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", o.cert, o.key, err)
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&first)
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c, err := tls.LoadX509KeyPair(o.cert, o.key); err == nil {
				last.Store(&c)
			}
			return last.Load(), nil
		}}
	if o.clientCA == "" {
		return c, nil
	}
	data, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, fmt.Errorf("read --proxy-client-ca-file: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--proxy-client-ca-file %s has no certificate", o.clientCA)
	}
	return c, nil
}

// healthy answers probes.
func healthy() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"GET /livez", "GET /readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
	return mux
}
