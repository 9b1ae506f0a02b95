package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
)

// slow stands for kubelets that never finish: a rollout with it lasts until it is stopped.
type slow struct {
	console.Kubelets
	asked cli.KubeletApplyOptions
	fails error
}

func (s *slow) Apply(_ string, o cli.KubeletApplyOptions) (cli.KubeletApplier, string, error) {
	s.asked = o
	return s, "kube-system", nil
}

func (s *slow) Plan(context.Context, whatif.Variation) (document.KubeletPlan, error) {
	return document.KubeletPlan{}, errors.New("is not asked")
}

func (s *slow) Pending(_ context.Context, p document.KubeletPlan) ([]document.KubeletPlanNode, error) {
	return p.Nodes, s.fails
}

func (s *slow) Run(ctx context.Context, nodes []document.KubeletPlanNode, say func(document.KubeletStep)) error {
	for _, n := range nodes {
		say(document.KubeletStep{Node: n.Name, Step: "evict"})
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

const (
	asJSON  = "Content-Type: application/json"
	rollout = "/api/v1/kubelets/rollout"
	// ofA is a plan for node a, which the person may read, and for a node that the person may not read.
	ofA = `{"plan":{"kind":"KubeletPlan","nodes":[{"name":"a"},{"name":"secret-node"}]},"maxUnavailable":2}`
)

func decoded[T any](t *testing.T, code int, body string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK {
		t.Fatalf("answers %d %s, %v", code, body, err)
	}
	return out
}

// The console computes a plan from the live view, by the kubelets' own algorithm.
func TestAChangeOfKubeletsIsPlanned(t *testing.T) {
	s := signedIn(t)
	code, body, _ := s.ask(t, "POST", "/api/v1/kubelets/plan", `{"topologyManagerPolicy":"restricted"}`, asJSON)
	p := decoded[document.KubeletPlan](t, code, body)
	if p.Kind != "KubeletPlan" || len(p.Nodes) != 1 || p.Nodes[0].Name != "a" || len(p.Nodes[0].Pods) != 1 ||
		!strings.Contains(strings.Join(p.Nodes[0].Diff, "\n"), "+ topologyManagerPolicy: restricted") {
		t.Errorf("plans %s", body)
	}
}

func TestOneRolloutAtATimeIsWatchedAndStopped(t *testing.T) {
	s := signedIn(t)
	kubelets := &slow{}
	s.who.Kubelets = kubelets
	before := func(want ...string) document.KubeletRollout {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			code, body, _ := s.ask(t, "GET", rollout, "")
			got, all := decoded[document.KubeletRollout](t, code, body), true
			for _, w := range want {
				all = all && strings.Contains(body, w)
			}
			if strings.Contains(body, "secret-node") {
				t.Fatalf("shows a node that the person may not read: %s", body)
			}
			if all {
				return got
			}
			if ctx.Err() != nil {
				t.Fatalf("%s lacks %q", body, want)
			}
		}
	}
	if got := before(); got.Running || got.Began != nil || len(got.Nodes) > 0 {
		t.Errorf("before the first there is %+v", got)
	}
	code, body, _ := s.ask(t, "POST", rollout+"?dryRun=true", ofA, asJSON)
	if got := decoded[document.KubeletRollout](t, code, body); !got.DryRun || got.Running ||
		got.Namespace != "kube-system" || got.StopCommand != "systemctl stop kubelet" || kubelets.asked.MaxUnavailable != 2 {
		t.Errorf("a dry run answers %s", body)
	}
	if got := before(); got.Began != nil {
		t.Errorf("a dry run has begun: %+v", got)
	}
	code, body, _ = s.ask(t, "POST", rollout, ofA, asJSON)
	if got := decoded[document.KubeletRollout](t, code, body); !got.Running || got.By != "lab" || !got.MayStop {
		t.Errorf("begins %s", body)
	}
	before(`"step":"evict"`)
	if code, body, _ := s.ask(t, "POST", rollout, ofA, asJSON); code != http.StatusConflict {
		t.Errorf("a second one answers %d %s", code, body)
	}
	code, body, _ = s.ask(t, "DELETE", rollout, "")
	decoded[document.KubeletRollout](t, code, body)
	if got := before(`"running":false`, "may not read"); got.Ended == nil || got.MayStop {
		t.Errorf("stopped, it is %+v", got)
	}
	if code, body, _ := s.ask(t, "DELETE", rollout, ""); code != http.StatusConflict {
		t.Errorf("stopped again, it answers %d %s", code, body)
	}
	code, body, _ = s.ask(t, "POST", rollout, `{}`, asJSON) // continues with the same plan
	if got := decoded[document.KubeletRollout](t, code, body); !got.Running || got.MaxUnavailable != 2 || got.Error != "" {
		t.Errorf("goes on as %s", body)
	}
	s.handler.Close()
	before(`"running":false`)
}

// Only the person who began a plan may stop it or continue it.
func TestARolloutIsOfOnePerson(t *testing.T) {
	s := signedIn(t)
	s.who.Kubelets = &slow{}
	code, body, _ := s.ask(t, "POST", rollout, ofA, asJSON)
	decoded[document.KubeletRollout](t, code, body)
	t.Cleanup(s.handler.Close)
	s.who.Name = "anna"
	if code, body, _ := s.ask(t, "DELETE", rollout, ""); code != http.StatusForbidden {
		t.Errorf("anna stops it: %d %s", code, body)
	}
	s.handler.Close()
	if code, body, _ := s.ask(t, "POST", rollout, `{}`, asJSON); code != http.StatusUnprocessableEntity {
		t.Errorf("anna goes on with it: %d %s", code, body)
	}
}

func TestPlansAndRolloutsAreChecked(t *testing.T) {
	s := signedIn(t)
	kubelets := &slow{}
	const plan = "/api/v1/kubelets/plan"
	for _, c := range []struct {
		path, body string
		code       int
		field      string
	}{
		{plan, ``, 400, "body"},
		{plan, `{}`, 422, "body"},
		{plan, `{"policy":"none"}`, 400, "body"},
		{plan, `{"topologyManagerPolicy":"best"}`, 422, "topologyManagerPolicy"},
		{plan, `{"cpuManagerPolicy":"Static"}`, 422, "cpuManagerPolicy"},
		{plan, `{"memoryManagerPolicy":"static"}`, 422, "memoryManagerPolicy"},
		{plan, `{"options":["scope=x"]}`, 422, "options"},
		{plan, `{"reservedCPUs":"0-"}`, 422, "reservedCPUs"},
		{plan, `{"reservedCPUs":"0-99999999999"}`, 422, "reservedCPUs"},
		{plan, `{"reservedMemory":"0:memory=9Ei"}`, 422, "reservedMemory"},
		{plan, `{"topologyManagerPolicy":"none","selector":")"}`, 422, "selector"},
		{rollout, `{}`, 422, "plan"},
		{rollout, `{"plan":{"nodes":[{"name":"../x"}]}}`, 422, "plan"},
		{rollout, `{"plan":{"nodes":[{"name":"a"}]},"namespace":"A"}`, 422, "namespace"},
		{rollout, `{"plan":{"nodes":[{"name":"a"}]},"maxUnavailable":-1}`, 422, "maxUnavailable"},
		{rollout, `{"plan":{"nodes":[{"name":"a"}]},"image":"` + strings.Repeat("x", 2000) + `"}`, 422, "image"},
	} {
		if c.path == rollout {
			s.who.Kubelets = kubelets
		}
		code, body, _ := s.ask(t, "POST", c.path, c.body, asJSON)
		var e document.ErrorDetails
		if err := json.Unmarshal([]byte(body), &e); err != nil || code != c.code || e.Field != c.field ||
			e.Detail == "" || strings.Contains(e.Detail, "--") {
			t.Errorf("%s %.100s answers %d %s, want %d and field %q", c.path, c.body, code, body, c.code, c.field)
		}
	}
	kubelets.fails = errors.New("node a: pod ml/p has no controller")
	if code, body, _ := s.ask(t, "POST", rollout, ofA, asJSON); code != 422 || !strings.Contains(body, "no controller") {
		t.Errorf("a plan that cannot be carried out answers %d %s", code, body)
	}
	s.who.Kubelets = nil
	for _, path := range []string{plan, rollout} {
		if code, body, _ := s.ask(t, "POST", path, `{}`, asJSON); code != http.StatusNotFound {
			t.Errorf("where nothing changes kubelets, %s answers %d %s", path, code, body)
		}
	}
}
