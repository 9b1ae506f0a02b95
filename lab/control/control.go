// Package control runs a Kubernetes control plane inside this process: etcd and kube-apiserver, on the loopback
// interface. The API server serves TLS and has the authorizers of a real cluster (Node and RBAC).
//
// The package writes only below one directory, and listens only on the loopback interface. Invariant: a [Plane] that
// [Start] returned is ready to serve, and after [Plane.Stop] no part of it runs. The package does not run controllers;
// lab/controllers does.
package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab/rights"
)

// Options of a control plane.
type Options struct {
	// Dir is an existing directory for data, keys and the kubeconfig. A memory file system makes it fast.
	Dir string
	// Nodes are the names of the nodes that will join; each gets an identity of its own.
	Nodes []string
	// CRDs are manifests of CustomResourceDefinitions, one or more YAML documents each.
	CRDs [][]byte
	// Manifests are applied after the CRDs, in their order.
	Manifests [][]byte
	// APIs are versions of APIs that are served though they are off by default, such as "scheduling.k8s.io/v1beta1".
	APIs []string
	// Authorization is the path of an AuthorizationConfiguration; empty means the authorizers Node and RBAC.
	Authorization string
	// Controllers means that the caller will run a kube-controller-manager. Pods then get service accounts, and new
	// nodes a taint until they are ready, as in other clusters.
	Controllers bool
	// ClientCA is the path of the certificates of CAs that sign users' certificates; empty if there are none. Programs
	// of a cluster find them in the ConfigMap extension-apiserver-authentication, to verify clients.
	ClientCA string
	// Kubelets configures how the API server reaches kubelets. The zero value means that it does not.
	Kubelets Kubelets
}

// Kubelets has the paths of the files with which the API server reaches kubelets.
type Kubelets struct {
	Egress           string // an EgressSelectorConfiguration
	Certificate, Key string // of the API server as a client of kubelets
}

// ServiceAccountKey is the name of a file in [Options.Dir]: the key that signs tokens of service accounts.
const ServiceAccountKey = "service-account.key"

// Plane is a running control plane.
type Plane struct {
	// Admin is the access of a cluster administrator, with the CA as data.
	Admin *rest.Config
	// Kubeconfig is the path of a file with the same access, for kubectl.
	Kubeconfig string

	dir, endpoint string // the directory of all files, and etcd's client URL
	address       string // of the API server's listener, once it exists

	apis          []string
	authorization string // path of a file; empty for Node and RBAC
	controllers   bool   // a controller manager will run
	clientCA      string // path of a file, or empty
	kubelets      Kubelets

	tokens   map[string]string // by user
	etcd     *embed.Etcd
	cancel   context.CancelFunc
	listener *listener  // of the present API server; nil before the first
	served   chan error // the result of the API server, when it has ended
}

// stopTimeout bounds how long a stop waits for requests in progress.
const stopTimeout = 20 * time.Second

// Start starts a control plane and returns when it is ready and the CRDs are established. The
// context bounds the start only; the control plane runs until Stop.
func Start(ctx context.Context, o Options) (*Plane, error) {
	p := &Plane{dir: o.Dir, apis: o.APIs, authorization: o.Authorization, controllers: o.Controllers, clientCA: o.ClientCA,
		kubelets: o.Kubelets, address: "127.0.0.1:0", served: make(chan error, 1), tokens: map[string]string{}}
	if err := p.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), p.Stop())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context, o Options) error {
	quiet()
	if err := p.writeTokens(filepath.Join(o.Dir, "tokens.csv"), o.Nodes); err != nil {
		return err
	}
	var err error
	if p.endpoint, err = p.startEtcd(ctx, filepath.Join(o.Dir, "etcd")); err != nil {
		return err
	}
	host, err := p.serve(ctx)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(o.Dir, "pki", "apiserver.crt"))
	if err != nil {
		return fmt.Errorf("read the server's certificate: %w", err)
	}
	p.Admin = &rest.Config{Host: host, BearerToken: p.tokens[admin], QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	p.Kubeconfig = filepath.Join(o.Dir, "kubeconfig")
	if err := rights.WriteKubeconfig(p.Kubeconfig, admin, p.Admin); err != nil {
		return err
	}
	if err := p.grant(ctx); err != nil {
		return err
	}
	if err := p.applyCRDs(ctx, o.CRDs); err != nil {
		return err
	}
	return rights.Apply(ctx, p.Admin, o.Manifests...)
}

// serve starts the API server and returns its URL. The server runs until stopServer, not until the caller's context
// ends.
func (p *Plane) serve(ctx context.Context) (host string, err error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	return p.startServer(running, p.dir, p.endpoint)
}

// Restart ends the API server and starts it again on the same etcd and at the same address, with the same certificate,
// users and keys. It returns when the server is ready. Connections are lost.
func (p *Plane) Restart(ctx context.Context) error {
	if err := p.stopServer(); err != nil {
		return fmt.Errorf("restart API server: %w", err)
	}
	if _, err := p.serve(ctx); err != nil {
		return fmt.Errorf("restart API server: %w", err)
	}
	return p.waitReady(ctx)
}

// stopServer ends the API server, if one runs, and returns when it has ended. It returns an error if the server still
// runs after stopTimeout.
func (p *Plane) stopServer() error {
	if p.cancel == nil {
		return nil
	}
	p.cancel()
	p.cancel = nil
	if p.listener == nil {
		return nil // it was not started
	}
	deadline := time.NewTimer(stopTimeout)
	defer deadline.Stop()
	ticker := time.NewTicker(cutInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-p.served:
			return err
		case <-ticker.C:
			p.listener.cut()
		case <-deadline.C:
			return fmt.Errorf("the API server still runs after %s", stopTimeout)
		}
	}
}

// cutInterval is how long clients have to end their requests. After that, all connections are closed once per
// interval, new ones too, until the server has ended.
const cutInterval = 100 * time.Millisecond

// Stop ends the control plane and returns when no part of it runs. Files stay in the directory.
func (p *Plane) Stop() error {
	err := p.stopServer()
	if err != nil {
		err = fmt.Errorf("stop control plane: %w", err)
	}
	if p.etcd != nil {
		p.etcd.Close()
	}
	return err
}

// admin is the name of the administrator's user.
const admin = "admin"

// Node returns the access of a node in [Options.Nodes], for its kubelet.
func (p *Plane) Node(name string) (*rest.Config, error) {
	token, ok := p.tokens["system:node:"+name]
	if !ok {
		return nil, fmt.Errorf("no node %q was named to the control plane", name)
	}
	c := rest.CopyConfig(p.Admin)
	c.BearerToken = token
	return c, nil
}

// writeTokens writes a file with a token for every user: the administrator in group system:masters, and the nodes in
// system:nodes, for the Node authorizer.
func (p *Plane) writeTokens(path string, nodes []string) error {
	groups := map[string]string{admin: "system:masters"}
	for _, n := range nodes {
		groups["system:node:"+n] = "system:nodes"
	}
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		secret := make([]byte, 16)
		_, _ = rand.Read(secret) // never fails, by its documentation
		p.tokens[name] = hex.EncodeToString(secret)
		fmt.Fprintf(&b, "%s,%s,%s,%s\n", p.tokens[name], name, name, groups[name])
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}
