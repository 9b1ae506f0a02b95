package capacity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// With as many more nodes as the answer names, a request has room, and with one less it has none.
func TestAsManyMoreNodesAsSaidGiveRoom(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	r, helped := rand.New(rand.NewPCG(seed, 0)), 0
	for range 40 {
		nodes, count, cpus, free := 1+r.IntN(3), 1+r.IntN(12), 3+r.IntN(14), r.IntN(16)
		grown := func(more int) *world {
			w := newWorld(t, nodes+more, 16)
			for i := range nodes {
				w.fill(fmt.Sprintf("n%04d", i), free)
			}
			w.ask("job", count, cpus)
			w.round(t.Context())
			return w
		}
		w := grown(0)
		if strings.HasPrefix(w.said("job", provisioning.Provisioned), "True") {
			continue
		}
		more := 0
		if _, err := fmt.Sscanf(w.said("job", provisioning.MoreNodes), "True: all pods would fit with %d more like n0000",
			&more); err != nil {
			if cpus <= 16 {
				t.Errorf("%d pods of %d CPUs: %s", count, cpus, w.said("job", provisioning.MoreNodes))
			}
			continue
		}
		helped++
		if got := w.Wanted(); len(got) != 1 || got["n0000"] != more {
			t.Errorf("wanted are %v, and %d in the answer", got, more)
		}
		enough, tooFew := grown(more), grown(more-1)
		enough.wants(t, "job", provisioning.Provisioned, "True")
		tooFew.wants(t, "job", provisioning.Provisioned, "False")
	}
	if helped < 15 {
		t.Errorf("more nodes helped %d times", helped)
	}
}

// The kind with the fewest nodes comes first, and one that the pods may not use is not named.
func TestKindsOfNodesThatWouldHelp(t *testing.T) {
	w := newWorld(t, 4, 16)
	for i := range w.nodes {
		w.fill(w.nodes[i].Name, 0)
		w.nodes[i].Labels = map[string]string{"pool": []string{"a", "b", "b", "c"}[i], v1.LabelHostname: w.nodes[i].Name}
	}
	w.nodes[0].Status.Allocatable["pods"] = resource.MustParse("1")
	w.nodes[1].Spec.Unschedulable = true // new nodes are not cordoned
	w.nodes[2].Spec.Unschedulable = true
	w.nodes[3].Spec.Taints = []v1.Taint{{Key: "own", Effect: v1.TaintEffectNoSchedule}}
	w.ask("job", 3, 16)
	w.ask("large", 1, 17)
	w.ask("picky", 1, 1)
	w.templates["picky"].Template.Spec.NodeSelector = map[string]string{"pool": "a"}
	w.round(t.Context())
	w.wants(t, "job", provisioning.MoreNodes, "True: all pods would fit with 2 more like n0001, or 3 more like n0000")
	w.wants(t, "picky", provisioning.MoreNodes, "True: all pods would fit with 1 more like n0000")
	w.wants(t, "large", provisioning.MoreNodes, "False: more nodes of no single kind")
	if got := fmt.Sprint(w.Wanted()); got != "map[n0000:1 n0001:2]" {
		t.Errorf("wanted are %s", got)
	}
	w.fill("n0000", 16)
	w.round(t.Context())
	w.wants(t, "picky", provisioning.MoreNodes, "False: the pods have room")
	if got := fmt.Sprint(w.Wanted()); got != "map[n0001:2]" {
		t.Errorf("wanted are %s", got)
	}
}

// Each set of a request has its own selector, also if the pods ask for the same.
func TestEachSetHasItsOwnKinds(t *testing.T) {
	w := newWorld(t, 2, 16)
	for i, pool := range []string{"a", "b"} {
		w.nodes[i].Labels = map[string]string{"pool": pool}
	}
	w.fill("n0000", 0)
	w.ask("job", 1, 16)
	w.ask("other", 1, 16)
	for name, pool := range map[string]string{"job": "a", "other": "b"} {
		w.templates[name].Template.Spec.NodeSelector = map[string]string{"pool": pool}
	}
	o, _, _ := w.objects.GetByKey("ml/job")
	r, _ := o.(*provisioning.Request)
	r.Spec.PodSets = append([]provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: "other"}}},
		r.Spec.PodSets...)
	w.round(t.Context())
	w.wants(t, "job", provisioning.MoreNodes, "True: all pods would fit with 1 more like n0000")
}
