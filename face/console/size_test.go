package console_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/console"
)

var manyNodes = flag.Int("many", 5000, "nodes of TestTheFirstPageIsSmall")

// fixed is a cluster that does not change.
type fixed struct{ state live.State }

func (f fixed) State() live.State                   { return f.state }
func (f fixed) Pods(func(live.Pod) bool) []live.Pod { return nil }
func (f fixed) Follow() live.Follower               { return f }
func (f fixed) Next(ctx context.Context) (live.Change, error) {
	<-ctx.Done()
	return live.Change{}, ctx.Err()
}
func (f fixed) Close() {}

// many returns nodes of the livetest machine that differ in the holdings of pods.
func many(t testing.TB, count int) (out []live.Node) {
	book, l := ledger.New(), livetest.Machine(t)
	for i := range count {
		name := fmt.Sprintf("node-%05d.zone-%d.example", i, i%7)
		u := state.Layout{Machine: l, Rules: livetest.Rules()}
		if i%5 > 0 {
			u.Entries = []state.Entry{holding("team", fmt.Sprint("worker-", i))}
			u.Entries[0].Holdings[0].Memory[0].Bytes += int64(i) << 20
		}
		book.Report(name, u)
		out = append(out, live.Node{Name: name, State: book.Snapshot().Node(name)})
	}
	return out
}

// The overview of 5,000 nodes takes less than a megabyte on its way to a browser.
func TestTheFirstPageIsSmall(t *testing.T) {
	who := &console.Identity{View: fixed{live.State{Version: 1, Ready: true, Nodes: many(t, *manyNodes), Pods: 50_000}}}
	h, err := console.New(console.Config{Hosts: []string{"example.com"}, Identities: everybody{who}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/cluster", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	size := w.Body.Len()
	t.Logf("%d nodes: %d KB compressed", *manyNodes, size>>10)
	if w.Code != http.StatusOK || size > 200**manyNodes {
		t.Errorf("answers %d with %d bytes for %d nodes", w.Code, size, *manyNodes)
	}
}

// everybody identifies every request as one identity.
type everybody struct{ who *console.Identity }

func (e everybody) Identify(*http.Request) (*console.Identity, error) { return e.who, nil }

func (e everybody) SignIn(context.Context, console.Credential) (*console.Identity, *http.Cookie, error) {
	return e.who, &http.Cookie{}, nil
}

func (e everybody) SignOut(*http.Request) *http.Cookie { return &http.Cookie{} }

func BenchmarkOverview(b *testing.B) {
	nodes := many(b, 5000)
	v := &fixed{live.State{Nodes: nodes}}
	who := everybody{&console.Identity{View: v}}
	h, err := console.New(console.Config{Hosts: []string{"example.com"}, Identities: who})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v.state.Version++
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/cluster", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
