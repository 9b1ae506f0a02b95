package control

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/tenon-numa/tenon/lab/releases"
)

// startServer starts the API server and returns its URL. The server becomes ready later; see waitReady.
func (p *Plane) startServer(ctx context.Context, dir, etcd string) (string, error) {
	releases.Set()
	// A second server in one process applies the same logging options again, which is correct here.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	o, err := serverOptions(dir, etcd, p.address)
	if err != nil {
		return "", err
	}
	o.Authentication.ClientCert.ClientCA = p.clientCA
	p.reachKubelets(o)
	for _, version := range p.apis {
		o.APIEnablement.RuntimeConfig[version] = "true"
	}
	if p.controllers {
		o.Admission.GenericAdmission.DisablePlugins = nil
	}
	if p.authorization != "" {
		o.Authorization.Modes, o.Authorization.AuthorizationConfigurationFile = nil, p.authorization
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return "", fmt.Errorf("complete API server options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return "", fmt.Errorf("validate API server options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return "", fmt.Errorf("configure API server: %w", err)
	}
	complete, err := config.Complete()
	if err != nil {
		return "", fmt.Errorf("configure API server: %w", err)
	}
	chain, err := app.CreateServerChain(complete)
	if err != nil {
		return "", fmt.Errorf("create API server: %w", err)
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return "", fmt.Errorf("prepare API server: %w", err)
	}
	p.address, p.listener = o.SecureServing.Listener.Addr().String(), o.SecureServing.Listener.(*listener)
	go func() { p.served <- prepared.Run(ctx) }()
	return "https://" + p.address, nil
}

// reachKubelets configures how the API server connects to kubelets, if [Options.Kubelets] is set.
func (p *Plane) reachKubelets(o *options.ServerRunOptions) {
	if p.kubelets.Egress == "" {
		return
	}
	o.EgressSelector.ConfigFile = p.kubelets.Egress
	k := &o.KubeletConfig
	k.TLSClientConfig.CertFile, k.TLSClientConfig.KeyFile = p.kubelets.Certificate, p.kubelets.Key
	k.PreferredAddressTypes = []string{string(v1.NodeInternalIP)} // names of nodes are in no DNS here
}

// serverOptions returns the options of an API server that listens on address and stores its data in etcd.
func serverOptions(dir, etcd, address string) (*options.ServerRunOptions, error) {
	o := options.NewServerRunOptions()
	// The process-wide registry can be set once only, and a scheduler in this process sets it too.
	o.GenericServerRunOptions.ComponentGlobalsRegistry = basecompatibility.NewComponentGlobalsRegistry()
	if err := register(o.GenericServerRunOptions.ComponentGlobalsRegistry); err != nil {
		return nil, fmt.Errorf("register feature gates: %w", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	loopback := net.IPv4(127, 0, 0, 1)
	s := o.SecureServing
	s.Listener, s.BindAddress, s.ExternalAddress = newListener(l), loopback, loopback
	s.BindPort = l.Addr().(*net.TCPAddr).Port
	s.ServerCert.CertDirectory = filepath.Join(dir, "pki")
	o.AllowPrivileged = true // as installers of clusters set it
	o.ServiceClusterIPRanges = "10.96.0.0/16"
	o.Etcd.StorageConfig.Transport.ServerList = []string{etcd}

	key := filepath.Join(dir, ServiceAccountKey)
	if err := writeKey(key); err != nil {
		return nil, fmt.Errorf("write service account key: %w", err)
	}
	o.ServiceAccountSigningKeyFile = key
	o.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{key}
	o.Authentication.TokenFile.TokenFile = filepath.Join(dir, "tokens.csv")
	o.Authorization.Modes = []string{"Node", "RBAC"}

	// Without a controller manager, no program makes the service accounts that the plugin ServiceAccount requires of
	// every pod, or removes the taint that TaintNodesByCondition adds to every new node.
	o.Admission.GenericAdmission.DisablePlugins = []string{"ServiceAccount", "TaintNodesByCondition"}
	o.EndpointReconcilerType = "none" // endpoints on the loopback interface are invalid
	o.Features.EnablePriorityAndFairness = false
	o.GenericServerRunOptions.MaxRequestsInFlight = 0
	o.GenericServerRunOptions.MaxMutatingRequestsInFlight = 0
	o.GenericServerRunOptions.ShutdownDelayDuration = 0
	return o, nil
}

// register registers the feature gates of this process, as a copy.
func register(r basecompatibility.ComponentGlobalsRegistry) error {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	err := r.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultKubeEffectiveVersionForTest(), gates)
	if err != nil {
		return err
	}
	return r.Set()
}

// writeKey writes a new key, unless the file exists: a restarted server has to accept the tokens that were signed
// before.
func writeKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem, 0o600)
}

// waitReady waits until every readiness check passes.
func (p *Plane) waitReady(ctx context.Context) error { return p.waitFor(ctx, "/readyz?verbose") }

// waitFor waits until the API server answers a path with success. It returns an error if ctx or the server ends
// first. It uses a plain HTTP client, because client-go obeys Retry-After and would sleep for a second after each
// refusal.
func (p *Plane) waitFor(ctx context.Context, path string) error {
	transport, err := rest.TransportFor(p.Admin)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	var last error
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-p.served:
			p.served <- err // Stop reads it again
			return false, fmt.Errorf("API server ended: %w", err)
		default:
		}
		last = get(ctx, client, p.Admin.Host+path)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("wait for API server: %w (last: %w)", err, last)
	}
	return err
}

// get returns nil if the server answers with status 200, and otherwise an error that names the readiness checks that
// fail.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var failing []string
	for line := range strings.Lines(string(body)) {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			failing = append(failing, strings.Fields(check)[0])
		}
	}
	return fmt.Errorf("%s, not ready: %s", resp.Status, strings.Join(failing, ", "))
}
