package scheduler_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// Of two schedulers the standby names the leader, in inspection, metrics and log. Once the leader has stopped, the
// standby becomes the leader and reports it.
func TestAStandbyNamesTheLeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "laptop", Machine: "laptop"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	first := startProgram(ctx, t, c, configured(c, elected))
	holder := leader(ctx, t, client, "")
	if e := first.election(ctx, t, document.Leads); e.Identity != holder || e.Leader != holder {
		t.Errorf("%s holds the lease, and it says %+v", holder, e)
	}
	second := startProgram(ctx, t, c, configured(c, elected))
	if e := second.election(ctx, t, document.Standby); e.Leader != holder || e.Identity == holder || e.Renewed.IsZero() {
		t.Errorf("%s holds the lease, and the standby says %+v", holder, e)
	}
	at := second.inspection(ctx, t)
	names := `standby and schedules nothing; the leader is "` + holder + `"`
	for _, path := range []string{"", "nodes?format=text"} {
		if text := second.get(ctx, t, at, inspect.Prefix+path); !strings.Contains(text, names) {
			t.Errorf("%s does not say %s:\n%s", path, names, text)
		}
	}
	second.measures(ctx, t, `tenon_leader{leader="`+holder+`"} 0`)
	if log := second.said(t); !strings.Contains(log, `"This scheduler is a standby"`) || !strings.Contains(log, holder) {
		t.Errorf("the standby's log does not name the leader")
	}
	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	e := second.election(ctx, t, document.Leads)
	if e.Leader == holder || e.Leader != e.Identity {
		t.Errorf("after the end of %s the standby says %+v", holder, e)
	}
	second.measures(ctx, t, `tenon_leader{leader="`+e.Identity+`"} 1`)
	if !strings.Contains(second.said(t), `"This scheduler is the leader"`) {
		t.Errorf("the new leader's log does not say so")
	}
}

// election waits until a scheduler reports a role, and returns its state.
func (p *program) election(ctx context.Context, t *testing.T, role document.Role) (e document.Election) {
	t.Helper()
	at := p.inspection(ctx, t)
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		e = document.Election{}
		err := json.Unmarshal([]byte(p.get(ctx, t, at, inspect.Prefix+"leader")), &e)
		return e.Role == role && e.Leader != "", err
	})
	if err != nil {
		t.Fatalf("the scheduler does not become a %s: %v; it says %+v", role, err, e)
	}
	return e
}

// measures fails the test unless a scheduler serves a sample.
func (p *program) measures(ctx context.Context, t *testing.T, sample string) {
	t.Helper()
	var found []string
	for line := range strings.Lines(p.get(ctx, t, p.secure, "/metrics")) {
		if strings.HasPrefix(line, "tenon_leader") {
			found = append(found, line)
		}
	}
	if got := strings.TrimSpace(strings.Join(found, "")); got != sample {
		t.Errorf("metrics are %q, want %q", got, sample)
	}
}
