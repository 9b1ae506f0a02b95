package console_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/face/console/client"
)

// The generated client calls every operation of the server, and understands every answer.
func TestTheClientCallsEveryOperation(t *testing.T) {
	s := open(t)
	signed := func(_ context.Context, r *http.Request) error {
		if s.cookie != nil {
			r.AddCookie(s.cookie)
		}
		return nil
	}
	c, err := client.NewClientWithResponses(s.URL, client.WithRequestEditorFn(signed))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	in, err := c.SignInWithTextBodyWithResponse(ctx, &client.SignInParams{}, s.secret)
	if err != nil || in.JSON200 == nil || in.JSON200.Name != "lab" {
		t.Fatalf("signing in: %+v, %v", in, err)
	}
	s.cookie = in.HTTPResponse.Cookies()[0]
	f := s.who.View.Follow()
	defer f.Close()
	for !s.who.View.State().Ready {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// The stream has no end: its first event is enough, and the request ends with its context.
	streamed, cancel := context.WithCancel(ctx)
	res, err := c.FollowChanges(streamed)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 64)
	if n, err := io.ReadFull(res.Body, first); err != nil || !strings.Contains(string(first), "event: change") {
		t.Errorf("the stream begins with %q: %v", first[:n], err)
	}
	cancel()
	res.Body.Close()

	called := map[string]bool{"signIn": true, "followChanges": true}
	for id, call := range operations(c) {
		called[id] = true
		got, err := call(ctx)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		r := reflect.ValueOf(got).Elem()
		if code := r.FieldByName("HTTPResponse").Interface().(*http.Response).StatusCode; code != 200 {
			t.Errorf("%s answers %d: %.300s", id, code, r.FieldByName("Body").Bytes())
		} else if r.FieldByName("JSON200").IsNil() {
			t.Errorf("%s: the client does not decode the answer", id)
		}
	}
	none, err := c.GetNodeWithResponse(ctx, "nope")
	if err != nil || none.ApplicationproblemJSONDefault == nil || *none.ApplicationproblemJSONDefault.Field != "node" {
		t.Errorf("of a node that is not there: %+v, %v", none, err)
	}
	rolledOut(t, s, c)
	called["beginRollout"], called["stopRollout"] = true, true
	if out, err := c.SignOutWithResponse(ctx); err != nil || out.StatusCode() != http.StatusNoContent {
		t.Errorf("signing out: %+v, %v", out, err)
	}
	called["signOut"] = true
	for _, all := range described(t, open(t)).Paths {
		for _, o := range all {
			if !called[o.OperationID] {
				t.Errorf("%s is not called here", o.OperationID)
			}
		}
	}
}

// operations are those with a JSON answer, by their ids.
func operations(c *client.ClientWithResponses) map[string]func(context.Context) (any, error) {
	text := func(s string) *string { return &s }
	const yaml = "application/yaml"
	scheduler := text("tenon-system/tenon-scheduler")
	return map[string]func(context.Context) (any, error){
		"getCluster": func(ctx context.Context) (any, error) {
			return c.GetClusterWithResponse(ctx, &client.GetClusterParams{Label: &[]string{"zone", "rack"}})
		},
		"getNode":         func(ctx context.Context) (any, error) { return c.GetNodeWithResponse(ctx, "a") },
		"getNodeAffinity": func(ctx context.Context) (any, error) { return c.GetNodeAffinityWithResponse(ctx, "a") },
		"getNodeUse": func(ctx context.Context) (any, error) {
			return c.GetNodeUseWithResponse(ctx, "a", &client.GetNodeUseParams{Pod: text("ml/p")})
		},
		"listPods": func(ctx context.Context) (any, error) {
			return c.ListPodsWithResponse(ctx, &client.ListPodsParams{Namespace: text("ml"), Limit: text("5")})
		},
		"getPod": func(ctx context.Context) (any, error) { return c.GetPodWithResponse(ctx, "ml", "wait") },
		"listDecisions": func(ctx context.Context) (any, error) {
			return c.ListDecisionsWithResponse(ctx, "ml", "wait")
		},
		"simulate": func(ctx context.Context) (any, error) {
			return c.SimulateWithBodyWithResponse(ctx, &client.SimulateParams{Without: &[]string{"b"}}, yaml,
				strings.NewReader(manifest))
		},
		"check": func(ctx context.Context) (any, error) {
			return c.CheckWithBodyWithResponse(ctx, &client.CheckParams{}, yaml, strings.NewReader(manifest))
		},
		"getFitting": func(ctx context.Context) (any, error) {
			return c.GetFittingWithResponse(ctx, &client.GetFittingParams{Shape: &[]string{"cpu=4"}})
		},
		"getDiagnosis": func(ctx context.Context) (any, error) {
			return c.GetDiagnosisWithResponse(ctx, &client.GetDiagnosisParams{Node: text("a")})
		},
		"getScheduling": func(ctx context.Context) (any, error) { return c.GetSchedulingWithResponse(ctx) },
		"setArguments": func(ctx context.Context) (any, error) {
			return c.SetArgumentsWithResponse(ctx, &client.SetArgumentsParams{Scheduler: scheduler, DryRun: text("true")},
				client.SetArgumentsJSONRequestBody{Arguments: map[string]any{"unknownNodes": "Allow"}})
		},
		"planKubelets": func(ctx context.Context) (any, error) {
			return c.PlanKubeletsWithResponse(ctx, client.KubeletChange{TopologyManagerPolicy: text("restricted")})
		},
		"getRollout": func(ctx context.Context) (any, error) { return c.GetRolloutWithResponse(ctx) },
		"getNUMAAware": func(ctx context.Context) (any, error) {
			return c.GetNUMAAwareWithResponse(ctx, &client.GetNUMAAwareParams{Scheduler: scheduler})
		},
		"setNUMAAware": func(ctx context.Context) (any, error) {
			return c.SetNUMAAwareWithResponse(ctx, &client.SetNUMAAwareParams{Scheduler: scheduler, DryRun: text("true")},
				client.SetNUMAAwareJSONRequestBody{Status: "close"})
		},
		"getSession": func(ctx context.Context) (any, error) { return c.GetSessionWithResponse(ctx) },
		"getOpenAPI": func(ctx context.Context) (any, error) { return c.GetOpenAPIWithResponse(ctx) },
	}
}
