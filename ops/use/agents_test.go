package use

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
)

// forwarder is an API server with the pod of one agent. It forwards the agent's port to a server of metrics.
type forwarder struct {
	t        *testing.T
	agent    string // its address; "": no server
	refuses  bool
	received []string // what reached the agent
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.refuses:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: "Failure", Code: 403, Reason: metav1.StatusReasonForbidden, Message: "pods is forbidden"})
	case r.Header.Get("Authorization") != "Bearer mine":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/api/v1/namespaces/tenon-agents/pods":
		pod := func(name, node string, phase v1.PodPhase) v1.Pod {
			return v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{NodeName: node},
				Status: v1.PodStatus{Phase: phase}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			Items: []v1.Pod{pod("old", "n", v1.PodFailed), pod("other", "m", v1.PodRunning), pod("agent", "n", v1.PodRunning)}})
	case r.URL.Path == "/api/v1/namespaces/tenon-agents/pods/agent/portforward" && r.Method == http.MethodPost:
		f.forward(w, r)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// forward uses SPDY, like API servers before websockets.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		f.t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	failed, data := <-streams, <-streams
	if data.Headers().Get(v1.PortHeader) != "9203" || failed.Headers().Get(v1.StreamType) != v1.StreamTypeError {
		f.t.Errorf("streams %v and %v", failed.Headers(), data.Headers())
	}
	to, err := net.Dial("tcp", f.agent)
	if err != nil {
		_ = data.Reset() // the error may come after the end of the data
		fmt.Fprintf(failed, "nothing listens there")
		_ = failed.Close()
		<-conn.CloseChan()
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, data) }()
	_, _ = io.Copy(data, to)
	_ = data.Close()
	_ = failed.Close()
	<-conn.CloseChan()
}

// An agent is read through the API server, and no credentials of the person reach it.
func TestAgentsAreReadByForwarding(t *testing.T) {
	f := &forwarder{t: t}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.received = append(f.received, fmt.Sprintf("%s %s %v", r.Method, r.URL, r.Header))
		_, _ = io.WriteString(w, metrics(1, 2))
	}))
	defer agent.Close()
	f.agent = strings.TrimPrefix(agent.URL, "http://")
	api := httptest.NewServer(f)
	defer api.Close()
	scrape, err := Agents(&rest.Config{Host: api.URL, BearerToken: "mine"}, AgentNamespace)
	if err != nil {
		t.Fatal(err)
	}
	body, err := scrape(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if err != nil || string(text) != metrics(1, 2) || body.Close() != nil {
		t.Errorf("error %v, read %q", err, text)
	}
	if said := strings.Join(f.received, "\n"); len(f.received) != 1 || strings.Contains(said, "mine") ||
		!strings.HasPrefix(said, "GET /metrics") {
		t.Errorf("the agent received %s", said)
	}
	if _, err := scrape(t.Context(), "elsewhere"); err == nil || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("of a node without an agent: %v", err)
	}
	f.agent = "127.0.0.1:1"
	if _, err := scrape(t.Context(), "n"); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("where no port is open: %v", err)
	}
	f.refuses = true
	if _, err := scrape(t.Context(), "n"); err == nil || !strings.Contains(err.Error(), "tenon-node-use") {
		t.Errorf("without the right: %v", err)
	}
}
