// Package inspect serves a scheduler's state and decisions over HTTP: the ledger node by node, and the last decisions
// pod by pod with every reason.
//
// Invariant: a request changes nothing, and while it renders it holds no lock that scheduling waits for. The record of
// decisions is bounded, however many nodes and pods there are. The package does not authorize: it is served behind the
// authentication and authorization of the scheduler.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
)

// Prefix is the path below which everything is served. Access rules name it.
const Prefix = "/debug/tenon/"

// Source has what a handler reads. Book and Now are required; the other fields may be nil.
type Source struct {
	Book *ledger.Book
	// Problem returns why the node's published object was rejected, or "".
	Problem func(node string) string
	// Names returns the names of the nodes of the cluster, whether the ledger has them or not.
	Names func() []string
	// Reported returns when the last report of a node was received; the zero time if there was none.
	Reported func(node string) time.Time
	// Decisions are the last decisions, or nil.
	Decisions *Decisions
	// Mix returns the mix of the workload profile, or nil.
	Mix func() *score.Mix
	Now func() time.Time
	// Healthy returns an error that names the parts that do not run. A nil function means that all parts run.
	Healthy func() error
	// Election returns which of several schedulers leads. A nil function means that there is no election.
	Election func() document.Election
}

// Health returns why answers may be incomplete, or nil.
func (s Source) Health() error {
	if s.Healthy == nil {
		return nil
	}
	return s.Healthy()
}

// Qualities counts nodes by the quality of their data: "exact", "coarse", "none". Every quality has an entry.
func (s Source) Qualities() map[string]int {
	out := map[string]int{state.Exact.String(): 0, state.Estimated.String(): 0, document.None: 0}
	snap := s.Book.Snapshot()
	for _, name := range s.names(snap) {
		out[quality(snap.Node(name))]++
	}
	return out
}

// States counts the nodes that take fewer pods than they have room for, or none, by state: "silent", "unsettled",
// "refused", "unlisted". Every state has an entry; a node may be in several.
func (s Source) States() map[string]int {
	out := map[string]int{"silent": 0, "unsettled": 0, "refused": 0, "unlisted": 0}
	snap := s.Book.Snapshot()
	for _, name := range s.names(snap) {
		if s.problem(name) != "" {
			out["refused"]++
		}
		n := snap.Node(name)
		if n == nil {
			continue
		}
		if n.Silent {
			out["silent"]++
		}
		if n.Unsettled {
			out["unsettled"]++
		}
		if len(n.Unlisted) > 0 {
			out["unlisted"]++
		}
	}
	return out
}

func quality(n *state.Node) string {
	if n == nil {
		return document.None
	}
	return n.Quality.String()
}

// names returns the nodes of the cluster and the nodes of the ledger, in order.
func (s Source) names(snap *ledger.Snapshot) []string {
	out := snap.Names()
	if s.Names != nil {
		out = append(out, s.Names()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s Source) problem(node string) string {
	if s.Problem == nil {
		return ""
	}
	return s.Problem(node)
}

// age returns how long ago a node last reported, in seconds; nil if it never did.
func (s Source) age(node string) *float64 {
	if s.Reported == nil {
		return nil
	}
	at := s.Reported(node)
	if at.IsZero() {
		return nil
	}
	age := s.Now().Sub(at).Seconds()
	return &age
}

// Handler serves what [Index] lists below [Prefix]. Answers are JSON; with ?format=text they are for people. A node or
// pod without data is answered with 404 and the reason. A standby marks each answer.
func Handler(s Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"{$}", s.index)
	mux.HandleFunc("GET "+Prefix+"leader", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, s.election(), nil)
	})
	mux.HandleFunc("GET "+Prefix+"nodes", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, s.nodes(), nil)
	})
	mux.HandleFunc("GET "+Prefix+"nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		n, err := s.node(r.PathValue("name"))
		s.answer(w, r, n, err)
	})
	mux.HandleFunc("GET "+Prefix+"health", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET "+Prefix+"mix", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, s.mix(), nil)
	})
	mux.HandleFunc("GET "+Prefix+"pods/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		p, err := s.pod(r.PathValue("namespace"), r.PathValue("name"))
		s.answer(w, r, p, err)
	})
	return mux
}

// view is an answer that can also be written as text.
type view interface{ text(w io.Writer) }

// printf writes text for people. It passes strings among the arguments through [printable.Text], whatever their type,
// since they come from nodes and users.
func printf(w io.Writer, format string, args ...any) {
	for i, a := range args {
		if v := reflect.ValueOf(a); v.Kind() == reflect.String {
			args[i] = printable.Text(v.String())
		}
	}
	fmt.Fprintf(w, format, args...)
}

var errFormat = errors.New("format is json or text")

// answer writes a view in the format that the request asks for, or err with status 404.
func (s Source) answer(w http.ResponseWriter, r *http.Request, v view, err error) {
	format := r.URL.Query().Get("format")
	e := s.election()
	e.mark(w, false)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	case format == "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if _, isElection := v.(election); !isElection {
			e.mark(w, true)
		}
		v.text(w)
	case format == "" || format == "json":
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		// A client that went away while the answer was written needs no error.
		_ = out.Encode(v)
	default:
		http.Error(w, errFormat.Error(), http.StatusBadRequest)
	}
}

// quoted quotes a name from a request, which may be any text.
func quoted(name string) string {
	const longest = 253 // the longest name that Kubernetes accepts, in bytes
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	return fmt.Sprintf("%q", name)
}
