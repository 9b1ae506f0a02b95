package control_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/node/authfilter"
)

const accounts = `
apiVersion: v1
kind: Namespace
metadata: {name: monitoring}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-k8s, namespace: monitoring}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: somebody, namespace: monitoring}
`

// A real API server, with the rights that users grant, lets Prometheus read the metrics of an agent that authenticates
// requests with its own account, and no other client.
func TestGateOfMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	grants, err := os.ReadFile("../../deploy/monitoring/authorization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), Manifests: append(deploy.Access(),
		[]byte(accounts), grants)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	agent, err := rights.As(ctx, p.Admin, rights.Account{Namespace: deploy.AgentNamespace, Name: deploy.Agent})
	if err != nil {
		t.Fatal(err)
	}
	token := func(name string) string {
		c, err := rights.As(ctx, p.Admin, rights.Account{Namespace: "monitoring", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return c.BearerToken
	}
	for _, c := range []struct {
		who, path, token string
		want             int
	}{
		{"prometheus", "/metrics", token("prometheus-k8s"), 200},
		{"prometheus", "/debug/pprof/", token("prometheus-k8s"), 403},
		{"somebody", "/metrics", token("somebody"), 403},
		{"a forger", "/metrics", "forged", 401},
	} {
		// New rights take effect a moment later; a new filter has no cached refusal.
		var got int
		err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
			g, err := authfilter.New(agent, logr.Discard())
			if err != nil {
				return false, err
			}
			r := httptest.NewRequest("GET", c.path, nil)
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })).ServeHTTP(w, r)
			got = w.Code
			return got == c.want, nil
		})
		if err != nil {
			t.Errorf("%s is answered %d for %s, want %d: %v", c.who, got, c.path, c.want, err)
		}
	}
}
