package whole_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	tenon "github.com/tenon-numa/tenon/scheduler/server"
	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
	"github.com/tenon-numa/tenon/test/bench/whole"
)

// schedulerEnv makes this binary one of the two schedulers.
const schedulerEnv = "TENON_WHOLE_TEST_SCHEDULER"

func TestMain(m *testing.M) {
	whole.MaybeChild()
	switch os.Getenv(schedulerEnv) {
	case "plain":
		os.Exit(cli.Run(app.NewSchedulerCommand()))
	case "tenon":
		os.Exit(cli.Run(tenon.NewCommand(server.SetupSignalContext())))
	}
	os.Exit(m.Run())
}

// Schedulers run on a small cluster, Tenon also as two of them with a half of the nodes each: all pods are bound, and
// no kubelet refuses what Tenon bound.
func TestWholeContestOfASmallCluster(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, fmt.Errorf("not done in time"))
	defer cancel()
	deployed, err := rounds.Deployed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const pods = 60
	rounds, err := whole.Run(ctx, whole.Options{Size: synthetic.Size{Nodes: 20, Full: 50}, Seed: 1, Pods: pods, Rounds: 1,
		Contenders: []whole.Contender{
			{Name: "kube-scheduler", Program: exe, Env: []string{schedulerEnv + "=plain"}, Topologies: true},
			{Name: "Tenon", Program: exe, Env: []string{schedulerEnv + "=tenon"}, Profile: deployed},
			{Name: "shards", Program: exe, Env: []string{schedulerEnv + "=tenon"}, Profile: deployed, Shards: 2},
		},
		Quiet: 30 * time.Second, Most: 2 * time.Minute, Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(rounds) != 3 || rounds[0].Contender != "kube-scheduler" || rounds[1].Contender != "Tenon" {
		t.Fatalf("rounds are %+v", rounds)
	}
	for _, r := range rounds {
		if r.Bound != pods || len(r.Waiting) > 0 || r.Cut > 0 {
			t.Errorf("%s bound %d of %d pods: %v", r.Contender, r.Bound, pods, r.Waiting)
		}
		if j := r.Judged; j.Before > 0 || j.Differ > 0 || j.Admitted+r.Refused() != pods {
			t.Errorf("%s: the kubelet's managers say otherwise than the nodes did: %+v", r.Contender, j)
		}
		if r.Rate <= 0 || r.Slope <= 0 || r.Told <= 0 || r.Told > r.Ran || r.Peak <= 0 || r.Start <= 0 || r.PlaneCPU < 0 ||
			r.Whole.Scheduler <= 0 || r.Whole.Plane <= 0 || r.Whole.Nodes < 0 ||
			r.Written.Statuses != pods || r.Written.Layouts == 0 {
			t.Errorf("%s: not measured: %+v", r.Contender, r)
		}
	}
	if with, without := rounds[0].Written, rounds[1].Written; with.Topologies != with.Layouts || without.Topologies != 0 {
		t.Errorf("topologies: %d, want as many as layouts (%d); %d, want none", with.Topologies, with.Layouts,
			without.Topologies)
	}
	for _, r := range rounds[1:] {
		if n := r.Refused(); n > 0 {
			t.Errorf("kubelets refuse %d pods that %s bound: %v", n, r.Contender, r.Judged.Refused)
		}
	}
	text := whole.Report(rounds)
	for _, want := range []string{"20 nodes, 60 pods", "| kube-scheduler | 60 |", "| Tenon | 60 |", "| shards | 60 |",
		"as multiples of kube-scheduler"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
