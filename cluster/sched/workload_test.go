package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// GPUs that the cluster's usual pods want together are left together, though the other node would waste
// fewer CPUs; what is usual is what any profile of the scheduler is asked for.
func TestScoreKeepsWhatUsualPodsNeed(t *testing.T) {
	first := newPlugin(t, refuse)
	shared := &Shared{Book: first.Book, Feed: first.Feed, Ready: first.Ready}
	p, other := pluginOf(t, shared, refuse), pluginOf(t, shared, "{}")
	p.Feed.Layout(
		layout(t, "four", "numa 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b,c,d numa 0", place.SingleNUMA, 1),
	)
	p.Feed.Layout(
		layout(t, "three", "numa 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a,b,c numa 0", place.SingleNUMA, 1),
	)
	one := podOf("one", "cpu=1 memory=1Gi acme.com/gpu=1")
	if got := scores(t, p, one, "four", "three"); !slices.Equal(got, []int64{100, 90}) {
		t.Errorf("scores %v before anything else was asked for: the fuller node is the better one", got)
	}
	for i := range 8 {
		cycle(t, other, podOf(fmt.Sprint("wide", i), "cpu=4 memory=4Gi acme.com/gpu=4"))
	}
	if got := scores(t, p, one, "four", "three"); !slices.Equal(got, []int64{85, 100}) {
		t.Errorf("scores %v after pods of four GPUs were asked for", got)
	}
}

// A scheduler that is started anew learns from the pods that are there what the one before it was asked for.
func TestTheMixIsThereAfterARestart(t *testing.T) {
	var before, after workload
	var pods []*v1.Pod
	for i := range 3000 {
		p := cpus(fmt.Sprint("p", i), 1+i/1000)
		if i%5 == 0 {
			p = podOf(p.Name, "cpu=2 memory=1Gi acme.com/gpu=1")
		}
		p.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		pods = append(pods, p)
		if s, status := translate(p); status.IsSuccess() {
			before.asked(s.uid, s.pod)
		}
	}
	plain := podOf("plain", "")
	huge := podOf("huge", "cpu=4 memory=9Ei acme.com/gpu=9000000000")
	slices.Reverse(pods)
	after.learn(append(pods, plain, huge))
	// Either may be up to 64 pods behind, and what makes no difference is not followed.
	for name, m := range map[string]*score.Mix{"before": before.mix(), "after": after.mix()} {
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

// People can see what a scheduler takes for usual.
func TestTheMixCanBeLookedAt(t *testing.T) {
	var u workload
	if text := inspect.Text(u.mix()); text != "" {
		t.Errorf("a scheduler that was asked for nothing says %q", text)
	}
	s, _ := translate(podOf("p", "cpu=2 memory=1Gi acme.com/gpu=1"))
	u.asked(s.uid, s.pod)
	if text := inspect.Text(u.mix()); text != "100% 2 cpu, 1Gi memory, 1 acme.com/gpu" {
		t.Errorf("the mix reads %q", text)
	}
}

// While a cluster runs what it always runs, the mix stays the very same, and what placements cost by it is known:
// a few pods of other kinds make no difference.
func TestTheMixStaysWhileTheClusterRunsTheSame(t *testing.T) {
	var u workload
	renewals, taken := 0, u.mix()
	for i := range 4096 {
		p := cpus(fmt.Sprint("p", i), 1+i%6)
		if i%32 == 31 {
			p = podOf(p.Name, fmt.Sprintf("cpu=2 memory=%dMi", i))
		}
		s, _ := translate(p)
		if u.asked(s.uid, s.pod); i >= 1024 && u.mix() != taken {
			renewals++
		}
		taken = u.mix()
	}
	if renewals > 1 {
		t.Errorf("the mix was renewed %d times", renewals)
	}
}
