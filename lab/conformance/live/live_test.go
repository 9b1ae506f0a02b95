package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/conformance/live"
	"github.com/tenon-numa/tenon/lab/controllers"
)

// kubeScheduler is the argument with which this program is a kube-scheduler.
const kubeScheduler = "kube-scheduler"

func TestMain(m *testing.M) {
	lab.MaybeChild()
	controllers.MaybeChild()
	if len(os.Args) > 1 && os.Args[1] == kubeScheduler {
		os.Args = os.Args[1:]
		os.Exit(cli.Run(app.NewSchedulerCommand()))
	}
	if err := lab.EnableGangs(); lab.HasGangs && err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run plays cases under a scheduler, and returns the results by name.
func run(t *testing.T, s live.Scheduler, cases []*conformance.Case) (map[string]*conformance.Result, error) {
	t.Helper()
	found, err := live.Run(t.Context(), cases, live.Options{Scheduler: s, Settle: 3 * time.Second, Pause: time.Second,
		Nodes: live.DefaultNodes, Parallel: live.DefaultParallel, Progress: func(line string) { t.Log(line) }})
	if err != nil {
		return nil, err
	}
	out := map[string]*conformance.Result{}
	for _, r := range found.Results {
		if r.Err != nil {
			t.Errorf("case %s: %v", r.Case.Name, r.Err)
		}
		out[r.Case.Name] = r
	}
	return out, nil
}

func selected(t *testing.T, names ...string) []*conformance.Case {
	t.Helper()
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		return conformance.Short(all)
	}
	out := slices.DeleteFunc(all, func(c *conformance.Case) bool { return !slices.Contains(names, c.Name) })
	if len(out) != len(names) {
		t.Fatalf("%d cases of %v", len(out), names)
	}
	return out
}

// Tenon passes the short form of the suite, with real kubelets and a real API server. It loses two cases: it sends a
// pod unjudged to a node without a layout, or none if unknownNodes is Refuse, and waits for the report of an agent that
// does not run. docs/reference/conformance.md explains both.
func TestTenonPasses(t *testing.T) {
	short := append(selected(t), selected(t, "claims-burst", "no-data", "old-data", "restart-kubelet")...)
	for _, c := range []struct {
		name  string
		cases []*conformance.Case
		lost  map[string][]judge.Kind
	}{
		{live.Tenon, short, map[string][]judge.Kind{"no-data": {judge.AvoidableRefusal}, "old-data": {judge.AvoidableWait}}},
		{live.TenonStrict, selected(t, "no-data"), map[string][]judge.Kind{
			"no-data": {judge.AvoidableWait, judge.AvoidableWait, judge.AvoidableWait}}},
	} {
		tenon, err := live.BuiltIn(t.Context(), c.name, live.Sources{})
		if err != nil {
			t.Fatal(err)
		}
		results, err := run(t, tenon, live.Playable(c.cases))
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range results {
			var kinds []judge.Kind
			for _, f := range r.Findings {
				kinds = append(kinds, f.Kind)
			}
			if !slices.Equal(kinds, c.lost[name]) {
				t.Errorf("%s, case %s: findings %+v, want %v", c.name, name, r.Findings, c.lost[name])
			}
		}
	}
}

// A scheduler that a command starts is graded like any other: kube-scheduler binds a pod that no kubelet admits, a pod
// that finds room, and pods with the first devices for their claims.
func TestAForeignSchedulerIsGraded(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := fmt.Sprintf("%s %s --kubeconfig {kubeconfig} --authentication-kubeconfig {kubeconfig} "+
		"--authorization-kubeconfig {kubeconfig} --leader-elect=false --secure-port=0", exe, kubeScheduler)
	results, err := run(t, live.Foreign("default-scheduler", command),
		selected(t, "single-numa-full-halves", "best-effort-wide", "claims-beside-cpus", "claims-extended"))
	if err != nil {
		t.Fatal(err)
	}
	found := results["single-numa-full-halves"].Findings
	if len(found) != 1 || found[0].Kind != judge.AvoidableRefusal || found[0].Pod != "late" ||
		!strings.Contains(found[0].Text, "TopologyAffinityError") {
		t.Errorf("findings %+v, want the refusal of pod late", found)
	}
	for _, name := range []string{"claims-beside-cpus", "claims-extended"} {
		found := results[name].Findings
		if len(found) == 0 || found[0].Kind != judge.AvoidableMisalignment ||
			!strings.Contains(found[0].Text, "other devices") {
			t.Errorf("case %s: findings %+v, want a pod whose GPU is not beside its CPUs", name, found)
		}
	}
	if r := results["best-effort-wide"]; !r.Passed() {
		t.Errorf("findings %+v, want none", r.Findings)
	}
}

func TestACommandThatEndsIsAnError(t *testing.T) {
	_, err := run(t, live.Foreign("nobody", "false"), selected(t, "best-effort-wide"))
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "scheduler ended") {
		t.Errorf("error %v, want one that the scheduler ended", err)
	}
}
