package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/face/console"
)

// call is a valid request for one operation of the description: it succeeds for a user with the rights.
type call struct{ id, method, path, media, body string }

// calls returns a request for each operation of the description, in the order of their ids.
func (d *description) calls() []call {
	bodies := map[string]string{"application/yaml": manifest, "text/plain": "secret"}
	ofID := map[string]string{"setNUMAAware": `{"status":"close"}`,
		"setArguments": `{"arguments":{"unknownNodes":"Allow"}}`, "planKubelets": `{"topologyManagerPolicy":"none"}`,
		"beginRollout": ofA}
	named := strings.NewReplacer("{node}", "a", "{namespace}", "ml", "{pod}", "p")
	byID := map[string]call{}
	for path, all := range d.Paths {
		for method, o := range all {
			c := call{id: o.OperationID, method: strings.ToUpper(method), path: named.Replace(path), body: ofID[o.OperationID]}
			for media := range o.RequestBodyTypes() {
				if c.media = media; c.body == "" {
					c.body = bodies[media]
				}
			}
			byID[c.id] = c
		}
	}
	var out []call
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, byID[id])
	}
	return out
}

// writes reports whether the operation may change something, on the server or in a browser.
func (c call) writes() bool { return c.method != http.MethodGet }

// refused makes the request with further headers. It checks that the answer is a refusal with one of the codes, in the
// form of the path, without any data of the cluster.
func (s *site) refused(t *testing.T, c call, codes []int, headers ...string) {
	t.Helper()
	if c.media != "" {
		headers = append(headers, "Content-Type: "+c.media)
	}
	code, body, h := s.ask(t, c.method, c.path, c.body, headers...)
	var problem document.ErrorDetails
	var numaAware document.NUMAAware
	form, status, says := "application/problem+json", &problem.Status, &problem.Detail
	var into any = &problem
	if strings.HasPrefix(c.path, "/rest/") {
		form, status, says, into = "application/json", &numaAware.Code, &numaAware.Msg, &numaAware
	}
	if err := json.Unmarshal([]byte(body), into); err != nil || !slices.Contains(codes, code) || *status != code ||
		*says == "" || h.Get("Content-Type") != form {
		t.Errorf("%s: %s %s with %v answers %d %s %.300s, want a refusal with %v", c.id, c.method, c.path, headers, code,
			h.Get("Content-Type"), body, codes)
	}
	for _, known := range []string{"s3cret", "ours", "wait", "Tenon", "acme.com"} {
		if strings.Contains(body, known) {
			t.Errorf("%s: with %v the answer shows %q: %.300s", c.id, headers, known, body)
		}
	}
}

// public are operations that need no sign-in: the description, and signing out, which ends no other session.
var public = []string{"getOpenAPI", "signOut"}

func TestNoOperationAnswersWithoutASession(t *testing.T) {
	s, other := signedIn(t), signedIn(t)
	all := described(t, s)
	s.cookie = nil
	for _, c := range all.calls() {
		if slices.Contains(public, c.id) {
			continue
		}
		others := "Cookie: " + other.cookie.Name + "=" + other.cookie.Value
		for _, header := range []string{"X: y", "Cookie: tenon-console=x", others, "Authorization: Bearer x",
			"Authorization: Basic eDp5", "X-Remote-User: admin"} {
			codes := []int{http.StatusUnauthorized}
			if c.id == "signIn" { // its one session has begun, and attempts are bounded
				codes = append(codes, http.StatusServiceUnavailable, http.StatusTooManyRequests)
			}
			s.refused(t, c, codes, header)
		}
	}
	if got, _, _ := other.ask(t, "GET", "/api/v1/session", ""); got != http.StatusOK {
		t.Errorf("after all that, the session of another console answers %d", got)
	}
}

// Where the API server no longer accepts a token, each operation ends the session and is refused, also the very first
// one.
func TestNoOperationAnswersAnExpiredToken(t *testing.T) {
	s := signedIn(t)
	all := described(t, s)
	view, ended := s.who, map[string]bool{}
	tokens := console.Tokens{Sessions: console.NewSessions(func(_ context.Context, c console.Credential) (
		*console.Identity, error) {
		if ended[c.Secret] {
			return nil, console.ErrSignIn
		}
		return &console.Identity{Name: "anna", View: view.View, Cluster: view.Cluster, Stages: view.Stages,
			History: view.History, Schedulers: view.Schedulers, Doctor: view.Doctor,
			Valid: func() bool { return !ended[c.Secret] }}, nil
	}, false, 100, time.Hour)}
	h, err := console.New(console.Config{Version: "test", Hosts: []string{"127.0.0.1"}, Identities: tokens})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	later := &site{Server: server}
	for _, c := range all.calls() {
		if slices.Contains(append([]string{"signIn"}, public...), c.id) {
			continue
		}
		bearer := "Authorization: Bearer " + c.id
		if code, body, _ := later.ask(t, "GET", "/api/v1/session", "", bearer); code != http.StatusOK {
			t.Fatalf("with a good token the console answers %d %s", code, body)
		}
		ended[c.id] = true
		for range 2 { // the session ends, and does not begin again
			later.refused(t, c, []int{http.StatusUnauthorized}, bearer)
		}
	}
}

