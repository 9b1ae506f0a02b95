package kubelet

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/core/place"
)

// served is a kubelet's answer; status 0 hangs up.
type served struct {
	status int
	body   string
	asked  []string // path and authorization
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("Authorization"))
	if s.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(s.status)
	fmt.Fprint(w, s.body)
}

func (s *served) serve(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

const effective = `{"kubeletconfig":{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1",
"topologyManagerPolicy":"single-numa-node","topologyManagerScope":"container","cpuManagerPolicy":"static",
"reservedSystemCPUs":"0,8","memoryManagerPolicy":"None","memorySwap":{},"ofTomorrow":{"x":[1]},"logging":{"format":"text"}}}`

func TestKubeletTellsItsConfiguration(t *testing.T) {
	s := &served{status: 200, body: effective}
	rc := s.serve(t)
	direct, err := NewEndpoint(rc)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := NewProxyEndpoint(rc, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Endpoint{direct, proxy} {
		c, err := e.Configuration(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !c.Effective || c.Rules.Topology.Policy != place.SingleNUMA || c.Rules.CPU.Reserved.String() != "0,8" {
			t.Errorf("configuration is %+v", c)
		}
	}
	if got := strings.Join(s.asked, " "); got != "/configz Bearer secret /api/v1/nodes/node-a/proxy/configz Bearer "+
		"secret" {
		t.Errorf("asked for %s", got)
	}
}

func TestAnswersThatAreNoConfiguration(t *testing.T) {
	s := &served{}
	e, err := NewEndpoint(s.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{403, "Forbidden (user=system:serviceaccount:x, verb=get, resource=nodes, subresource=configz)",
			"subresource=configz"},
		{302, "", "302"},
		{200, "", "parse"},
		{200, `{"componentconfig":{}}`, "no kubeletconfig"},
		{200, `{"kubeletconfig":{"apiVersion":"v1","kind":"Pod"}}`, "object is"},
		{200, `{"kubeletconfig":{"cpuManagerPolicyOptions":{"of-tomorrow":"true"}}}`, "of-tomorrow"},
		{200, strings.Repeat(" ", maxConfig+1), "more than"},
		{0, "", "EOF"},
	} {
		s.status, s.body = c.status, c.body
		if _, err := e.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "/configz") {
			t.Errorf("%d %.60q: error %v does not say %s and the address", c.status, c.body, err, c.want)
		}
	}
}

func TestFilesCountUntilTheKubeletHasAnswered(t *testing.T) {
	s := &served{status: 401}
	e, err := NewEndpoint(s.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &Preferred{Kubelet: e, Files: written(t, header+"topologyManagerPolicy: restricted", nil)}
	c, err := p.Configuration(t.Context())
	if err != nil || c.Effective || c.Rules.Topology.Policy != place.Restricted || c.Doubt == nil {
		t.Errorf("without an answer: %+v, %v", c, err)
	}
	s.status, s.body = 200, effective
	if c, err = p.Configuration(t.Context()); err != nil || !c.Effective || c.Doubt != nil {
		t.Errorf("with an answer: %+v, %v", c, err)
	}
	s.status = 503
	if c, err = p.Configuration(t.Context()); err == nil {
		t.Errorf("after the kubelet went silent the files are believed: %+v", c)
	}
}

func TestSilentKubeletIsLeftAloneForAWhile(t *testing.T) {
	s := &served{status: 401}
	e, err := NewEndpoint(s.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &Preferred{Kubelet: e, Files: written(t, header, nil), First: time.Minute, Last: 3 * time.Minute}
	for _, over := range []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute} {
		p.next = p.next.Add(-over) // as if that time had passed since the previous request
		asked := len(s.asked)
		for range 3 {
			if c, err := p.Configuration(t.Context()); err != nil || c.Doubt == nil {
				t.Errorf("configuration %+v, error %v", c, err)
			}
		}
		if len(s.asked) != asked+1 {
			t.Errorf("asked %d times after %s, want once", len(s.asked)-asked, over)
		}
	}
}

func TestAnswerThatIsNotUnderstoodIsNotReplacedByFiles(t *testing.T) {
	s := &served{status: 200, body: `{"kubeletconfig":{"topologyManagerPolicy":"of-tomorrow"}}`}
	e, err := NewEndpoint(s.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &Preferred{Kubelet: e, Files: written(t, header, nil)}
	if c, err := p.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "of-tomorrow") {
		t.Errorf("configuration %+v, error %v", c, err)
	}
}

func FuzzParseEffective(f *testing.F) {
	f.Add([]byte(effective))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseEffective(data); err == nil && (c.ReserveCPUs < 0 || !c.Effective) {
			t.Fatalf("configuration %+v", c)
		}
	})
}
