package booking

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// A restarted scheduler learns from the existing pods the same mix as the scheduler before it.
func TestTheMixIsThereAfterARestart(t *testing.T) {
	var before, after Workload
	var pods []*v1.Pod
	for i := range 3000 {
		p := kubetest.CPUs(fmt.Sprint("p", i), 1+i/1000)
		if i%5 == 0 {
			p = kubetest.Pod(p.Name, "cpu=2 memory=1Gi acme.com/gpu=1")
		}
		p.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		pods = append(pods, p)
		before.Add(string(p.UID), converted(t, p))
	}
	plain := kubetest.Pod("plain", "")
	huge := kubetest.Pod("huge", "cpu=4 memory=9Ei acme.com/gpu=9000000000")
	slices.Reverse(pods)
	after.Learn(append(pods, plain, huge))
	// Either may be up to 64 pods behind, and differences that do not matter are not followed.
	for name, m := range map[string]*score.Mix{"before": before.Mix(), "after": after.Mix()} {
		weights := map[string]int64{}
		for _, s := range m.Shares() {
			weights[s.Pod.Shape()] = s.Weight
		}
		gpus, others := weights["q2;02000,memory=1073741824,acme.com/gpu=1"], weights["q2;03000,memory=1073741824"]
		if len(weights) != 3 || gpus < 45 || gpus > 57 || others < 165 || others > 205 {
			t.Errorf("%s: the mix is %s", name, inspect.Text(m))
		}
	}
}

// People can see a scheduler's mix.
func TestTheMixIsInspected(t *testing.T) {
	var u Workload
	if text := inspect.Text(u.Mix()); text != "" {
		t.Errorf("a scheduler that was asked for nothing says %q", text)
	}
	u.Add("p", converted(t, kubetest.Pod("p", "cpu=2 memory=1Gi acme.com/gpu=1")))
	if text := inspect.Text(u.Mix()); text != "100% 2 cpu, 1Gi memory, 1 acme.com/gpu" {
		t.Errorf("the mix reads %q", text)
	}
}

// While a cluster's workload does not change, the mix stays the same object, so that cached costs stay valid: a few
// pods of other kinds make no difference.
func TestTheMixStaysWhileTheClusterRunsTheSame(t *testing.T) {
	var u Workload
	renewals, taken := 0, u.Mix()
	for i := range 4096 {
		p := kubetest.CPUs(fmt.Sprint("p", i), 1+i%6)
		if i%32 == 31 {
			p = kubetest.Pod(p.Name, fmt.Sprintf("cpu=2 memory=%dMi", i))
		}
		if u.Add(p.Name, converted(t, p)); i >= 1024 && u.Mix() != taken {
			renewals++
		}
		taken = u.Mix()
	}
	if renewals > 1 {
		t.Errorf("the mix was renewed %d times", renewals)
	}
}

// Every score computes what each pod of the mix would get: pods of very many containers are not part of it.
func TestTheMixIsLearnedFromOrdinaryPods(t *testing.T) {
	var u Workload
	for i := range score.Remembered {
		u.Add(fmt.Sprint(i), converted(t, kubetest.Many("p", maxLearned)))
	}
	if got := len(u.Mix().Shares()); got != 0 {
		t.Errorf("the mix has %d kinds of pods", got)
	}
	mix, _ := u.Add("x", converted(t, kubetest.Many("q", maxLearned-1)))
	if len(mix.Shares()) != 1 {
		t.Errorf("the mix has %d kinds of pods, want 1", len(mix.Shares()))
	}
}

func converted(t *testing.T, pod *v1.Pod) *place.Pod {
	t.Helper()
	p, err := apipod.ToPlace(pod)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
