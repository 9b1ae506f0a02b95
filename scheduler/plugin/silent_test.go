package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
)

func TestSilentNodes(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := bind(cpus("x", 1), "n")
	p.Book.Assume("n", kube.ID(x), mustPod(t, x))
	p.Book.Admitted(string(x.UID))
	p.Book.Overdue(string(x.UID))
	pod := cpus("y", 1)
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	p.guard.Silent = true
	if status := filter(t, p, cycle(t, p, pod), "n"); status.Message() != "node's agent is silent: a report is overdue" {
		t.Errorf("status %v", status)
	}
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, holding(x, "0")))
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	p.Book.Overdue(string(x.UID)) // which is reported by now
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
}

func mustPod(t *testing.T, pod *v1.Pod) *place.Pod {
	t.Helper()
	p, err := apipod.ToPlace(pod)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
