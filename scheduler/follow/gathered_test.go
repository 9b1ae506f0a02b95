package follow

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// What is gathered follows the events. Pods of one node follow each other, in order of their names.
func TestPodsAreGathered(t *testing.T) {
	on := func(name, node string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}, Spec: v1.PodSpec{NodeName: node}}
	}
	g := &Gathered{}
	wants := func(want ...string) {
		t.Helper()
		var got []string
		for _, p := range g.All() {
			got = append(got, fmt.Sprint(p.Spec.NodeName, " ", p.Name))
		}
		byNode := slices.Clone(got)
		slices.SortStableFunc(byNode, func(a, b string) int { return int(a[0]) - int(b[0]) })
		if !slices.Equal(byNode, want) {
			t.Errorf("gathered are %v, want %v", got, want)
		}
		if nodes := slices.Compact(slices.Collect(func(yield func(byte) bool) {
			for _, x := range got {
				if !yield(x[0]) {
					return
				}
			}
		})); len(slices.Compact(slices.Sorted(slices.Values(nodes)))) != len(nodes) {
			t.Errorf("pods of one node do not follow each other: %v", got)
		}
	}
	wants()
	waits := on("b", "")
	for _, p := range []*v1.Pod{on("c", "m"), waits, on("a", "m"), on("d", "n")} {
		g.OnAdd(p, true)
	}
	wants(" b", "m a", "m c", "n d")
	bound := on("b", "m")
	g.OnUpdate(waits, bound)
	g.OnAdd(on("d", "n"), false) // as after another list
	wants("m a", "m b", "m c", "n d")
	g.OnDelete(cache.DeletedFinalStateUnknown{Key: "ml/d", Obj: on("d", "")}) // of a time before it had a node
	g.OnDelete(bound)
	g.OnDelete(bound)
	wants("m a", "m c")
}
