package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
)

// labKubelets are the console's kubelets, but without the pods that change nodes.
type labKubelets struct {
	console.Kubelets
	x *changed
}

func (k labKubelets) Apply(namespace string, o cli.KubeletApplyOptions) (cli.KubeletApplier, string, error) {
	return commands.Applier(k.x.by, o), namespace, nil
}

// browser sends requests to a console as a signed-in person.
type browser struct {
	at     string
	cookie *http.Cookie
}

// ask sends a body as JSON, or as text if it is a string, and decodes the answer. It returns the status.
func (b *browser) ask(ctx context.Context, t *testing.T, method, path string, body, into any) int {
	t.Helper()
	media, data, err := "text/plain", []byte(nil), error(nil)
	if text, ok := body.(string); ok {
		data = []byte(text)
	} else {
		media = "application/json"
		data, err = json.Marshal(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, b.at+"/api/v1/"+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if len(res.Cookies()) > 0 {
		b.cookie = res.Cookies()[0]
	}
	answer, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v %s", method, path, err, answer)
	}
	return res.StatusCode
}

// console serves a console of the cluster, and signs in.
func (x *changed) console(ctx context.Context, t *testing.T) *browser {
	t.Helper()
	who, err := commands.Watch(ctx, x.RESTConfig(), "admin", "default")
	if err != nil {
		t.Fatal(err)
	}
	who.Kubelets = labKubelets{who.Kubelets, x}
	return signedIn(ctx, t, who)
}

// signedIn serves a console for an identity, which it closes at the end of the test, and signs in.
func signedIn(ctx context.Context, t *testing.T, who *console.Identity) *browser {
	t.Helper()
	t.Cleanup(who.Close)
	secret, open := console.OneTime(who, time.Hour, time.Now)
	h, err := console.New(console.Config{Version: "test", Hosts: []string{"127.0.0.1"},
		Identities: console.NewSessions(open, false, 1, time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	b := &browser{at: s.URL}
	b.ask(ctx, t, "POST", "session", secret, &document.SessionDetails{})
	return b
}

// served: the console plans the same change as the command, carries it out, and shows its progress.
func (x *changed) served(ctx context.Context, t *testing.T) {
	x.fill(ctx, t, "one", "a")
	b, want := x.console(ctx, t), x.plan(ctx, t)
	x.examined(ctx, t, b)
	var plan document.KubeletPlan
	change := document.KubeletChange{TopologyManagerPolicy: want.Nodes[0].After.TopologyManagerPolicy,
		MemoryManagerPolicy: want.Nodes[0].After.MemoryManagerPolicy}
	if change.MemoryManagerPolicy == "Static" {
		change.ReservedMemory = "0:memory=2Gi;1:memory=2Gi"
	}
	if code := b.ask(ctx, t, "POST", "kubelets/plan", change, &plan); code != http.StatusOK ||
		!reflect.DeepEqual(plan, want) {
		t.Fatalf("answers %d\n%+v\nthe command plans\n%+v", code, plan, want)
	}
	var refused document.ErrorDetails
	body := document.KubeletRolloutRequest{Plan: plan, MaxUnavailable: 2}
	if code := b.ask(ctx, t, "POST", "kubelets/rollout", body, &refused); code != http.StatusUnprocessableEntity ||
		!strings.Contains(refused.Detail, "has no controller") {
		t.Errorf("with a pod that would be lost: %d %+v", code, refused)
	}
	var r document.KubeletRollout
	body.Force = true
	if code := b.ask(ctx, t, "POST", "kubelets/rollout", body, &r); code != http.StatusOK || !r.Running ||
		len(r.Nodes) != 2 {
		t.Fatalf("begins with %d %+v", code, r)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			r = document.KubeletRollout{}
			b.ask(ctx, t, "GET", "kubelets/rollout", "", &r)
			return !r.Running, nil
		})
	if err != nil || r.Error != "" || r.Nodes[0].Step != "done" || r.Nodes[1].Step != "done" {
		t.Errorf("ends with %v, %+v", err, r)
	}
	x.rests(ctx, t, plan, true)
	if code := b.ask(ctx, t, "POST", "kubelets/rollout", body, &r); code != http.StatusOK || len(r.Nodes) > 0 {
		t.Errorf("a plan that is done: %d %+v", code, r)
	}
}

// examined: the console finds what the command finds, although it takes the objects that it follows from memory and
// reads only the others.
func (x *changed) examined(ctx context.Context, t *testing.T, b *browser) {
	t.Helper()
	text, stderr, _ := run(ctx, x.Cluster, "doctor", "-o", "json")
	var want, got document.Diagnosis
	if err := json.Unmarshal([]byte(text), &want); err != nil || len(want.Findings) == 0 {
		t.Fatalf("doctor: %v %s %s", err, text, stderr)
	}
	if code := b.ask(ctx, t, "GET", "doctor", "", &got); code != http.StatusOK || !reflect.DeepEqual(got, want) {
		t.Errorf("the console answers %d\n%+v\nthe command\n%+v", code, got, want)
	}
}
