package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
)

// world has two teams, their pods, two schedulers, and accounts: anna reads the pods of ml, root reads everything, and
// ops may change Volcano's configuration and read Tenon's.
const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: ml}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: web}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tenon-system}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: anna, namespace: ml}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: root, namespace: web}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: ops, namespace: volcano-system}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: console, namespace: tenon-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, namespace: ml}
rules: [{apiGroups: [""], resources: [pods, events], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: anna, namespace: ml}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{kind: ServiceAccount, name: anna, namespace: ml}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects:
- {kind: ServiceAccount, name: root, namespace: web}
- {kind: ServiceAccount, name: ops, namespace: volcano-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ops, namespace: volcano-system}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [update]}
- {apiGroups: [""], resources: [events], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ops, namespace: volcano-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ops}
subjects: [{kind: ServiceAccount, name: ops, namespace: volcano-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: restart, namespace: tenon-system}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [update]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: [apps], resources: [deployments], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ops, namespace: tenon-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: restart}
subjects: [{kind: ServiceAccount, name: ops, namespace: volcano-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: impersonate}
rules: [{apiGroups: [""], resources: [users], resourceNames: [carl], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: impersonate}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: impersonate}
subjects: [{kind: ServiceAccount, name: console, namespace: tenon-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: carl, namespace: web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects: [{kind: User, name: carl, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: v1
kind: Pod
metadata: {name: open, namespace: ml}
spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: hidden-payroll, namespace: web}
spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    # Ours: ask the batch team.
    actions: "enqueue, allocate, backfill"

    tiers:
    - plugins:
      - name: priority
      # - name: numa-aware
    - plugins:
      - name: predicates   # first
      - name: binpack
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: tenon-system}
data:
  scheduler.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - schedulerName: tenon-scheduler # pods ask for it
      plugins:
        multiPoint:
          enabled:
          - name: Tenon
            weight: 10
      pluginConfig:
      - name: Tenon
        args: {apiVersion: tenon.sh/v1alpha1, kind: TenonArgs}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: volcano-scheduler, namespace: volcano-system, labels: {app: volcano-scheduler}}
spec:
  selector: {matchLabels: {app: volcano-scheduler}}
  template:
    metadata: {labels: {app: volcano-scheduler}}
    spec:
      containers:
      - name: volcano
        image: x
        args: [--logtostderr, --scheduler-conf=/volcano.scheduler/volcano-scheduler.conf]
        volumeMounts: [{name: conf, mountPath: /volcano.scheduler}]
      volumes: [{name: conf, configMap: {name: volcano-scheduler-configmap}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tenon-scheduler, namespace: tenon-system, labels: {app.kubernetes.io/name: tenon-scheduler}}
spec:
  selector: {matchLabels: {app: s}}
  template:
    metadata: {labels: {app: s}}
    spec:
      containers:
      - name: scheduler
        image: x
        args: [--config=/etc/tenon/scheduler.yaml]
        volumeMounts: [{name: conf, mountPath: /etc/tenon}]
      volumes: [{name: conf, configMap: {name: conf}}]
`

// site is a console for an API server, with its clients.
type site struct {
	address string
	plane   *control.Plane
	ca      *authority
	tokens  map[string]string
}

// open starts an API server and a console for it.
func open(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	crds, manifests := append(crd.Layouts(), crd.NodeAffinity()), [][]byte{[]byte(world), []byte(deputies), []byte(steps)}
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), CRDs: crds, Manifests: manifests})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{plane: p, ca: newAuthority(t), tokens: map[string]string{}}
	for who, namespace := range map[string]string{"anna": "ml", "root": "web", "ops": "volcano-system",
		"deputy":  "tenon-system",
		"cordons": "web", "evicts": "web"} {
		cfg, err := rights.As(ctx, p.Admin, rights.Account{Namespace: namespace, Name: who})
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[who] = cfg.BearerToken
	}
	own, err := rights.As(ctx, p.Admin, rights.Account{Namespace: "tenon-system", Name: "console"})
	if err != nil {
		t.Fatal(err)
	}
	o := options{address: "127.0.0.1:0", cert: s.ca.file(t, "server"), key: s.ca.key(t, "server"),
		hosts: list{"127.0.0.1"}, sessions: 16, idle: time.Hour,
		clientCA: s.ca.root, proxies: list{"sso"}, userHeader: "X-Remote-User",
		groupHeader: "X-Remote-Group"}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	on, err := o.listen()
	if err != nil {
		t.Fatal(err)
	}
	s.address = on.Addr().String()
	done := make(chan error, 1)
	go func() { done <- o.serve(ctx, on, own) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, p.Stop()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask makes a request with the identity in the headers, by a client certificate if one is named.
func (s *site) ask(t *testing.T, method, path, body, certificate string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	c := &tls.Config{RootCAs: s.ca.pool}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.ca.file(t, certificate), s.ca.key(t, certificate))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

func (s *site) bearer(who string) string { return "Authorization: Bearer " + s.tokens[who] }

// until asks until the answer has a text: views are read and rights take effect a moment later.
func (s *site) until(t *testing.T, path, want string, headers ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, body, _ := s.ask(t, "GET", path, "", "", headers...)
		if strings.Contains(body, want) {
			return body
		}
		select {
		case <-ctx.Done():
			t.Fatalf("GET %s never answers %s, but %s", path, want, body)
		case <-tick.C:
		}
	}
}

// authority signs certificates.
type authority struct {
	dir, root string
	pool      *x509.CertPool
	own       *x509.Certificate
	signer    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.root = filepath.Join(a.dir, "ca.crt")
	a.own, a.signer = a.sign(t, "ca", nil, nil)
	a.pool.AddCert(a.own)
	a.sign(t, "server", a.own, a.signer)
	a.sign(t, "sso", a.own, a.signer)
	a.sign(t, "stranger", a.own, a.signer)
	return a
}

func (a *authority) file(_ *testing.T, name string) string { return filepath.Join(a.dir, name+".crt") }
func (a *authority) key(_ *testing.T, name string) string  { return filepath.Join(a.dir, name+".key") }

func (a *authority) sign(t *testing.T, name string, by *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if by == nil {
		by, signer, c.KeyUsage = c, key, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{a.file(t, name): {Type: "CERTIFICATE", Bytes: der},
		a.key(t, name): {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out, key
}

// Everybody sees what the API server lets them read, and nothing else.
func TestPeopleAndTheirRights(t *testing.T) {
	s := open(t)
	t.Run("one namespace", s.oneNamespace)
	t.Run("every operation", s.everyOperation)
	t.Run("sign in", s.signIn)
	t.Run("strangers", s.strangers)
	t.Run("proxy", s.proxy)
	t.Run("numaaware", s.numaAware)
	t.Run("arguments", s.arguments)
	t.Run("not allowed to restart", s.notAllowedToRestart)
	t.Run("not allowed to change kubelets", s.notAllowedToChangeKubelets)
	t.Run("revoked", s.revoked)
}

// anna may read the pods of one namespace. Her answers neither name pods of other namespaces nor count them.
func (s *site) oneNamespace(t *testing.T) {
	all := s.until(t, "/api/v1/pods", "hidden-payroll", s.bearer("root"))
	if !strings.Contains(all, `"total":2`) {
		t.Errorf("root sees %s", all)
	}
	s.until(t, "/api/v1/pods", `"name":"open"`, s.bearer("anna"))
	for _, path := range []string{"/api/v1/pods", "/api/v1/cluster", "/api/v1/pods/ml/open", "/api/v1/scheduling",
		"/api/v1/fitting", "/api/v1/pods?namespace=web", "/api/v1/pods/web/hidden-payroll",
		"/api/v1/pods/web/hidden-payroll/decisions", "/rest/scheduling/v1/numaaware"} {
		_, body, _ := s.ask(t, "GET", path, "", "", s.bearer("anna"))
		said := strings.ReplaceAll(body, "web/hidden-payroll", "") // an answer may repeat the requested name
		if path == "/api/v1/pods/web/hidden-payroll/decisions" || path == "/api/v1/pods/web/hidden-payroll" {
			said = strings.ReplaceAll(said, "hidden-payroll", "")
		}
		if strings.Contains(said, "payroll") || strings.Contains(said, `"pods":2`) ||
			strings.Contains(said, `"waiting":2`) {
			t.Errorf("anna reads at %s: %s", path, body)
		}
	}
	if code, body, _ := s.ask(t, "GET", "/api/v1/pods/web/hidden-payroll", "", "", s.bearer("anna")); code != 404 {
		t.Errorf("anna's request for another's pod answers %d %s", code, body)
	}
	body := s.until(t, "/api/v1/cluster", `"pods":1`, s.bearer("anna"))
	if !strings.Contains(body, "you may not list nodes") {
		t.Errorf("anna's limits: %s", body)
	}
}

func (s *site) signIn(t *testing.T) {
	text := "Content-Type: text/plain"
	for _, token := range []string{"", "x", "a b", s.tokens["anna"][:50], strings.Repeat("x", 20_000)} {
		code, body, h := s.ask(t, "POST", "/api/v1/session", token, "", text)
		if code != 401 && code != 413 || h.Get("Set-Cookie") != "" {
			t.Errorf("token %.20q answers %d %s", token, code, body)
		}
	}
	code, body, h := s.ask(t, "POST", "/api/v1/session?namespace=ml", s.tokens["anna"]+"\n", "", text)
	cookie := h.Get("Set-Cookie")
	for _, want := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if code != 200 || !strings.Contains(cookie, want) {
			t.Fatalf("answers %d %s; cookie %q lacks %s", code, body, cookie, want)
		}
	}
	if !strings.Contains(body, "system:serviceaccount:ml:anna") || strings.Contains(body, s.tokens["anna"]) {
		t.Errorf("session %s", body)
	}
	value, _, _ := strings.Cut(cookie, ";")
	s.until(t, "/api/v1/pods", `"total":1`, "Cookie: "+value)
	cookie = "Cookie: " + value
	if code, _, _ := s.ask(t, "GET", "/api/v1/session", "", "", cookie, "Sec-Fetch-Site: cross-site"); code != 403 {
		t.Errorf("another site's request answers %d", code)
	}
	if code, _, _ := s.ask(t, "POST", "/api/v1/check", "kind: Pod", "", cookie, "Origin: https://evil.example",
		"Content-Type: application/yaml"); code != 403 {
		t.Errorf("another site's form answers %d", code)
	}
}

func (s *site) strangers(t *testing.T) {
	for _, h := range []string{"X: y", "Authorization: Bearer x", "Authorization: Basic eDp5",
		"Cookie: __Host-tenon-console=x"} {
		for _, path := range []string{"/api/v1/cluster", "/api/v1/scheduling", "/rest/scheduling/v1/numaaware"} {
			if code, body, _ := s.ask(t, "GET", path, "", "", h); code != 401 {
				t.Errorf("GET %s with %s answers %d %s", path, h, code, body)
			}
		}
	}
}

// A header that names a user counts only in requests from the proxy, and only for users whom the console may
// impersonate.
func (s *site) proxy(t *testing.T) {
	user := "X-Remote-User: carl"
	for certificate, want := range map[string]int{"": 403, "stranger": 403, "sso": 200} {
		if code, body, _ := s.ask(t, "GET", "/api/v1/session", "", certificate, user); code != want {
			t.Errorf("with certificate %q the header answers %d %s", certificate, code, body)
		}
	}
	if _, body, _ := s.ask(t, "GET", "/api/v1/session", "", "sso", user); !strings.Contains(body, `"carl"`) {
		t.Errorf("session %s", body)
	}
	for _, headers := range [][]string{{"X-Remote-User: admin"}, {user, "X-Remote-Group: system:masters"},
		{"X-Remote-Group: system:masters"}, {user, "X-Remote-User: admin"}} {
		if code, body, _ := s.ask(t, "GET", "/api/v1/session", "", "sso", headers...); code != 401 && code != 400 {
			t.Errorf("%v answers %d %s", headers, code, body)
		}
	}
}

// numaAware calls openFuyao's path as its guide does, on Volcano and on a KubeSchedulerConfiguration.
func (s *site) numaAware(t *testing.T) {
	const path = "/rest/scheduling/v1/numaaware"
	media := "Content-Type: application/json"
	volcano, tenon := path+"?scheduler=volcano-system/volcano-scheduler-configmap", path+"?scheduler=tenon-system/conf"
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		want                    string
	}{
		{"ops", "GET", path, "", 400, "name the scheduler"},
		{"ops", "GET", volcano, "", 200, `"status":"close"`},
		{"ops", "GET", tenon, "", 200, `"status":"open"`},
		{"root", "PUT", volcano, `{"status":"open"}`, 403, `"Code":403`},
		{"root", "PUT", volcano + "&dryRun=true", `{"status":"open"}`, 403, `"Code":403`},
		{"ops", "PUT", volcano + "&dryRun=true", `{"status":"open"}`, 200,
			`"dryRun":true,"diff":"+   - name: numa-aware\n+     a`},
		{"ops", "GET", volcano, "", 200, `"status":"close"`},
		{"ops", "PUT", volcano + "&version=1", `{"status":"open"}`, 409, `"Code":409`},
		{"ops", "PUT", volcano, `{"status":"open"}`, 200, `"changed":true`},
		{"ops", "PUT", volcano, `{"status":"open"}`, 200, `is open already`},
		{"ops", "GET", volcano, "", 200, `"status":"open"`},
		{"ops", "PUT", tenon, `{"status":"close"}`, 200, `the lease passes on`},
		{"ops", "GET", tenon, "", 200, `"status":"close"`},
		{"anna", "GET", path, "", 403, `"Code":403`},
	} {
		code, body, _ := s.ask(t, c.method, c.path, c.body, "", s.bearer(c.who), media)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %s %s %s answers %d %s, want %d and %s", c.who, c.method, c.path, c.body, code, body, c.code,
				c.want)
		}
	}
	_, body, _ := s.ask(t, "GET", "/api/v1/scheduling", "", "", s.bearer("ops"))
	for _, want := range []string{`# Ours: ask the batch team.`, `# first\n  - name: binpack\n  - name: numa-aware\n`,
		`# - name: numa-aware`, `enabled: []`, `# pods ask for it`, `"mayWrite":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("the configurations lack %s: %s", want, body)
		}
	}
	if got := s.admin(t, "/api/v1/namespaces/volcano-system/events"); !strings.Contains(got, "SchedulingPolicyChanged") ||
		!strings.Contains(got, "system:serviceaccount:volcano-system:ops set plugin numa-aware to open") {
		t.Errorf("events: %s", got)
	}
	if got := s.admin(t, "/apis/apps/v1/namespaces/tenon-system/deployments/tenon-scheduler"); !strings.Contains(got,
		"kubectl.kubernetes.io/restartedAt") {
		t.Errorf("the Deployment is not restarted: %s", got)
	}
}

// arguments changes arguments of the plugin with the rights of the requesting person.
func (s *site) arguments(t *testing.T) {
	const path = "/api/v1/scheduling/arguments?scheduler=tenon-system/conf"
	for _, c := range []struct {
		who, query, body string
		code             int
		want             string
	}{
		{"root", "", `{"arguments":{"unknownNodes":"Refuse"}}`, 403, `"status":403`},
		{"anna", "", `{"arguments":{"unknownNodes":"Refuse"}}`, 403, `"status":403`},
		{"ops", "", `{"arguments":{"unknownNodes":"Perhaps"}}`, 422, `"field":"arguments"`},
		{"ops", "", `{"arguments":{}}`, 400, `"field":"arguments"`},
		{"ops", "&version=1", `{"arguments":{"unknownNodes":"Refuse"}}`, 409, `"status":409`},
		{"ops", "&dryRun=true", `{"arguments":{"unknownNodes":"Refuse"}}`, 200, `"dryRun":true`},
		{"ops", "", `{"arguments":{"unknownNodes":"Refuse"}}`, 200, `"changed":true`},
		{"ops", "", `{"arguments":{"unknownNodes":"Refuse"}}`, 200, `"changed":false`},
	} {
		code, body, _ := s.ask(t, "PATCH", path+c.query, c.body, "", s.bearer(c.who), "Content-Type: application/json")
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %s %s answers %d %s, want %d and %s", c.who, c.query, c.body, code, body, c.code, c.want)
		}
	}
	if code, _, _ := s.ask(t, "PATCH", path, `{"arguments":{"unknownNodes":"Allow"}}`, "",
		"Content-Type: application/json"); code != 401 {
		t.Errorf("without a token: %d", code)
	}
	got := s.admin(t, "/api/v1/namespaces/tenon-system/events")
	if !strings.Contains(got, "ops changed arguments of plugin") {
		t.Errorf("events: %s", got)
	}
}

// When a right is withdrawn or a token expires, the console no longer shows the data.
func (s *site) revoked(t *testing.T) {
	v := &validity{cfg: rest.AnonymousClientConfig(s.plane.Admin), now: time.Now, valid: true}
	v.cfg.BearerToken = "expired"
	if v.holds() || v.holds() {
		t.Error("a token that the API server does not accept holds")
	}
}

func TestFlagsThatWouldBeUnsafeAreRefused(t *testing.T) {
	good := options{address: ":8443", hosts: list{"x"}, sessions: 1, idle: time.Hour, cert: "c", key: "k", userHeader: "u",
		groupHeader: "g"}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*options){
		"--hosts":        func(o *options) { o.hosts = nil },
		"--tls":          func(o *options) { o.key = "" },
		"--plain-http":   func(o *options) { o.plain = true },
		"--sessions":     func(o *options) { o.sessions = 0 },
		"--session-idle": func(o *options) { o.idle = 0 },
		"--proxy-client": func(o *options) { o.proxies = list{"sso"} },
		"--address":      func(o *options) { o.address = "x" },
	} {
		o := good
		change(&o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
	var l list
	if err := l.Set("a, b,,c"); err != nil || fmt.Sprint(l) != "[a b c]" {
		t.Errorf("list %v, %v", l, err)
	}
}
