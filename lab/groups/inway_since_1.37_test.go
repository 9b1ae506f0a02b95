//go:build !upto1.36

package groups_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// A gang waits that fits nowhere. "explain" names the fewest pods in its way; when just these pods have ended, the gang
// runs, beside all others.
func TestAGangRunsOnceThePodsInItsWayHaveEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := startNodes(ctx, t)
	_, client, pods := startScheduler(ctx, t, c, scheduler.Tenon, nil)
	held := group{name: "held"}
	for i, cpus := range []int{20, 18, 20, 18, 20, 18} {
		held.add(cpus, "abc"[i/2], "")
	}
	held.fill(ctx, t, client, pods)
	g := group{name: "gang", need: 3}
	for _, cpus := range []int{12, 25, 11, 25} { // one of the four may wait
		g.add(cpus, 0, "")
	}
	g.join()
	g.create(ctx, t, client)
	if _, err := pods.Until(ctx, func(all []*v1.Pod) bool {
		return slices.ContainsFunc(all, func(p *v1.Pod) bool {
			return p.Name == "gang-3" && len(p.Status.Conditions) > 0
		})
	}); err != nil {
		t.Fatal(err)
	}
	way := inWay(ctx, t, c, "podgroup/gang")
	if len(way) != 1 {
		t.Fatalf("pods %v are in the way of a gang, want one: the others fit", way)
	}
	for _, name := range way {
		if err := client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := pods.Until(ctx, func(all []*v1.Pod) bool { return g.progress(all).running >= g.need })
	if err != nil {
		describe(t, map[string]group{g.name: g}, all)
		t.Fatal(err)
	}
	if n := held.progress(all).running; n != len(held.pods)-len(way) {
		t.Errorf("%d of the other pods run, want %d", n, len(held.pods)-len(way))
	}
}

// inWay returns the names of the pods that "explain" finds in the way of a workload.
func inWay(ctx context.Context, t *testing.T, c *lab.Cluster, workload string) (names []string) {
	t.Helper()
	out := explain(ctx, t, c, workload, "-o", "json")
	var d struct {
		Together struct{ Once []struct{ Name string } }
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("explain %s: %v\n%s", workload, err, out)
	}
	for _, p := range d.Together.Once {
		names = append(names, p.Name)
	}
	return names
}
