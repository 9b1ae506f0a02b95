package report

import (
	"testing"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/place"
)

// People who come from scheduler-plugins search events for its texts.
func TestAProfileOfTheOtherPluginUsesItsTexts(t *testing.T) {
	pod := &place.Pod{
		Containers: []place.Container{{Name: "i", Kind: place.Init}, {Name: "s", Kind: place.Sidecar}, {Name: "c"}},
	}
	short := func(container string) place.Reason {
		return place.Reason{Code: place.Short, Container: container, Resource: "cpu", Want: 8, Have: 4}
	}
	const rest = " (wants 8 cpu; node has 4 free)"
	for _, c := range []struct{ container, tenon, match string }{
		{"i", `cannot align container "i"`, `cannot align init container "i"`},
		{"s", `cannot align container "s"`, `cannot align sidecar container "s"`},
		{"c", `cannot align container "c"`, `cannot align container "c"`},
		{"", `cannot align pod`, `cannot align pod`},
	} {
		for name, want := range map[string]string{config.Tenon: c.tenon, config.Match: c.match} {
			if got := Words(name).Reason(pod, short(c.container)); got != want+rest {
				t.Errorf("%s: %q, want %q", name, got, want+rest)
			}
		}
	}
	if got := Words(config.Match).NotHelpful(); got != "Preemption is not helpful for scheduling" {
		t.Errorf("a pod that waits says %q", got)
	}
	if got := Words(config.Tenon).NotHelpful(); got != "" {
		t.Errorf("a pod that waits says %q", got)
	}
}
