package capacity

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/whatif"
)

// What is counted node by node agrees with a search of all nodes, whatever has changed since the round before:
// holdings, taints, labels, places that are kept, and which nodes there are.
func TestCountedRoomIsWhatASearchFinds(t *testing.T) {
	const seed, nodes = 7, 12
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, nodes, 16)
	all := w.nodes
	for i := range 24 {
		w.ask(fmt.Sprint("r", i), 1+i%6, 3+i/4*2)
	}
	w.templates["r3"].Template.Spec.NodeSelector = map[string]string{"pool": "a"}
	w.templates["r7"].Template.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	answers := map[bool]int{}
	for range 300 {
		at := r.IntN(nodes)
		switch r.IntN(6) {
		case 0:
			all[at].Spec.Unschedulable = !all[at].Spec.Unschedulable
		case 1:
			all[at].Labels = map[string]string{"pool": string("ab"[r.IntN(2)])}
		case 2:
			w.nodes = append(all[:at:at], all[at+1+r.IntN(nodes-at):]...)
		default:
			w.fill(all[at].Name, r.IntN(16))
		}
		s, err := w.Stage(&w.requested)
		if err != nil {
			t.Fatal(err)
		}
		d := &deciding{Controller: w.Controller, stage: s}
		w.rooms.update(d.nodes(), s.Objects())
		for _, x := range w.list() {
			if x.open() && d.prepare(t.Context(), x) {
				gang, _, err := d.gang(t.Context(), x)
				if err != nil {
					t.Fatal(err)
				}
				out, err := whatif.New(d.nodes(), whatif.Rules{}).Together(gang, func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				short := d.short(x)
				if answers[short]++; short == out.Fits {
					t.Fatalf("request %s: counted as short: %t; it fits: %t", x.name, short, out.Fits)
				}
			}
		}
		if name := fmt.Sprint("r", r.IntN(24)); r.IntN(10) == 0 { // one of them gets its answer, or ends
			if o, there, _ := w.objects.GetByKey("ml/" + name); there && w.said(name, provisioning.Provisioned) != "" {
				_ = w.objects.Delete(o)
			}
			w.round(t.Context())
		}
	}
	if answers[true] < 200 || answers[false] < 200 {
		t.Errorf("answers: %v", answers)
	}
}
