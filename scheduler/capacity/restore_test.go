package capacity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// A scheduler that starts keeps places again by what was written down. It waits for no template, however many requests
// there are and although some are gone.
func TestPlacesAreKeptAgainWithoutTemplates(t *testing.T) {
	w := newWorld(t, 10, 32)
	for i := range 20 {
		name := fmt.Sprint("r", i)
		w.ask(name, 3, 1+i%3)
		w.templates[name].Template.Annotations = map[string]string{pod.IgnoreAnnotation: "memory"}
	}
	for range 3 {
		w.round(t.Context())
	}
	before := w.keeper.Places()
	var demands []string
	for _, s := range w.known["ml/r0"].sets {
		demands = append(demands, fmt.Sprintf("%+v", s.Demand))
	}
	delete(w.templates, "r0")
	w.start()
	w.delay = func() { t.Error("a template is read") }
	w.round(t.Context())
	if got := w.keeper.Places(); len(before) == 0 || fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("kept are %v, and %v before the restart", got, before)
	}
	x, err := w.promisedBy(w.known["ml/r0"])
	if err != nil || fmt.Sprintf("%+v", x[0].Demand) != demands[0] || x[0].Pod.Pod.Shape() == "" {
		t.Errorf("read are %+v, %v; want the demand %s", x, err, demands)
	}
}

// Requests of pods with claims need their templates. Many are read at the same time.
func TestTemplatesAreReadTogetherAfterARestart(t *testing.T) {
	const most = 3
	g := newGPUs(t, 10, 0, 1)
	for i := range 2 * most {
		g.asks(fmt.Sprint("r", i), 1, 1, 1, nil)
	}
	for range 4 {
		g.look(t, time.Second)
	}
	before := g.keeper.Left()
	g.restart()
	ahead := 0
	g.look(t, time.Second)
	for _, r := range g.known {
		if r.sets != nil && r.early {
			ahead++
		}
	}
	if got := g.keeper.Left(); fmt.Sprint(got) != fmt.Sprint(before) || len(before) != 2*most || ahead != len(before) {
		t.Errorf("kept are %v, and %v before the restart; %d were read", got, before, ahead)
	}
}

// Requests are kept again in turn, so that a namespace with many requests does not come before all others.
func TestNamespacesAreKeptAgainInTurn(t *testing.T) {
	var list []*request
	for i, namespace := range []string{"a", "a", "a", "b", "a", "c", "b"} {
		list = append(list, &request{name: fmt.Sprint(namespace, i), object: &provisioning.Request{}})
		list[i].object.Namespace = namespace
	}
	var got []string
	for _, r := range inTurn(list) {
		got = append(got, r.name)
	}
	if want := []string{"a0", "b3", "c5", "a1", "b6", "a2", "a4"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
