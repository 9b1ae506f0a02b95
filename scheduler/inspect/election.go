package inspect

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/api/document"
)

// election is a document of the lease that can also be written as text.
type election document.Election

// Role returns this scheduler's role in the election.
func (s Source) Role() document.Election {
	if s.Election == nil {
		return document.Election{Role: document.Alone}
	}
	return s.Election()
}

func (s Source) election() election { return election(s.Role()) }

// role returns a sentence about this scheduler's role in the election.
func (e election) role() string {
	switch {
	case e.Role == document.Alone:
		return "this scheduler takes part in no election, and schedules"
	case e.Role == document.Leads:
		return fmt.Sprintf("this scheduler is the leader, as %q", e.Identity)
	case e.Leader == "":
		return "this scheduler is a standby and schedules nothing; no leader is known"
	}
	return fmt.Sprintf("this scheduler is a standby and schedules nothing; the leader is %q", e.Leader)
}

// remedy returns how to reach the leader. It returns "" unless this scheduler is a standby and the leader's identity
// begins with the name of a pod.
func (e election) remedy() string {
	host, _, ok := strings.Cut(e.Leader, "_")
	if e.Role != document.Standby || !ok {
		return ""
	}
	return fmt.Sprintf("ask the leader: kubectl -n NAMESPACE port-forward pod/%s 10261", host)
}

func (e election) text(w io.Writer) {
	printf(w, "%s\n", e.role())
	if !e.Renewed.IsZero() {
		printf(w, "the lease was renewed at %s\n", e.Renewed.UTC().Format(time.RFC3339))
	}
	if r := e.remedy(); r != "" {
		printf(w, "%s\n", r)
	}
}

// roleHeader is a header of every answer. It has the scheduler's role, for readers of JSON.
const roleHeader = "Tenon-Scheduler"

// mark writes the role and the leader into the header of an answer. If text is true and this scheduler is a standby,
// it also writes a first line about that.
func (e election) mark(w http.ResponseWriter, text bool) {
	w.Header().Set(roleHeader, strings.TrimSpace(string(e.Role)+" "+e.Leader))
	if text && e.Role == document.Standby {
		fmt.Fprintf(w, "%s\n\n", e.role())
	}
}

// Index lists what is served below [Prefix] and beside it. Anybody may read it, because it has no data of the
// cluster.
const Index = `tenon-scheduler, inspection. / is open to everybody; the rest needs a bearer token with the right to get the path.

` + Prefix + `                           this list, and whether the scheduler leads
` + Prefix + `leader                     who holds the lease: this scheduler, or which other one
` + Prefix + `nodes                      the ledger: every node with what is free and how old its report is
` + Prefix + `nodes/NAME                 one node: its rules, what is free, and what every pod holds
` + Prefix + `pods/NAMESPACE/NAME        the last decisions on a pod, with what each node answered
` + Prefix + `mix                        the workload profile by which nodes are scored
` + Prefix + `health                     ok, or what keeps the ledger from being complete

Answers are JSON; with ?format=text they are for people. Metrics and probes are at kube-scheduler's own port
(10259 unless configured): /metrics, /livez, /readyz, /healthz.
`

// index writes the list, and the scheduler's role.
func (s Source) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	e := s.election()
	e.mark(w, false)
	fmt.Fprint(w, Index, "\n")
	e.text(w)
}
