package main

import (
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/test/bench/rounds"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// contenders of the tests are this program again.
const asContender = "TENON_CONTENDER"

func TestMain(m *testing.M) {
	if os.Getenv(asContender) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Pods are really scheduled, and every node would admit Tenon's placements. Without Tenon some would be refused;
// otherwise there would be nothing to compare.
func TestPlacementsAreAdmitted(t *testing.T) {
	t.Setenv(asContender, "1")
	deployed, err := rounds.Deployed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := rounds.Options{Size: synthetic.Size{Nodes: 60, Full: 90}, Seed: 3, Rounds: 1, Blocks: 3}
	results, err := rounds.Measure(t.Context(), []rounds.Contender{
		{Name: rounds.Plain, Command: []string{os.Args[0], "-plain"}},
		{Name: rounds.Tenon, Command: []string{os.Args[0]}, Profile: deployed},
	}, o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := pods(o)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	for _, r := range results {
		if least := 3 * synthetic.Block; r.Placed < least {
			t.Errorf("%s placed %d pods of %d", r.Contender, r.Placed, r.Placed+r.Refused)
		}
		if r.CPU <= 0 || r.Bytes <= 0 || r.Evaluated < 1 || r.Evaluated > 60 || r.Memory <= 0 {
			t.Errorf("%s: no measurement: %+v", r.Contender, r)
		}
		refused[r.Contender] = replay(t, o, pods, r)
		t.Logf("%s: %d pods placed, %d of them would be refused", r.Contender, r.Placed, refused[r.Contender])
	}
	if refused[rounds.Tenon] > 0 {
		t.Errorf("%d pods that Tenon placed would be refused", refused[rounds.Tenon])
	}
	if refused[rounds.Plain] == 0 {
		t.Error("no pod that kube-scheduler placed would be refused: the cluster is too easy")
	}
}

func pods(o rounds.Options) (map[string]*v1.Pod, error) {
	c, err := synthetic.Make(o.Size, o.Seed)
	if err != nil {
		return nil, err
	}
	all, err := c.Arrivals((1 + o.Rounds*o.Blocks) * synthetic.Block)
	if err != nil {
		return nil, err
	}
	out := map[string]*v1.Pod{}
	for _, p := range all {
		out[p.Name] = p
	}
	return out, nil
}

// replay sends pods to their nodes and counts those that are refused.
func replay(t *testing.T, o rounds.Options, pods map[string]*v1.Pod, r rounds.Result) (refused int) {
	c, err := synthetic.Make(o.Size, o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*place.Usage{}
	for _, n := range c.States {
		nodes[n.Name] = n.Usage
	}
	for _, p := range r.Places {
		if p.Node == "" {
			continue
		}
		cp, err := pod.ToPlace(pods[p.Pod])
		if err != nil {
			t.Fatal(err)
		}
		v := place.Place(nodes[p.Node], cp)
		if !v.Fits() {
			refused++
			continue
		}
		nodes[p.Node] = nodes[p.Node].Hold(v.Holdings...)
	}
	return refused
}
