package demo

import (
	"os"
	"testing"

	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/controllers"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	controllers.MaybeChild()
	os.Exit(m.Run())
}

// On real kubelets, the pods of the story run only under Tenon. Pods with claims get all their GPUs beside their CPUs
// under Tenon, in whatever order kubelets admit them, and some do not under kube-scheduler.
func TestTheActsOnKubelets(t *testing.T) {
	found, err := Run(t.Context(), Options{Dir: t.TempDir(), Acts: []Act{Story, Claims}, Seed: 1, Seeds: 1,
		Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found.Story.Pods {
		if f := p.Under(sim.Tenon); !f.Running || f.Refusals > 0 {
			t.Errorf("pod %s under Tenon: %+v", p.Name, f)
		}
		if f := p.Under(sim.KubeLeast); f.Running || f.Refusals == 0 {
			t.Errorf("pod %s under kube-scheduler: %+v", p.Name, f)
		}
	}
	for _, r := range found.Claims.Rounds {
		switch tenon := r.Scheduler == sim.Tenon; {
		case tenon && (r.Apart > 0 || r.Refusals > 0 || r.Aligned < 20):
			t.Errorf("claims under Tenon: %+v", r)
		case !tenon && r.Apart == 0:
			t.Errorf("claims under %s: %+v; the act shows nothing", r.Scheduler, r)
		}
	}
}