func TestNoOperationAnswersAnotherSite(t *testing.T) {
	s := signedIn(t)
	all, writing := described(t, s), 0
	for _, c := range all.calls() {
		headers := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"}
		if c.writes() {
			writing++
			headers = append(headers, "Origin: http://evil.example", "Origin: null", "Origin: http://127.0.0.1:1")
		}
		for _, header := range headers {
			s.refused(t, c, []int{http.StatusForbidden}, header)
		}
		s.refused(t, c, []int{http.StatusMisdirectedRequest}, "Host: evil.example")
	}
	if writing < 6 {
		t.Errorf("%d operations write, want at least 6", writing)
	}
	if code, _, _ := s.ask(t, "GET", "/api/v1/session", ""); code != http.StatusOK {
		t.Errorf("another site has signed the person out: %d", code)
	}
	// Forms of other sites can have only these types. Browsers send them without a preflight request.
	for _, c := range all.calls() {
		for _, form := range []string{"application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""} {
			if c.media != "" && c.media != form {
				s.refused(t, call{c.id, c.method, c.path, form, c.body}, []int{http.StatusUnsupportedMediaType})
			}
		}
	}
}

// A path means the same to the console, to proxies in front of it and to the API server behind it, or the console
// refuses it.
func TestPathsHaveOneMeaning(t *testing.T) {
	s := signedIn(t)
	all := described(t, s)
	tricks := []string{"/%2e%2e/session", "/..%2fsession", "/%2e%2e%2fsession", "//", "/./x", "%00", "/%00", "%0d%0aX:y",
		"%2f..%2f..%2fsecrets", `\..\session`, "%5c..%5csession", ";x=y", "%c0%ae%c0%ae", "%252e%252e%252f", "%ff"}
	refused := []int{http.StatusBadRequest, http.StatusNotFound}
	seen := map[string]bool{}
	for _, c := range all.calls() {
		s = signedIn(t) // requests are bounded
		for _, trick := range tricks {
			for _, path := range []string{c.path + trick, "/" + c.path, strings.Replace(c.path, "/v1/", "/v1"+trick+"/", 1)} {
				if seen[path] {
					continue
				}
				seen[path] = true
				code, body := s.raw(t, path)
				if !slices.Contains(refused, code) || strings.Contains(body, "s3cret") || strings.Contains(body, "acme.com") {
					t.Errorf("GET %q answers %d %.200s", path, code, body)
				}
			}
		}
	}
	for name, values := range map[string][]string{"namespace": {"../kube-system", "ml/..", "ml\x00", "%2e%2e"},
		"node": {"../a", "a\x00", "a/proxy/metrics"}, "label": {"../x y", "\x00"}} {
		path := map[string]string{"namespace": "/api/v1/pods", "node": "/api/v1/pods", "label": "/api/v1/cluster"}[name]
		for _, v := range values {
			if code, body := s.raw(t, path+"?"+name+"="+url.QueryEscape(v)); code != http.StatusBadRequest {
				t.Errorf("%s=%q answers %d %.200s", name, v, code, body)
			}
		}
	}
}

// raw sends a path unchanged, which clients of net/http would change or refuse.
func (s *site) raw(t *testing.T, path string) (int, string) {
	t.Helper()
	var d net.Dialer
	at := strings.TrimPrefix(s.URL, "http://")
	conn, err := d.DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nConnection: close\r\n\r\n", path, at,
		s.cookie.Name+"="+s.cookie.Value); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("GET %q: %v", path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// Names and ids that are scripts arrive as data: no answer has a character that could begin an HTML tag.
func TestScriptsInNamesAndIDsAreData(t *testing.T) {
	const id = `<img/src=x/onerror=alert(1)>` // the API server accepts it for a device
	s := signedIn(t)
	holder := holding("ml", "p")
	holder.Holdings[0].Devices = []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"g00"}, NUMAs: 1}}
	plain, err := json.Marshal(livetest.Layout(t, "a", holder))
	if err != nil {
		t.Fatal(err)
	}
	var layout v1alpha1.NodeLayout
	escaped, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(plain), `"g00"`, string(escaped))), &layout); err != nil {
		t.Fatal(err)
	}
	layout.ResourceVersion = "21"
	named := livetest.Pod("ml", evil, "a")
	named.ResourceVersion, named.Annotations["tenon.sh/numa-policy"] = "22", evil
	named.Spec.Containers[0].Name = evil
	s.api.Send(livetest.Layouts, "MODIFIED", &layout)
	s.api.Send(livetest.Pods, "ADDED", named)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := s.who.View.Follow()
	defer f.Close()
	arrived := func() bool {
		_, node, _ := s.ask(t, "GET", "/api/v1/nodes/a", "")
		_, pods, _ := s.ask(t, "GET", "/api/v1/pods", "")
		return strings.Contains(node, `\u003cimg/src=x`) && strings.Contains(pods, `\u003cimg src=x`)
	}
	for !arrived() {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal("the names never arrive: ", err)
		}
	}
	all := described(t, s)
	for _, c := range all.calls() {
		if c.id == "followChanges" || strings.HasPrefix(c.id, "sign") {
			continue
		}
		headers := []string{"Accept: text/html"}
		if c.media != "" {
			headers = append(headers, "Content-Type: "+c.media)
		}
		_, body, h := s.ask(t, c.method, c.path, strings.ReplaceAll(c.body, "name: big", "name: '"+evil+"'"), headers...)
		if strings.ContainsAny(body, "<>") || !strings.Contains(h.Get("Content-Type"), "json") ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s answers %s: %.400s", c.id, h.Get("Content-Type"), body)
		}
	}
}
